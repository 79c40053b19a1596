"""Proving a side, new or old: readiness, evidence, judgement, and freezing what was seen before anything is undone."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress

from flows.work import Work, keep
from state.canonical import sha256_hex
from state.claims import Claim, conclusion
from state.engines.engine import engine_for
from state.errors import DeadlineExceeded, EngineFailed, HostReverted, InterlockError, StepFailed
from state.events import (
    Event,
    EvidenceFrozen,
    EvidenceGathered,
    EvidenceItem,
    Judged,
    ReadinessReached,
    Side,
    SoakPassed,
)
from state.evidence import Evidence, common_facts
from state.judging import judge
from state.keyless import KEYLESS
from state.performance import performance_facts
from state.plan import Plan
from state.request_facts import ANSWERS
from state.rollout import Rollout
from state.sampling import carried
from state.store.port import EvidenceStore
from state.target import Target
from state.traffic import BASELINE, GENERATIONS, LOAD, ordered
from tasks import baseline, readiness
from tasks.boarding import Boarding
from tasks.mark import has_reverted
from tasks.observe import observe_gpus, observe_unit
from tasks.together import together
from tasks.verification import Started, ask, read, with_older


async def await_readiness(work: Work) -> Event:
    """Raises EngineFailed, StepFailed or DeadlineExceeded, see `tasks.readiness`; HostReverted where the old side did
    not come up because a host's own timer restored it meanwhile."""
    target, started = target_of(work.plan, work.action.side), await _started(work)
    async with _unless_reverted(work):
        boarding = await readiness.await_readiness(
            work.host,
            engine_for(target.engine),
            target,
            started,
            timeout_s=work.revision.readiness_timeout_s,
            progress=work.ports.watch.progress,
            clock=work.ports.clock,
            generation_timeout_s=work.ports.generation_s,
        )
    return ReadinessReached(
        action=work.action.key,
        attempt=work.attempt,
        side=work.action.side,
        seconds=max(boarding.stages.values()),
        stages=tuple(boarding.stages.items()),
        held=_held_by_log(work, target, started, boarding),
    )


@asynccontextmanager
async def _unless_reverted(work: Work) -> AsyncIterator[None]:
    """Raises HostReverted for a failure of the old side where a host's own timer has acted."""
    try:
        yield
    except (EngineFailed, StepFailed, DeadlineExceeded) as error:
        if work.action.side == "old" and (host := await _reverted_host(work)):
            raise HostReverted(host) from error
        raise


async def _reverted_host(work: Work) -> str:
    """A host whose own timer has acted since the lease was taken; empty if none has, as far as can be told."""
    for name in work.rollout.fencing:
        with suppress(InterlockError):
            if await has_reverted(work.hosts[name]):
                return name
    return ""


def _held_by_log(work: Work, target: Target, started: Started, boarding: Boarding) -> tuple[str, ...]:
    """The claims about the engine's arguments that its log shows to hold, before anything else is gathered. The lines
    have been read as they came: no time is lost by reading them again."""
    journal = {"journal": b"\n".join(boarding.lines), "context": started.context()}
    evidence = Evidence(journal, read=boarding.reader.report())
    claims = [
        c for c in claims_of(work.plan, work.action.side) if c.plane == "control" or c.metric.startswith("argument.")
    ]
    verdicts = judge(claims, engine_for(target.engine).facts(target, evidence))
    return tuple(verdict.claim for verdict in verdicts if verdict.outcome == "held")


async def verify(work: Work) -> Event:
    """Traffic and reading; what cannot be read is left out, and judged as unknown. Samples add up over the rounds.

    Raises EngineFailed or StepFailed where the start does not get as far as traffic, HostReverted where a host's own
    timer restored the old side meanwhile: what was read may be of a service that it has stopped since.
    """
    started = await _started(work)
    target = target_of(work.plan, work.action.side)
    if work.action.round == 1:
        async with _unless_reverted(work):
            await readiness.ready_for_traffic(
                work.host,
                engine_for(target.engine),
                target,
                started,
                clock=work.ports.clock,
                generation_timeout_s=work.ports.generation_s,
            )
    begun = work.ports.clock()
    side, round_ = work.action.side, work.action.round
    order = ordered(claims_of(work.plan, side), work.plan.traffic, salt_of(work), round_, _spent(work))
    engine = engine_for(target.engine)
    asked = await ask(work.host, engine, target, order, work.ports.clock)
    async with together() as group:
        keeping = group.create_task(keep(work.ports.evidence, asked))
        reading = group.create_task(read(work.host, work.gpu_host, engine, target, started))
    kept = {**keeping.result(), **await keep(work.ports.evidence, reading.result())}
    if side == "old" and (host := await _reverted_host(work)):
        raise HostReverted(host)
    earlier = work.rollout.gathered.get(f"{side}:{round_ - 1}", {})
    return EvidenceGathered(
        action=work.action.key,
        attempt=work.attempt,
        side=side,
        round=round_,
        items={**carried(earlier, round_), **_before(work), **kept},
        seconds=round(work.ports.clock() - begun, 3),
    )


def _before(work: Work) -> dict[str, EvidenceItem]:
    """What the baseline measured for comparison, under names of its own: a judgement needs one event alone."""
    taken = work.rollout.baseline.evidence if work.rollout.baseline and work.action.side == "new" else {}
    return {f"{BASELINE}{name}": taken[name] for name in (LOAD, GENERATIONS, ANSWERS, KEYLESS) if name in taken}


def _spent(work: Work) -> float:
    return work.rollout.spent.get(f"{work.action.side}:{work.action.round - 1}", 0.0)


def salt_of(work: Work) -> str:
    """The same for both sides of a rollout, and for no other."""
    return sha256_hex(work.requested.rollout.encode())[:8]


async def judge_evidence(work: Work) -> Event:
    """Pure but for reading the evidence store: the claims of the plan over the facts of what was gathered."""
    items = work.rollout.gathered[f"{work.action.side}:{work.action.round}"]
    return await judged(
        work.ports.evidence, work.plan, work.action.key, work.attempt, work.action.side, work.action.round, items
    )


async def judged(
    store: EvidenceStore,
    plan: Plan,
    action: str,
    attempt: int,
    side: Side,
    round_: int,
    items: Mapping[str, EvidenceItem],
) -> Judged:
    """The judgement of `items`; the same items, readers and claims give the same event, today and in a year."""
    evidence = Evidence(
        {name: await store.get(item.digest) for name, item in items.items()},
        {name: i.digest for name, i in items.items()},
    )
    target = target_of(plan, side)
    claims = claims_of(plan, side)
    known = (*common_facts(target, evidence), *engine_for(target.engine).facts(target, evidence))
    facts = (*known, *performance_facts(claims, evidence))
    verdicts = judge(claims, facts, look=round_)
    return Judged(
        action=action,
        attempt=attempt,
        side=side,
        round=round_,
        outcome=conclusion(verdicts),
        verdicts=verdicts,
        facts=facts,
    )


async def soak(work: Work) -> Event:
    """Raises EngineFailed or StepFailed if the new start, or the map of drivers, does not last."""
    seconds, target = work.revision.policy.soak_s, target_of(work.plan, "new")
    await readiness.soak(work.host, engine_for(target.engine), target, await _started(work), soak_s=seconds)
    await _refuse_moved(work, target, seconds)
    return SoakPassed(action=work.action.key, attempt=work.attempt, seconds=seconds)


async def _refuse_moved(work: Work, target: Target, seconds: float) -> None:
    """A boot of the GPU host, for one, gives each function its own driver again."""
    if work.gpu_host is None or not target.drivers:
        return
    seen = await observe_gpus(work.gpu_host, sorted(target.drivers))
    off = [f"{g.address} is on {g.driver or 'no driver'}" for g in seen if g.driver != target.drivers[g.address]]
    if off:
        what = f"{', '.join(off)} of {work.gpu_host.name} {seconds:g} s after the proof, and not as the manifest says"
        raise StepFailed(
            "soak", what, hint="see its kernel log: it may have booted; `gpus.persist: boot` outlives that"
        )


async def freeze(work: Work) -> Event:
    """Journal, unit and kernel log as they are now, into the evidence store."""
    cursor = str(work.rollout.service.get("cursor", ""))
    items = await baseline.freeze(work.host, work.revision.unit, cursor)
    return EvidenceFrozen(action=work.action.key, attempt=work.attempt, items=await keep(work.ports.evidence, items))


def target_of(plan: Plan, side: Side) -> Target:
    return plan.target if side == "new" or plan.previous is None else plan.previous


def claims_of(plan: Plan, side: Side) -> tuple[Claim, ...]:
    return plan.claims if side == "new" else plan.previous_claims


def started_of(rollout: Rollout, side: Side) -> Started:
    """The newest start in the history, with the processes that were there before it.

    The new one answers for every kernel fault since the baseline (the rebinding's too), the old one for those since it
    was started again. A start that found the service running (it had never been stopped) is bound to that older start's
    own processes.
    """
    service = rollout.service
    since = rollout.baseline if side == "new" else None
    old: set[int] = set()
    if not service.get("kept_running"):
        old = set(rollout.baseline.pids if rollout.baseline else ()) | set(service.get("stopped_pids", ()))
    return Started(
        invocation=str(service["invocation"]),
        main_pid=int(service["main_pid"]),
        cursor=str(service.get("cursor", "")),
        restarts=int(service.get("restarts", 0)),
        old_pids=tuple(sorted(old - {int(service["main_pid"])})),
        kernel_cursor=since.cursor if since else str(service.get("cursor", "")),
        gpu_cursor=since.gpu_cursor if since else "",
    )


async def _started(work: Work) -> Started:
    """The newest start in the history; without one, what runs now: nothing was changed, or the host's timer did it."""
    if "invocation" in work.rollout.service:
        started = started_of(work.rollout, work.action.side)
    else:
        unit = await observe_unit(work.host, work.revision.unit)
        started = Started(unit.invocation, unit.main_pid, cursor="", restarts=unit.restarts)
    return await with_older(work.host, work.revision.unit, started)
