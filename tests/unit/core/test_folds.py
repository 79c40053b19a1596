"""A rollout that is folded again goes on from what was folded, if that is of the same history."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from core_samples import OPENING, PROOF, done, requested
from hypothesis import given
from hypothesis import strategies as st

from state import folds as module
from state.events import Event, RolloutResumed, decode, encode
from state.folds import MOST, Folds
from state.rollout import Rollout, fold
from state.store.chain import seal
from state.store.port import GENESIS, RecordedEvent

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
EVENTS: tuple[Event, ...] = (requested(), *done(*OPENING, *PROOF), RolloutResumed(session=1, actor="b"))


def recorded(events: Sequence[Event], stream: str = "rollout-1") -> list[RecordedEvent]:
    return [e.recorded(n) for n, e in enumerate(seal(stream, 0, GENESIS, list(map(encode, events)), NOON), 1)]


histories = st.lists(st.sampled_from(EVENTS), max_size=12).map(recorded)


@given(st.lists(st.tuples(histories, st.integers(0, 12)), max_size=5))
def test_a_fold_is_that_of_the_events_whatever_was_folded_before(asked: list[tuple[list[RecordedEvent], int]]) -> None:
    folds = Folds()
    for history, cut in asked:
        for part in (history[:cut], history):
            assert folds.of(part) == fold(map(decode, part))


def test_only_new_events_are_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    folds, history, decoded = Folds(), recorded(EVENTS), list[int]()
    folds.of(history[:-2])

    def seen(event: RecordedEvent) -> Event:
        decoded.append(event.version)
        return decode(event)

    monkeypatch.setattr(module, "decode", seen)
    assert folds.of(history) == fold(map(decode, history))
    assert decoded == [len(history) - 1, len(history)]


def test_a_history_that_is_another_is_folded_from_its_beginning() -> None:
    folds, other = Folds(), recorded((*EVENTS[:-1], RolloutResumed(session=7, actor="c"), EVENTS[-1]))
    folds.of(recorded(EVENTS))
    assert folds.of(other) == fold(map(decode, other))


def test_nothing_is_remembered_of_a_stream_without_events() -> None:
    assert Folds().of([]) == Rollout()


def test_the_oldest_is_forgotten_first() -> None:
    folds = Folds()
    histories = [recorded(EVENTS[:1], f"rollout-{n}") for n in range(MOST + 1)]
    first = [folds.of(history) for history in histories]
    again = [folds.of(history) for history in reversed(histories)]
    same = [a is b or a.requested is b.requested for a, b in zip(reversed(first), again, strict=True)]
    assert same == [True] * MOST + [False]
