"""Ending a rollout: taking down the guards, recording what was proven, saying how it ended, giving the lease back."""

from collections.abc import Sequence
from contextlib import suppress

from flows.history import stream_of
from flows.lease import release as release_leases
from flows.ports import Ports
from flows.spooled import mark_ahead, old_files_are_kept, say, stays_away
from flows.work import Work
from state.claims import Verdict
from state.errors import InterlockError
from state.events import Ending, ErrorFacts, Event, LeaseReleased, RolloutConcluded
from state.hold import told, undecided
from state.leases import RevisionProven, proven
from state.next_action import begun_steps, with_trouble
from state.plan import Plan
from state.rollout import Rollout
from state.steps import ArmTimer, StageFiles
from state.times import dark_seconds
from tasks import stage, timer
from tasks.sequence import forget_units


async def conclude(work: Work) -> Event:
    ending = work.action.ending
    assert ending is not None  # `state.action.conclude` always gives one
    if ending == "promoted":
        await stays_away(work.ports)
        await mark_ahead(work.ports, work.rollout, work.hosts)
        await _take_down_guards(work)
        await _record_proven(work)
    if ending in ("promoted", "rolled-back", "aborted"):
        await _forget(work)
    recorded = await work.ports.events.read(stream_of(work.requested.rollout))
    return RolloutConcluded(
        action=work.action.key,
        attempt=work.attempt,
        outcome=ending,
        summary=summary(work.rollout, ending),
        exit_code=exit_code(work.rollout, ending),
        next_argvs=_next_argvs(work) if ending == "stranded" else (),
        dark_s=dark_seconds(recorded),
    )


async def release(work: Work) -> Event:
    await release_leases(work.ports, work.requested)
    return LeaseReleased(action=work.action.key, attempt=work.attempt)


async def with_estimate(ports: Ports, plan: Plan) -> Plan:
    """The plan with the dark time of this service's last proven rollout as its estimate."""
    last = proven(await ports.events.read_last(f"service-{plan.service}", 1))
    dark = dark_seconds(await ports.events.read(stream_of(last[-1].rollout))) if last else None
    if dark is None or not plan.starts:
        return plan
    return plan.model_copy(update={"dark_s": dark, "dark_basis": f"rollout {last[-1].rollout}"})


def exit_code(rollout: Rollout, ending: Ending) -> int:
    """The command line's exit status for an ending."""
    trouble = with_trouble(rollout).trouble
    match ending:
        case "promoted" | "unchanged" | "verified":
            return 0
        case "stranded":
            return 4
        case "refused":
            return trouble.error.exit_code if trouble and trouble.error.exit_code in (2, 3) else 3
        case _:
            return 130 if rollout.cancelled else 1


def summary(rollout: Rollout, ending: Ending) -> str:
    """One sentence for the morning after."""
    trouble = with_trouble(rollout).trouble
    why = trouble.error.message if trouble else ""
    match ending:
        case "promoted":
            return f"the new revision is in effect: {_counted(rollout.verdicts)}{_accepted(rollout)}"
        case "verified":
            return f"what runs is what the manifest asks for: {_counted(rollout.verdicts)}{_accepted(rollout)}"
        case "unchanged":
            return rollout.plan.unchanged if rollout.plan else "nothing to do"
        case "rolled-back":
            return f"{why}. The old state is back{_but_for(rollout)}: {_restored(rollout)}"
        case "stranded":
            return f"{why}. Putting the old state back failed: {_second_failure(rollout)}"
        case "superseded":
            return f"{why or _second_failure(rollout)}. Another rollout has the host now; nothing more was touched"
        case "unproven":
            return f"{why}. Nothing was changed"
        case "aborted":
            return f"{why}. The service was not touched"
        case _:
            return why


def _counted(verdicts: Sequence[Verdict]) -> str:
    held = sum(v.outcome == "held" for v in verdicts)
    return f"{held} of {len(verdicts)} claims held"


def _accepted(rollout: Rollout) -> str:
    """The doubt that was accepted: each claim that stayed open, and who let it pass."""
    left = "; ".join(f"{v.claim} stayed open: {v.reason}" for v in undecided(rollout.verdicts))
    if not left:
        return ""
    return f"; {left}; {told(rollout.answer) if rollout.answer else 'the policy accepts that'}"


def _but_for(rollout: Rollout) -> str:
    named = ", ".join(f"{q.address} on {q.host}" for q in rollout.quarantined.values())
    return f" but for {named}, in quarantine" if named else ""


def _restored(rollout: Rollout) -> str:
    old = [judged for key, judged in rollout.judged.items() if key.startswith("old:")]
    if old:
        return f"{_counted(old[-1].verdicts)} for the old revision"
    good = rollout.baseline is not None and rollout.baseline.good
    return "it was not judged" if good else "files and drivers; there was no good state to verify before"


def _second_failure(rollout: Rollout) -> str:
    """What failed in the undo, kept apart from what failed first."""
    failed = [(k, e) for k, e in rollout.failures.items() if k not in rollout.done and k.startswith(_UNDO)]
    if failed:
        key, error = failed[-1]
        return f"{key.rpartition(':')[2] if key.startswith('undo') else key}: {error.message}"
    old = [judged for key, judged in rollout.judged.items() if key.startswith("old:")]
    named = [v for v in (old[-1].verdicts if old else ()) if v.outcome != "held"]
    return "; ".join(f"{v.claim} {v.outcome}: {v.reason}" for v in named[:3]) or "no reason was recorded"


_UNDO = ("undo", "await-readiness:old", "verify:old", "judge:old", "lease:")


async def _take_down_guards(work: Work) -> None:
    for _, step in reversed(begun_steps(work.rollout)):
        host = work.hosts[step.host]
        if isinstance(step, ArmTimer):
            await timer.disarm(host, step.inverse(), work.fence(step.host))
        if isinstance(step, StageFiles) and not await old_files_are_kept(work.ports, step.host):
            await stage.discard(host, step.inverse(), work.fence(step.host))


async def _record_proven(work: Work) -> None:
    """Once for each rollout, however often it is tried."""
    event = RevisionProven(rollout=work.requested.rollout, revision=work.revision)
    await say(work.ports, f"service-{work.requested.service}", event)


async def _forget(work: Work) -> None:
    """Let systemd forget the transient units of this rollout: their results are in the history."""
    keys = [key for key in work.rollout.attempts if key.startswith(("do:", "undo:"))]
    times = ("", *work.rollout.revivals)
    units = [work.unit(key, again) for key in keys for again in (times if key.startswith("undo:") else ("",))]
    for name in sorted({step.host for _, step in begun_steps(work.rollout)}):
        for _ in range(2):  # tidiness: again over a new connection, but no reason to hold up an end that is reached
            with suppress(InterlockError):
                await forget_units(work.hosts[name], work.fence(name), units)
                break


def _next_argvs(work: Work) -> tuple[str, ...]:
    unit, host, service = work.revision.unit, work.revision.unit_host, work.requested.service
    return (
        f"interlock show {work.requested.rollout}",
        f"systemctl status {unit}    # on {host}",
        f"journalctl -u {unit} -n 100    # on {host}",
        f"sh /var/lib/interlock/{service}/revert.sh    # on {host}, as root: restores files and service",
        *(
            f"interlock gpu clear {work.requested.rollout} {q.address}    # once it is well: {q.host} may need a reboot"
            for q in work.rollout.quarantined.values()
        ),
        f"interlock recover {work.requested.rollout}",
    )


def failure(rollout: Rollout) -> ErrorFacts | None:
    """The first cause, for whoever shows it."""
    trouble = with_trouble(rollout).trouble
    return trouble.error if trouble else None
