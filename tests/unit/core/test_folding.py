"""Many events at once change a rollout as they do one by one, and leave what they began with as it was."""

import copy
from collections.abc import Sequence
from dataclasses import fields
from functools import reduce

from core_samples import OPENING, PROOF, UNDO, done, failed, failure, requested
from hypothesis import given
from hypothesis import strategies as st

from state.events import (
    ActionFailed,
    ActionStarted,
    CancelRequested,
    DeviceCleared,
    DeviceQuarantined,
    Event,
    LeaseTaken,
    RolloutConcluded,
    RolloutResumed,
)
from state.rolled import Draft
from state.rollout import UNSEEN, Rollout, evolve, fold

EVENTS: tuple[Event, ...] = (
    requested(),
    *done(*OPENING, *PROOF, *UNDO, "release"),
    *failed("conclude:promoted"),
    *(ActionFailed(action=key, attempt=1, error=failure(code)) for code in UNSEEN for key in ("undo:0:x", "lease")),
    LeaseTaken(action="lease:reverted", attempt=1, holder="h", until="u", fencing={"a": 3}, reverted=("a",)),
    RolloutConcluded(action="conclude:stranded", attempt=1, outcome="stranded", summary="s", exit_code=2),
    ActionStarted(action="undo:0:x", attempt=2),
    RolloutResumed(session=1, actor="b"),
    CancelRequested(actor="a"),
    DeviceQuarantined(action="x", attempt=1, host="a", address="0000:81:00.0", driver="nvidia"),
    DeviceCleared(host="a", address="0000:81:00.0", actor="a", reason="r"),
    DeviceCleared(host="b", address="0000:81:00.0", actor="a", reason="of another host"),
)
histories = st.lists(st.sampled_from(EVENTS), max_size=40)


class Unheard(Event):
    """Of no meaning to a rollout."""


def test_a_draft_has_the_fields_of_a_rollout_in_their_order() -> None:
    assert [one.name for one in fields(Draft)] == [one.name for one in fields(Rollout)]


@given(histories)
def test_a_fold_is_its_events_one_by_one(events: Sequence[Event]) -> None:
    assert fold(events) == reduce(evolve, events, Rollout())


@given(histories, st.data())
def test_a_fold_goes_on_from_any_other_and_leaves_it_as_it_was(events: Sequence[Event], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(events)))
    start = fold(events[:cut])
    before = copy.deepcopy(start)
    assert fold(events[cut:], start) == fold(events)
    assert start == before


@given(histories)
def test_an_event_without_a_meaning_changes_nothing(events: Sequence[Event]) -> None:
    assert evolve(fold(events), Unheard()) == fold(events)
