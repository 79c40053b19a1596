"""A rollout as the fold of its events: `evolve` takes in one event, whatever it is, and never argues."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

from state.claims import Verdict
from state.events import (
    ActionFailed,
    ActionStarted,
    BaselineRecorded,
    CancelRequested,
    DeviceCleared,
    DeviceQuarantined,
    ErrorFacts,
    Event,
    EvidenceGathered,
    EvidenceItem,
    HoldAnswered,
    HoldOpened,
    Judged,
    LeaseReleased,
    LeaseTaken,
    PlanMade,
    PreflightPassed,
    RolloutConcluded,
    RolloutRequested,
    RolloutResumed,
    StepSucceeded,
    Succeeded,
)
from state.plan import Plan


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why the way forward was left: the first cause, kept apart from whatever fails in the undo."""

    action: str
    error: ErrorFacts


@dataclass(frozen=True, slots=True)
class Rollout:
    """What the history of one rollout says. `attempts` counts an action's starts, `done` holds keys with their facts,
    `failures` the error of an action's newest attempt, if that attempt failed, `revivals` a name for each time that the
    way back began anew, because a stranded rollout was gone on with or a host had restored itself (what units of steps
    that ran before that had done may be undone by now), `quarantined` the devices that it quarantined and nobody has
    cleared, by address, `spent` the seconds that a side's rounds took up to each of them."""

    requested: RolloutRequested | None = None
    plan: Plan | None = None
    session: int = 0
    attempts: Mapping[str, int] = field(default_factory=dict)
    done: Mapping[str, Succeeded] = field(default_factory=dict)
    failures: Mapping[str, ErrorFacts] = field(default_factory=dict)
    fencing: Mapping[str, int] = field(default_factory=dict)
    leased: bool = False
    baseline: BaselineRecorded | None = None
    engine_version: str | None = None
    judged: Mapping[str, Judged] = field(default_factory=dict)
    gathered: Mapping[str, Mapping[str, EvidenceItem]] = field(default_factory=dict)
    spent: Mapping[str, float] = field(default_factory=dict)
    service: Mapping[str, Any] = field(default_factory=dict)
    trouble: Trouble | None = None
    cancelled: str = ""
    concluded: RolloutConcluded | None = None
    released: bool = False
    revivals: tuple[str, ...] = ()
    quarantined: Mapping[str, DeviceQuarantined] = field(default_factory=dict)

    def started(self, key: str) -> bool:
        return self.attempts.get(key, 0) > 0

    def failed(self, key: str, limit: int) -> ErrorFacts | None:
        """The error that ended the action for good: not retryable, or all `limit` attempts used. None while it may run.

        An attempt without its fact ended with its orchestrator, and says nothing: it is made again."""
        error = self.failures.get(key)
        if key in self.done or error is None:
            return None
        return error if not error.retryable or self.attempts.get(key, 0) >= limit else None

    @property
    def ended(self) -> bool:
        """Whether nothing is left to do for any session: concluded, and every lease given back that may have been taken
        (an intent counts), which a stranded rollout keeps."""
        if self.concluded is None:
            return False
        asked = any(key.startswith("lease:") for key in self.attempts)
        return self.released or not asked or self.concluded.outcome == "stranded"

    @property
    def hold(self) -> HoldOpened | None:
        """The question that was put to a person."""
        opened = self.done.get("open-hold")
        return opened if isinstance(opened, HoldOpened) else None

    @property
    def answer(self) -> HoldAnswered | None:
        answered = self.done.get("hold")
        return answered if isinstance(answered, HoldAnswered) else None

    @property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Those of the newest judgement."""
        return tuple(self.judged.values())[-1].verdicts if self.judged else ()


def evolve(rollout: Rollout, event: Event) -> Rollout:
    """Total: an event that means nothing here leaves the rollout as it is."""
    if isinstance(event, Succeeded):
        rollout = replace(rollout, done={**rollout.done, event.action: event})
    match event:
        case RolloutRequested():
            return replace(rollout, requested=event)
        case RolloutResumed():
            return _resumed(rollout, event)
        case CancelRequested():
            return _cancelled(rollout, event)
        case ActionStarted():
            kept = _without(rollout.failures, lambda key, _: key == event.action)
            return replace(rollout, attempts={**rollout.attempts, event.action: event.attempt}, failures=kept)
        case ActionFailed():
            return _failed(rollout, event)
        case DeviceQuarantined():
            return replace(rollout, quarantined={**rollout.quarantined, event.address: event})
        case DeviceCleared():
            kept_out = {a: e for a, e in rollout.quarantined.items() if (e.host, a) != (event.host, event.address)}
            return replace(rollout, quarantined=kept_out)
        case PlanMade():
            return replace(rollout, plan=event.plan)
        case LeaseTaken():
            return _leased(rollout, event)
        case PreflightPassed():
            return replace(rollout, engine_version=event.engine_version)
        case BaselineRecorded():
            return replace(rollout, baseline=event)
        case StepSucceeded():
            return replace(rollout, service={**rollout.service, **event.facts})
        case EvidenceGathered():
            return _gathered(rollout, event)
        case Judged():
            return replace(rollout, judged={**rollout.judged, f"{event.side}:{event.round}": event})
        case RolloutConcluded():
            return replace(rollout, concluded=event)
        case LeaseReleased():
            return replace(rollout, leased=False, released=True)
    return rollout


UNSEEN = ("host-reverted", "host-ahead")
"""Errors that say that a host was changed in ways this history does not have: by its own timer, or by an orchestrator
whose facts are on another machine."""


def _failed(rollout: Rollout, event: ActionFailed) -> Rollout:
    """A timer may act on a host after the lease was taken anew for another's: then it is taken once more. Where the
    history is behind, every step counts as begun."""
    failed = replace(rollout, failures={**rollout.failures, event.action: event.error})
    if event.error.code == "host-ahead" and rollout.plan:
        begun = {f"do:{index}:{step.kind}": 1 for index, step in enumerate(rollout.plan.steps)}
        failed = replace(failed, attempts={**begun, **rollout.attempts})
    if event.error.code not in UNSEEN or not (event.action.startswith(("undo:", "lease:")) or ":old" in event.action):
        return failed
    return replace(failed, done={key: fact for key, fact in rollout.done.items() if key != "lease:reverted"})


def _gathered(rollout: Rollout, event: EvidenceGathered) -> Rollout:
    key, before = f"{event.side}:{event.round}", f"{event.side}:{event.round - 1}"
    spent = rollout.spent.get(before, 0.0) + event.seconds
    return replace(rollout, gathered={**rollout.gathered, key: event.items}, spent={**rollout.spent, key: spent})


def fold(events: Iterable[Event], start: Rollout | None = None) -> Rollout:
    return reduce(evolve, events, start or Rollout())


def troubled(rollout: Rollout, action: str, error: ErrorFacts) -> Rollout:
    """The rollout with its first cause of leaving the way forward; a later one changes nothing."""
    return rollout if rollout.trouble else replace(rollout, trouble=Trouble(action, error))


def _leased(rollout: Rollout, event: LeaseTaken) -> Rollout:
    """Where a host had restored itself, which undid parts of the way back and started the service, that way begins anew
    with the lease; on the way forward the timer's mark stays the end."""
    taken = replace(rollout, leased=True, fencing=event.fencing)
    if event.action == "lease:reverted":
        taken = _back_anew(taken, f"{max(event.fencing.values(), default=0)}", ("undo:",))
    if not event.reverted:
        return taken
    hosts = ", ".join(event.reverted)
    error = ErrorFacts(code="host-reverted", message=f"{hosts} had restored the old state by its own timer")
    return troubled(taken, event.action, error)


def _resumed(rollout: Rollout, event: RolloutResumed) -> Rollout:
    """A conclusion that failed is tried again; after a stranded end the whole way back is, since a person has mended
    something meanwhile. The first cause stays."""
    kept = _without(rollout.failures, lambda key, _: key.startswith(("conclude:", "release")))
    resumed = replace(rollout, session=event.session, failures=kept)
    if rollout.concluded is None or rollout.concluded.outcome != "stranded":
        return resumed
    return _back_anew(replace(resumed, concluded=None), f"s{event.session}", ("undo:", "conclude:", "lease:reverted"))


def _back_anew(rollout: Rollout, name: str, begins: tuple[str, ...]) -> Rollout:
    """Nothing counts that was done on the way back: keys that begin so, and the proof of the old side. The `name` is
    the units' on this way: after a lease its fencing number, which nobody has beside it, also not an orchestrator whose
    way back is not in the history."""

    def kept(key: str) -> bool:
        return not key.startswith(begins) and ":old" not in key

    return replace(
        rollout,
        revivals=(*rollout.revivals, name),
        done={key: fact for key, fact in rollout.done.items() if kept(key)},
        attempts={key: count for key, count in rollout.attempts.items() if kept(key)},
        failures=_without(rollout.failures, lambda key, _: not kept(key)),
        judged={key: judged for key, judged in rollout.judged.items() if not key.startswith("old:")},
    )


def _cancelled(rollout: Rollout, event: CancelRequested) -> Rollout:
    """A conclusion that was begun stands: its effects, for instance a timer taken down, are not to be turned back."""
    cancelled = replace(rollout, cancelled=event.actor)
    if any(key.startswith("conclude:") for key in rollout.attempts):
        return cancelled
    error = ErrorFacts(code="cancelled", message=f"cancelled by {event.actor}", exit_code=130)
    return troubled(cancelled, "cancel", error)


def _without(failures: Mapping[str, ErrorFacts], gone: Callable[[str, ErrorFacts], bool]) -> Mapping[str, ErrorFacts]:
    return {key: error for key, error in failures.items() if not gone(key, error)}
