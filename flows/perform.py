"""What each action does once there is something to do: the work of `tasks`, and the event that it makes."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial

from tenacity import stop_after_attempt, wait_fixed

from flows import hold, lease, prove
from flows.history import History
from flows.keepalive import renew_timers, until_restored
from flows.spooled import mark_ahead, old_files_are_kept
from flows.uncut import uncut
from flows.work import Work, keep
from state.action import step as step_action
from state.engines.engine import Engine, engine_for
from state.errors import PlanStale, PreflightRefused
from state.events import BaselineRecorded, Event, PreflightPassed, StepSucceeded
from state.leases import proven
from state.observation import Observation
from state.steps import (
    ArmTimer,
    DisarmTimer,
    DiscardStaged,
    InstallFiles,
    RebindGpus,
    StageFiles,
    StartService,
    Step,
    StopService,
)
from state.traffic import baseline_order
from tasks import activate, baseline, rebind, service, stage, timer
from tasks.again import ask_again
from tasks.observe import observe, observe_unit
from tasks.preflight import preflight
from tasks.sequence import forget_units
from tasks.together import together
from tasks.verification import Items

LOOKS, LOOK_AGAIN_S = 20, 0.5
"""For a service that is between two starts: systemd pauses for 0.1 s by default (RestartSec=), or some seconds."""


async def _lease(work: Work) -> Event:
    return await uncut(_taken(work))


async def _taken(work: Work) -> Event:
    """The hosts' timers may have waited for as long as nobody drove this: they begin anew with the lease."""
    key, session = work.action.key, work.rollout.session
    if key == "lease:reverted":
        await until_restored(work.rollout, work.hosts)
    taken = await lease.take(work.ports, work.hosts, work.requested, key, work.attempt, session)
    await renew_timers(work.rollout, work.hosts, taken.fencing)
    return taken


async def _preflight(work: Work) -> Event:
    """What the plan rests on is observed anew while everything else is asked."""
    async with together() as group:
        observed = group.create_task(_as_planned(work))
        loaded = group.create_task(_loaded_gb(work))
        found = await preflight(work.host, work.gpu_host, work.engine, work.revision, work.plan, observed, loaded)
    if found.refusals:
        raise PreflightRefused(found.refusals)
    return PreflightPassed(
        action=work.action.key,
        attempt=work.attempt,
        checks=found.checks,
        warnings=found.warnings,
        engine_version=found.engine_version,
    )


async def _as_planned(work: Work) -> Observation:
    """Raises PlanStale where it is not as it was when the plan was made. A service that fails at each start is looked
    at until it has come, or gone, as it had then."""
    planned = work.plan.observed

    def between_starts(seen: Observation) -> bool:
        return seen.comes_and_goes and not seen.is_as_planned(planned)

    look = partial(observe, work.host, work.gpu_host, work.revision)
    observed = await ask_again(look, between_starts, wait=wait_fixed(LOOK_AGAIN_S), stop=stop_after_attempt(LOOKS))
    if not observed.is_as_planned(planned):
        raise PlanStale(planned, observed.digest)
    return observed


async def _loaded_gb(work: Work) -> float | None:
    """What the newest proven start of the same model, draft and ranks loaded on each GPU."""
    wanted = work.engine.loading(work.revision.arguments)
    for one in reversed(proven(await work.ports.events.read(f"service-{work.revision.service}"))):
        loading = work.engine.loading(one.revision.arguments)
        if one.revision.engine == work.revision.engine and loading.same_weights(wanted):
            history = History(work.ports, one.rollout)
            facts = (f for judged in (await history.load()).judged.values() for f in judged.facts)
            return next((float(f.value) for f in facts if f.metric == "memory.weights_gb" and f.value), None)
    return None


async def _baseline(work: Work) -> Event:
    unit = await observe_unit(work.host, work.revision.unit)
    taken = await baseline.take(work.host, _running(work), work.plan.previous, unit)
    if taken.good and work.plan.previous:
        await baseline.refuse_other_key(work.host, _running(work), work.plan.previous, work.revision)
    items = {**taken.items, **await _measured(work, good=taken.good)}
    gpu_host = work.gpu_host if work.revision.drivers else None
    async with together() as group:
        cursor = group.create_task(baseline.cursor(work.host))
        gpu_cursor = group.create_task(baseline.cursor(gpu_host)) if gpu_host else None
        kept = group.create_task(keep(work.ports.evidence, items))
    return BaselineRecorded(
        action=work.action.key,
        attempt=work.attempt,
        good=taken.good,
        summary=taken.summary,
        invocation=taken.invocation,
        main_pid=taken.main_pid,
        pids=taken.pids,
        cursor=cursor.result(),
        gpu_cursor=gpu_cursor.result() if gpu_cursor else "",
        evidence=kept.result(),
    )


def _running(work: Work) -> Engine:
    """The engine of the service as it is, which may be another than the one that is wanted."""
    return engine_for(work.plan.previous.engine) if work.plan.previous else work.engine


async def _measured(work: Work, *, good: bool) -> Items:
    """What the new side will be held against, from a service that generates; nothing if no claim compares."""
    order = baseline_order(work.plan.claims, work.plan.traffic, prove.salt_of(work))
    if order is None or work.plan.previous is None or not good:
        return {}
    return await baseline.measured(work.host, _running(work), work.plan.previous, order, work.ports.clock)


async def _step(work: Work) -> Event:
    await mark_ahead(work.ports, work.rollout, work.hosts)
    index = work.action.step if work.action.step is not None else -1
    planned = work.plan.steps[index]
    step = planned.inverse() if work.action.direction == "undo" else planned
    if work.action.direction == "undo":
        await _end_what_runs(work, planned, index)
    taken = _take_step(work, step)
    facts = await (uncut(taken) if step.role == "guard" else taken)
    return StepSucceeded(
        action=work.action.key, attempt=work.attempt, step=index, direction=work.action.direction, facts=facts
    )


async def _end_what_runs(work: Work, planned: Step, index: int) -> None:
    """An attempt whose orchestrator was cancelled or died may still run on the host: it must not meet its own undo."""
    key = step_action(index, planned.kind, "do").key
    if planned.role == "outage" and key not in work.rollout.done:
        await forget_units(work.hosts[planned.host], work.fence(planned.host), [work.unit(key)])


async def _take_step(work: Work, step: Step) -> Mapping[str, object]:
    host, fence, key = work.hosts[step.host], work.fence(step.host), work.action.key
    match step:
        case StageFiles():
            contents = {f.digest: f.data for f in work.revision.files}
            contents |= {digest: text.encode() for digest, text in step.texts.items()}
            return await stage.stage(host, step, fence, contents)
        case DiscardStaged() if await old_files_are_kept(work.ports, step.host):
            return {"kept": True}
        case DiscardStaged():
            return await stage.discard(host, step, fence)
        case ArmTimer():
            return await timer.arm(host, step, fence)
        case DisarmTimer():
            return await timer.disarm(host, step, fence)
        case StopService():
            return await service.stop(host, step, fence, key, known=_known(work))
        case StartService():
            before = work.rollout.baseline.invocation if work.rollout.baseline else ""
            return await service.start(host, step, fence, key, before=before, clear=_cleared(work))
        case RebindGpus():
            return await rebind.rebind(host, step, fence, key, work.action.direction)
        case InstallFiles():
            return await activate.install(host, step, fence, key, work.action.direction)


def _known(work: Work) -> service.Noted:
    """When the old service is stopped: the processes that it had at the baseline."""
    return _noted(work, ()) if work.action.direction == "do" else service.NOBODY


def _cleared(work: Work) -> service.Noted | None:
    """When the old service is started again: the processes that both had, whose leftovers would be in its way."""
    if work.action.direction == "do":
        return None
    return _noted(work, work.rollout.service.get("stopped_pids", ()))


def _noted(work: Work, others: Iterable[int]) -> service.Noted:
    had = work.rollout.baseline
    return service.Noted(frozenset([*(had.pids if had else ()), *others]), had.cursor if had else "")


ACTIONS: Mapping[str, Callable[[Work], Awaitable[Event | None]]] = {
    "lease": _lease,
    "preflight": _preflight,
    "baseline": _baseline,
    "step": _step,
    "await-readiness": prove.await_readiness,
    "verify": prove.verify,
    "judge": prove.judge_evidence,
    "open-hold": hold.open_hold,
    "hold": hold.await_answer,
    "soak": prove.soak,
    "freeze": prove.freeze,
}
