"""The digest chain: the same over parts and whole, and blind to nothing."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.canonical import digest_of
from state.errors import HistoryCorrupt
from state.store.chain import check_chain, event_digest, seal, sealed_again, utc_text
from state.store.port import GENESIS, NewEvent, RecordedEvent

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)

characters = st.characters(exclude_categories=["Cs"])
texts = st.text(characters, max_size=12)
names = st.text(
    st.characters(exclude_categories=["Cs", "Cc", "Cf", "Co", "Cn", "Zs", "Zl", "Zp"]), min_size=1, max_size=12
)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, values, max_size=4)
new_events = st.builds(NewEvent, names, st.integers(1, 9), objects, objects)
moments = st.datetimes(timezones=st.just(UTC), min_value=datetime(1000, 1, 1))


def recorded(events: list[NewEvent], stream: str = "rollout-1", moment: datetime = NOON) -> list[RecordedEvent]:
    return [e.recorded(n) for n, e in enumerate(seal(stream, 0, GENESIS, events, moment), 1)]


@given(names, new_events, moments)
def test_the_digest_is_that_of_the_canonical_array_of_the_parts(stream: str, event: NewEvent, moment: datetime) -> None:
    (sealed,) = seal(stream, 0, GENESIS, [event], moment)
    parts = [stream, 1, event.type, event.schema_version, dict(event.data), dict(event.metadata), utc_text(moment)]
    assert sealed.digest == digest_of([GENESIS, *parts])
    assert sealed.digest == event_digest(GENESIS, *parts[:-1], moment)


@given(st.lists(new_events, max_size=5))
def test_a_stream_as_recorded_holds_and_seals_to_itself(events: list[NewEvent]) -> None:
    history = recorded(events)
    check_chain(history)
    assert [e.recorded(n) for n, e in enumerate(sealed_again(history), 1)] == history
    assert [json.loads(json.dumps(e.data)) for e in history] == [e.data for e in history]


CHANGES: dict[str, Callable[[RecordedEvent], RecordedEvent]] = {
    "type": lambda e: replace(e, type=e.type + "x"),
    "schema_version": lambda e: replace(e, schema_version=e.schema_version + 1),
    "data": lambda e: replace(e, data={**e.data, "more": 1}),
    "metadata": lambda e: replace(e, metadata={**e.metadata, "more": 1}),
    "recorded_at": lambda e: replace(e, recorded_at=e.recorded_at + timedelta(microseconds=1)),
    "digest": lambda e: replace(e, digest=e.digest[::-1] + "0"),
    "stream": lambda e: replace(e, stream=e.stream + "x"),
    "version": lambda e: replace(e, version=e.version + 1),
}


@given(st.lists(new_events, min_size=2, max_size=5), st.data(), st.sampled_from(sorted(CHANGES)))
def test_any_change_to_any_event_is_found_there(events: list[NewEvent], data: st.DataObject, part: str) -> None:
    history = recorded(events)
    at = data.draw(st.integers(1, len(history) - 1))
    history[at] = CHANGES[part](history[at])
    with pytest.raises(HistoryCorrupt, match=f"Event {at + 1} of rollout-1 is not what was recorded") as caught:
        check_chain(history)
    assert (caught.value.stream, caught.value.version) == ("rollout-1", at + 1)


@given(st.lists(new_events, min_size=3, max_size=5), st.data())
def test_a_missing_or_displaced_event_is_found(events: list[NewEvent], data: st.DataObject) -> None:
    history = recorded(events)
    at = data.draw(st.integers(0, len(history) - 2))
    with pytest.raises(HistoryCorrupt, match=f"Event {at + 1} .* it is missing"):
        check_chain(history[:at] + history[at + 1 :])
    history[at], history[at + 1] = history[at + 1], history[at]
    with pytest.raises(HistoryCorrupt, match=f"Event {at + 1} "):
        check_chain(history)


def test_a_renamed_stream_is_found_at_its_first_event() -> None:
    history = [replace(e, stream="rollout-2") for e in recorded([NewEvent("made", 1, {})])]
    with pytest.raises(HistoryCorrupt, match="Event 1 of rollout-2"):
        check_chain(history)


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        pytest.param(NOON, "2026-01-01T12:00:00.000000+00:00", id="whole-seconds-keep-their-microseconds"),
        pytest.param(
            NOON.astimezone(timezone(timedelta(hours=5, minutes=30))),
            "2026-01-01T12:00:00.000000+00:00",
            id="other-zones",
        ),
    ],
)
def test_times_are_written_in_one_way(moment: datetime, text: str) -> None:
    assert utc_text(moment) == text


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ValueError, match="has no time zone"):
        seal("a", 0, GENESIS, [NewEvent("made", 1, {})], NOON.replace(tzinfo=None))
