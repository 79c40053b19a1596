"""A rollout as the fold of its events: `evolve` takes in one event, whatever it is, and never argues.

`fold` takes in many by the same changes on one draft: to make a rollout of some twenty fields anew for each event was
nearly all of the time that a fold took.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, TypeVar

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
from state.rolled import Draft
from state.rolled import Rollout as Rollout
from state.rolled import Trouble as Trouble

Known = TypeVar("Known")
Change = Callable[[Draft, Any], None]


def evolve(rollout: Rollout, event: Event) -> Rollout:
    """Total: an event that means nothing here leaves the rollout as it is."""
    return fold((event,), rollout)


def fold(events: Iterable[Event], start: Rollout | None = None) -> Rollout:
    """What `evolve` makes of `start`, or of nothing, event by event."""
    draft = Draft.of(start or Rollout())
    for event in events:
        for change in _changes(type(event)):
            change(draft, event)
    return draft.frozen()


@cache
def _changes(kind: type[Event]) -> tuple[Change, ...]:
    """What an event of this kind changes, in order."""
    fact: tuple[Change, ...] = (_done,) if issubclass(kind, Succeeded) else ()
    return fact + tuple(change for known, change in _CHANGES.items() if issubclass(kind, known))[:1]


UNSEEN = ("host-reverted", "host-ahead")
"""Errors that say that a host was changed in ways this history does not have: by its own timer, or by an orchestrator
whose facts are on another machine."""


RESTORINGS = 9
"""How often the lease is taken anew because a host was changed in such a way, until the rollout ends stranded: what
goes on for ever is nobody's way back."""


def _done(draft: Draft, event: Succeeded) -> None:
    draft.done[event.action] = event


def _requested(draft: Draft, event: RolloutRequested) -> None:
    draft.requested = event


def _started(draft: Draft, event: ActionStarted) -> None:
    draft.attempts[event.action] = event.attempt
    draft.failures.pop(event.action, None)


def _failed(draft: Draft, event: ActionFailed) -> None:
    """A timer may act on a host after the lease was taken anew for another's: then it is taken once more. Where the
    history is behind, every step counts as begun."""
    draft.failures[event.action] = event.error
    if event.error.code == "host-ahead" and draft.plan:
        begun = {f"do:{index}:{step.kind}": 1 for index, step in enumerate(draft.plan.steps)}
        draft.attempts = {**begun, **draft.attempts}
    again = draft.attempts.get("lease:reverted", 0) < RESTORINGS
    if (
        again
        and event.error.code in UNSEEN
        and (event.action.startswith(("undo:", "lease:")) or ":old" in event.action)
    ):
        draft.done.pop("lease:reverted", None)


def _quarantined(draft: Draft, event: DeviceQuarantined) -> None:
    draft.quarantined[event.address] = event


def _cleared(draft: Draft, event: DeviceCleared) -> None:
    known = draft.quarantined.get(event.address)
    if known is not None and known.host == event.host:
        del draft.quarantined[event.address]


def _planned(draft: Draft, event: PlanMade) -> None:
    draft.plan = event.plan


def _leased(draft: Draft, event: LeaseTaken) -> None:
    """Where a host had restored itself, which undid parts of the way back and started the service, that way begins anew
    with the lease; on the way forward the timer's mark stays the end."""
    draft.leased, draft.fencing = True, dict(event.fencing)
    if event.action == "lease:reverted":
        _back_anew(draft, f"{max(event.fencing.values(), default=0)}", ("undo:",))
    if event.reverted:
        hosts = ", ".join(event.reverted)
        error = ErrorFacts(code="host-reverted", message=f"{hosts} had restored the old state by its own timer")
        _troubled(draft, event.action, error)


def _preflight_passed(draft: Draft, event: PreflightPassed) -> None:
    draft.engine_version = event.engine_version


def _baseline(draft: Draft, event: BaselineRecorded) -> None:
    draft.baseline = event


def _stepped(draft: Draft, event: StepSucceeded) -> None:
    draft.service.update(event.facts)


def _gathered(draft: Draft, event: EvidenceGathered) -> None:
    key, before = f"{event.side}:{event.round}", f"{event.side}:{event.round - 1}"
    draft.spent[key] = draft.spent.get(before, 0.0) + event.seconds
    draft.gathered[key] = event.items


def _judged(draft: Draft, event: Judged) -> None:
    draft.judged[f"{event.side}:{event.round}"] = event


def _concluded(draft: Draft, event: RolloutConcluded) -> None:
    draft.concluded = event


def _released(draft: Draft, _: LeaseReleased) -> None:
    draft.leased, draft.released = False, True


def _resumed(draft: Draft, event: RolloutResumed) -> None:
    """A conclusion that failed is tried again; after a stranded end the whole way back is, since a person has mended
    something meanwhile. The first cause stays."""
    draft.session = event.session
    draft.failures = _kept(draft.failures, lambda key: not key.startswith(("conclude:", "release")))
    if draft.concluded is not None and draft.concluded.outcome == "stranded":
        draft.concluded = None
        _back_anew(draft, f"s{event.session}", ("undo:", "conclude:", "lease:reverted"))


def _cancelled(draft: Draft, event: CancelRequested) -> None:
    """A conclusion that was begun stands: its effects, for instance a timer taken down, are not to be turned back."""
    draft.cancelled = event.actor
    if not any(key.startswith("conclude:") for key in draft.attempts):
        _troubled(draft, "cancel", ErrorFacts(code="cancelled", message=f"cancelled by {event.actor}", exit_code=130))


def _troubled(draft: Draft, action: str, error: ErrorFacts) -> None:
    """Only the first cause of leaving the way forward counts."""
    draft.trouble = draft.trouble or Trouble(action, error)


def _back_anew(draft: Draft, name: str, begins: tuple[str, ...]) -> None:
    """Nothing counts that was done on the way back: keys that begin so, and the proof of the old side. The `name` is
    the units' on this way: after a lease its fencing number, which nobody has beside it, also not an orchestrator whose
    way back is not in the history."""

    def stays(key: str) -> bool:
        return not key.startswith(begins) and ":old" not in key

    draft.revivals = (*draft.revivals, name)
    draft.done, draft.attempts = _kept(draft.done, stays), _kept(draft.attempts, stays)
    draft.failures = _kept(draft.failures, stays)
    draft.judged = _kept(draft.judged, lambda key: not key.startswith("old:"))


def _kept(known: Mapping[str, Known], stays: Callable[[str], bool]) -> dict[str, Known]:
    return {key: value for key, value in known.items() if stays(key)}


_CHANGES: Mapping[type[Event], Change] = {
    RolloutRequested: _requested,
    RolloutResumed: _resumed,
    CancelRequested: _cancelled,
    ActionStarted: _started,
    ActionFailed: _failed,
    DeviceQuarantined: _quarantined,
    DeviceCleared: _cleared,
    PlanMade: _planned,
    LeaseTaken: _leased,
    PreflightPassed: _preflight_passed,
    BaselineRecorded: _baseline,
    StepSucceeded: _stepped,
    EvidenceGathered: _gathered,
    Judged: _judged,
    RolloutConcluded: _concluded,
    LeaseReleased: _released,
}
