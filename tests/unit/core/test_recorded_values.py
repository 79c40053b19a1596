"""What is stored: events and leases come back as they were, and times are told by them."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from core_samples import DO, OLD_PROOF, OPENING, PROOF, UNDO, done, fact, failed, failure, requested, revision
from hypothesis import given
from hypothesis import strategies as st

from state.canonical import canonical_json
from state.errors import EngineFailed, HistoryCorrupt, HostUnreachable, LeaseHeld
from state.events import (
    EVENTS,
    CancelRequested,
    DeviceCleared,
    DeviceQuarantined,
    ErrorFacts,
    Event,
    RolloutResumed,
    decode,
    encode,
)
from state.hold import HoldAnswered, HoldOpened
from state.leases import Lease, RevisionProven, SubjectLeased, SubjectReleased, lease_of, proven
from state.leases import decode as decode_lease
from state.rollout import fold
from state.store.port import RecordedEvent
from state.times import dark_seconds

NOON = datetime(2026, 3, 9, 12, tzinfo=UTC)
STUCK = DeviceQuarantined(action="x", attempt=1, host="pve", address="0000:81:00.0", driver="nvidia", said="FLR")
CLEARED = DeviceCleared(host="pve", address="0000:81:00.0", actor="a person", reason="rebooted")
ASKED = HoldOpened(
    action="open-hold", attempt=1, question="promote, or roll back?", open=(), deadline="2026-03-09T14:00:00+00:00",
    default="rollback", may_answer="whoever reaches the event store",
)  # fmt: skip
ANSWERED = HoldAnswered(action="hold", attempt=1, answer="promote", actor="ada", reason="2.4 is plenty")
KEYS = (*OPENING, *DO, *PROOF, "freeze", *UNDO, *OLD_PROOF, "conclude:rolled-back", "release")
HISTORY: tuple[Event, ...] = (
    requested(), *done(*KEYS, "soak"), *failed("x"), RolloutResumed(session=1, actor="b"), CancelRequested(actor="a"),
    STUCK, CLEARED, ASKED, ANSWERED,
)  # fmt: skip


def recorded(events: Sequence[Event], seconds: Sequence[float] = ()) -> list[RecordedEvent]:
    """As a store gives them back: one a second, unless told otherwise."""
    times = seconds or range(len(events))
    encoded = [encode(event) for event in events]
    return [
        RecordedEvent(
            position=n,
            stream="s",
            version=n,
            type=new.type,
            schema_version=new.schema_version,
            data=new.data,
            metadata={},
            recorded_at=NOON + timedelta(seconds=at),
            digest="",
        )
        for n, (new, at) in enumerate(zip(encoded, times, strict=True), 1)
    ]


def test_every_kind_of_event_is_in_the_history() -> None:
    assert {event.wire for event in HISTORY} == set(EVENTS)


@pytest.mark.parametrize("wire", sorted(EVENTS))
def test_an_event_comes_back_as_it_was(wire: str) -> None:
    event = next(e for e in HISTORY if e.wire == wire)
    (stored,) = recorded([event])
    assert canonical_json(stored.data)
    assert decode(stored) == event


def test_a_history_read_back_folds_to_the_same_rollout() -> None:
    assert fold(map(decode, recorded(HISTORY))) == fold(HISTORY)


@given(st.permutations(HISTORY))
def test_folding_is_total(events: Sequence[Event]) -> None:
    assert fold(events).session == 1


@given(st.integers(0, len(HISTORY)))
def test_folding_goes_on_from_anywhere(cut: int) -> None:
    assert fold(HISTORY[cut:], fold(HISTORY[:cut])) == fold(HISTORY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param({"type": "rollout-teleported"}, "rollout-teleported/1", id="an unknown type"),
        pytest.param({"schema_version": 2}, "release-of-the-future/2", id="a newer schema"),
        pytest.param({"data": {"session": "many", "actor": "a"}}, "do not fit", id="another shape"),
        pytest.param({"data": {"session": 1, "actor": "a", "mood": "good"}}, "do not fit", id="an unknown field"),
        pytest.param({"data": {"session": 1}}, "do not fit", id="a missing field"),
    ],
)
def test_what_this_release_does_not_know_is_refused(change: dict[str, Any], words: str) -> None:
    (stored,) = recorded([RolloutResumed(session=1, actor="a")])
    with pytest.raises(HistoryCorrupt, match="Event 1 of s") as caught:
        decode(replace(stored, **change))
    assert words.replace("release-of-the-future", "rollout-resumed") in str(caught.value)


@pytest.mark.parametrize(
    ("error", "facts"),
    [
        pytest.param(HostUnreachable("h", "a", "timed out"), ("host-unreachable", True, 3), id="retryable"),
        pytest.param(EngineFailed("oom", "out of memory", "use less"), ("engine-failed", False, 1), id="for good"),
    ],
)
def test_an_error_is_recorded_with_its_hint(error: Any, facts: tuple[str, bool, int]) -> None:
    seen = ErrorFacts.of(error)
    assert (seen.code, seen.retryable, seen.exit_code) == facts
    assert (seen.message, seen.hint) == (str(error), error.hint)


def test_a_failure_of_a_former_attempt_is_no_failure_of_the_newest() -> None:
    rollout = fold([*failed("plan", failure(retryable=True)), *failed("plan", failure("other"))])
    assert rollout.failures["plan"].code == "other"
    assert rollout.attempts["plan"] == 1


class TestDarkTime:
    stop, ready = failed(DO[2])[0], fact("await-readiness:new")
    old_ready = fact("await-readiness:old")

    @pytest.mark.parametrize(
        ("which", "seconds", "expected"),
        [
            pytest.param(["stop", "ready"], [5, 47.5], 42.5, id="from the stop to the generation"),
            pytest.param(["stop", "stop", "ready"], [5, 10, 47], 42, id="from the first attempt to stop"),
            pytest.param(["stop", "old_ready"], [5, 65], 60, id="a rollback's too"),
            pytest.param(["stop", "ready", "old_ready"], [5, 25, 95], 20, id="until the first one that came back"),
            pytest.param(["stop"], [5], None, id="nothing came back"),
            pytest.param(["ready"], [5], None, id="nothing was stopped"),
            pytest.param([], [], None, id="no history"),
        ],
    )
    def test_dark_seconds(self, which: list[str], seconds: list[float], expected: float | None) -> None:
        assert dark_seconds(recorded([getattr(self, name) for name in which], seconds)) == expected


def leased(rollout: str, reason: str = "r") -> SubjectLeased:
    until = (NOON + timedelta(minutes=5)).isoformat()
    return SubjectLeased(rollout=rollout, holder=f"holder of {rollout}", reason=reason, until=until)


def released(rollout: str) -> SubjectReleased:
    return SubjectReleased(rollout=rollout)


@pytest.mark.parametrize(
    ("events", "rollout", "number", "version"),
    [
        pytest.param([], "", 0, 0, id="never leased"),
        pytest.param([leased("a")], "a", 1, 1, id="leased"),
        pytest.param([leased("a"), leased("a")], "a", 1, 2, id="renewed: the number stays"),
        pytest.param([leased("a"), released("a")], "", 1, 2, id="released: the number is remembered"),
        pytest.param([leased("a"), released("a"), leased("b")], "b", 3, 3, id="the next holder's number is higher"),
        pytest.param([leased("a"), released("a"), leased("a")], "a", 3, 3, id="also where it is the same one"),
        pytest.param([leased("a"), released("b")], "a", 1, 2, id="nobody releases another's"),
        pytest.param([leased("a"), leased("b")], "b", 2, 2, id="taken over"),
    ],
)
def test_leases_by_history(events: Sequence[Event], rollout: str, number: int, version: int) -> None:
    lease = lease_of(recorded(events))
    assert (lease.rollout, lease.number, lease.version) == (rollout, number, version)


holders = st.sampled_from(["a", "b", "c"])


@given(st.lists(holders.map(leased) | holders.map(released), max_size=12))
def test_fencing_numbers_never_fall(events: list[Event]) -> None:
    numbers = [lease_of(recorded(events[:n])).number for n in range(len(events) + 1)]
    assert numbers == sorted(numbers)


@pytest.mark.parametrize(
    ("rollout", "minutes", "words"),
    [
        pytest.param("b", 1, "rollout a: an upgrade", id="held by another"),
        pytest.param("b", 9, "its time is over", id="held by another that never came back"),
    ],
)
def test_a_held_lease_refuses_and_names_its_holder(rollout: str, minutes: int, words: str) -> None:
    lease = lease_of(recorded([leased("a", "an upgrade")]))
    with pytest.raises(LeaseHeld, match="host-x is held by holder of a") as caught:
        lease.refuse_others("host-x", rollout, NOON + timedelta(minutes=minutes))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "lease",
    [
        pytest.param(Lease(), id="free"),
        pytest.param(lease_of(recorded([leased("a")])), id="our own"),
        pytest.param(lease_of(recorded([leased("b"), released("b")])), id="given back"),
    ],
)
def test_a_lease_to_be_had_refuses_nobody(lease: Lease) -> None:
    before = lease.model_copy()
    lease.refuse_others("host-x", "a", NOON)
    assert lease == before


def test_proven_revisions_are_listed_oldest_first() -> None:
    first, second = RevisionProven(rollout="1", revision=revision()), RevisionProven(rollout="2", revision=revision())
    assert proven(recorded([first, leased("a"), second])) == (first, second)


def test_a_lease_stream_takes_no_other_events() -> None:
    (stored,) = recorded([CancelRequested(actor="a")])
    with pytest.raises(HistoryCorrupt, match="does not belong"):
        decode_lease(stored)


@pytest.mark.parametrize(
    "data", [{}, {"rollout": 1}, {"rollout": "a", "more": 1}], ids=["empty", "another type", "unknown"]
)
def test_a_damaged_lease_is_corrupt_history(data: dict[str, Any]) -> None:
    (stored,) = recorded([released("a")])
    with pytest.raises(HistoryCorrupt, match="Event 1 of s"):
        decode_lease(replace(stored, data=data))
