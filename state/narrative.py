"""Telling a rollout to people: one line for each event that matters, the same live and in the morning."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal

from state.events import (
    ActionFailed,
    ActionStarted,
    BaselineRecorded,
    CancelRequested,
    DeviceCleared,
    DeviceQuarantined,
    Event,
    EvidenceFrozen,
    EvidenceGathered,
    HoldAnswered,
    HoldOpened,
    Judged,
    LeaseReleased,
    LeaseTaken,
    PlanMade,
    PreflightPassed,
    ReadinessReached,
    RolloutConcluded,
    RolloutRequested,
    RolloutResumed,
    SoakPassed,
    StepSucceeded,
    decode,
)
from state.hold import told
from state.model import Value
from state.store.port import RecordedEvent

Mark = Literal["done", "failed", "note"]


class Line(Value):
    """`at` is when it was recorded, `after_s` the seconds since the request, `title` the action's name."""

    at: datetime
    after_s: float
    mark: Mark
    title: str
    text: str


def narrate(history: Iterable[RecordedEvent]) -> Iterator[Line]:
    """The lines of a history, in its order; intents are left out unless nothing came of them."""
    begun: datetime | None = None
    for recorded in history:
        begun = begun or recorded.recorded_at
        told = tell(decode(recorded))
        if told:
            mark, title, text = told
            after = (recorded.recorded_at - begun).total_seconds()
            yield Line(at=recorded.recorded_at, after_s=after, mark=mark, title=title, text=text)


def title_of(action: str) -> str:
    """An action's key for people: `do:3:stop-service` is `stop-service`, `undo:3:stop-service` `undo stop-service`."""
    head, _, rest = action.partition(":")
    if head in ("do", "undo"):
        return f"{'undo ' if head == 'undo' else ''}{rest.partition(':')[2]}"
    if head == "lease":
        return "lease" if rest == "0" else f"lease again ({rest})"
    return action.replace(":new:1", "").replace(":new", "").replace(":", " ")


def tell(event: Event) -> tuple[Mark, str, str] | None:
    """(mark, title, text) of an event; None for one that is no news by itself."""
    match event:
        case RolloutRequested():
            return (
                "note",
                event.purpose,
                f"{event.service} to revision {event.revision.short}, asked by {event.actor}: {event.reason}",
            )
        case RolloutResumed():
            return "note", "resumed", f"by {event.actor}, session {event.session}"
        case CancelRequested():
            return "failed", "cancelled", f"by {event.actor}"
        case ActionStarted():
            return ("note", title_of(event.action), f"attempt {event.attempt}") if event.attempt > 1 else None
        case ActionFailed():
            hint = f" ({event.error.hint})" if event.error.hint else ""
            return "failed", title_of(event.action), f"{event.error.message}{hint}"
        case DeviceQuarantined():
            kernel = f"; the kernel says: {event.said}" if event.said else ""
            stuck = f"its unbind from {event.driver} is stuck{kernel}"
            return "failed", title_of(event.action), f"device {event.address} on {event.host} is quarantined: {stuck}"
        case DeviceCleared():
            cleared = f"device {event.address} on {event.host} is quarantined no longer"
            return "note", "gpu clear", f"{cleared}, says {event.actor}: {event.reason}"
        case _:
            return _tell_success(event)


def _tell_success(event: Event) -> tuple[Mark, str, str] | None:
    match event:
        case PlanMade():
            plan = event.plan
            text = plan.unchanged or f"{len(plan.steps)} steps, {len(plan.claims)} claims, digest {event.digest[:12]}"
            return "done", "plan", text
        case LeaseTaken():
            numbers = ", ".join(f"number {n} on {host}" for host, n in event.fencing.items())
            reverted = (
                f"; {', '.join(event.reverted)} had restored the old state by its own timer" if event.reverted else ""
            )
            return "done", title_of(event.action), numbers + reverted
        case PreflightPassed():
            return "done", "preflight", "; ".join((*event.checks, *(f"note: {w}" for w in event.warnings)))
        case BaselineRecorded():
            return "done", "baseline", event.summary
        case StepSucceeded():
            return "done", title_of(event.action), _step_text(event)
        case ReadinessReached():
            stages = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in event.stages)
            return "done", title_of(event.action), f"a generation came back after {event.seconds:.1f} s ({stages})"
        case EvidenceGathered():
            size = sum(item.size for item in event.items.values())
            return "done", title_of(event.action), f"{len(event.items)} pieces of evidence, {size // 1024} KiB"
        case Judged():
            return _tell_judgement(event)
        case HoldOpened():
            return "note", "hold", f"asks until {event.deadline}, otherwise {event.default}: {event.question}"
        case HoldAnswered():
            return "done" if event.answer == "promote" else "failed", "hold", told(event)
        case SoakPassed():
            return "done", "soak", f"the same start still generates after {event.seconds:g} s"
        case EvidenceFrozen():
            return "done", "freeze", f"{len(event.items)} pieces of evidence kept before anything is undone"
        case RolloutConcluded():
            good = event.exit_code == 0
            dark = f"; dark for {event.dark_s:.1f} s" if event.dark_s is not None else ""
            return "done" if good else "failed", event.outcome, event.summary + dark
        case LeaseReleased():
            return "done", "release", "the lease is given back"
    return None


def _tell_judgement(event: Judged) -> tuple[Mark, str, str]:
    counts = {
        outcome: sum(v.outcome == outcome for v in event.verdicts) for outcome in ("held", "refuted", "inconclusive")
    }
    text = ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    named = [v for v in event.verdicts if v.outcome != "held"]
    if named:
        text += f"; {named[0].claim}: {named[0].reason}"
    return "done" if event.outcome == "held" else "failed", title_of(event.action), text


def _step_text(event: StepSucceeded) -> str:
    facts = event.facts
    if "invocation" in facts:
        kept = ", which had kept running" if facts.get("kept_running") else ""
        return f"PID {facts['main_pid']}, invocation {str(facts['invocation'])[:12]}{kept}"
    if "stopped_pids" in facts:
        pids = ", ".join(map(str, facts["stopped_pids"]))
        return f"gone: PID {pids}; cgroup empty, port closed"
    if "moved" in facts:
        left = f"; left in quarantine: {', '.join(facts['quarantined'])}" if facts.get("quarantined") else ""
        return f"{len(facts['moved'])} devices moved and read back{left}"
    if "staged" in facts:
        return f"{len(facts['staged'])} contents on the host, read back by SHA-256"
    return str(facts.get("timer", "read back as wanted"))
