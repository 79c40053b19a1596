"""A stream that is read again: what was changed around the store is found as at the first time, and what is remembered
has bounds."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from state.errors import HistoryCorrupt
from state.store.chain import seal, utc_text
from state.store.connect import open_stores
from state.store.decoding import Row, decode_chain
from state.store.known_rows import LONGEST_BYTES, MOST_BYTES, KnownRows, read_anew
from state.store.port import GENESIS, NewEvent, RecordedEvent
from state.store.verification import verify_history
from tests.store.test_tampering import TAMPERINGS, tamper, write

NOON = datetime.fromisoformat("2026-03-09T12:00:00+00:00")


def rows_of(stream: str, count: int, text: str = "") -> list[Row]:
    events = [NewEvent("made", 1, {"number": number, "text": text}) for number in range(count)]
    return [
        (n, e.stream, e.version, e.type, e.schema_version, e.data, e.metadata, utc_text(e.recorded_at), e.digest)
        for n, e in enumerate(seal(stream, 0, GENESIS, events, NOON), 1)
    ]


@pytest.mark.parametrize("statement", [pytest.param(sql, id=claim) for claim, sql in TAMPERINGS.items()])
async def test_what_is_changed_after_it_was_read_is_found(
    sqlite_url: str, now: Callable[[], datetime], statement: str
) -> None:
    await write(sqlite_url, now)
    async with open_stores(sqlite_url, now) as stores:
        before = await stores.events.read("rollout-1")
        assert (await stores.events.read("rollout-1"))[0] is before[0]
        await asyncio.to_thread(tamper, sqlite_url, statement)
        for _ in range(2):
            with pytest.raises(HistoryCorrupt, match="Event 2 of rollout-1 is not what was recorded"):
                await stores.events.read("rollout-1")
        found = await verify_history(stores.events, "rollout-")
        assert ("rollout-1", 2) in {(fault.stream, fault.version) for fault in found.faults}


async def test_a_position_that_was_changed_is_read_as_it_is(sqlite_url: str, now: Callable[[], datetime]) -> None:
    """No digest covers it, so it is no fault; neither is it what is remembered."""
    await write(sqlite_url, now)
    async with open_stores(sqlite_url, now) as stores:
        await stores.events.read("rollout-1")
        change = "UPDATE events SET position = 99 WHERE stream = 'rollout-1' AND version = 4"
        await asyncio.to_thread(tamper, sqlite_url, change)
        assert [event.position for event in await stores.events.read("rollout-1")] == [1, 2, 3, 99]


async def test_verifying_takes_nothing_as_known(store_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(store_url, now) as stores:
        await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {"number": 1})])
        (first,), (again,) = [await stores.events.read("rollout-1") for _ in range(2)]
        with read_anew():
            (anew,) = await stores.events.read("rollout-1")
        assert again is first
        assert (anew is first, anew == first) == (False, True)


async def test_a_history_that_is_spoiled_in_memory_only_is_verified_by_what_is_stored(
    sqlite_url: str, now: Callable[[], datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    await write(sqlite_url, now)
    async with open_stores(sqlite_url, now) as stores:
        await stores.events.read("rollout-1")

        def touched(*_: object) -> None:
            raise AssertionError("what is remembered was asked")

        monkeypatch.setattr(KnownRows, "_forgotten", touched)
        assert (await verify_history(stores.events)).events == 8


async def test_a_stream_that_grows_keeps_what_was_decoded(store_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(store_url, now) as mine, open_stores(store_url, now) as others:
        last: Sequence[RecordedEvent] = ()
        for version in range(6):
            await others.events.append("rollout-1", version, [NewEvent("made", 1, {"number": version})])
            found = await mine.events.read("rollout-1")
            assert all(a is b for a, b in zip(last, found, strict=False))
            assert found == await others.events.read("rollout-1")
            last = found


@given(st.lists(st.integers(0, 12), max_size=8), st.data())
def test_what_is_read_is_what_a_first_reading_finds(lengths: Sequence[int], data: st.DataObject) -> None:
    """The stream as it is after each length, at times with a row changed: the same events, or the same fault."""
    known, whole = KnownRows(), rows_of("rollout-1", 12)
    for length in lengths:
        rows = whole[:length]
        if rows and data.draw(st.booleans()):
            at = data.draw(st.integers(0, length - 1))
            column = data.draw(st.sampled_from([1, 2, 3, 5, 6, 7, 8]))
            rows[at] = (*rows[at][:column], "other", *rows[at][column + 1 :])
        anew = outcome(partial(decode_chain, "rollout-1", rows, GENESIS, 0))
        assert outcome(partial(known.decoded, "rollout-1", rows)) == anew


def outcome(read: Callable[[], tuple[RecordedEvent, ...]]) -> tuple[RecordedEvent, ...] | str:
    try:
        return read()
    except HistoryCorrupt as fault:
        return str(fault)


def test_what_is_remembered_has_a_bound_and_the_oldest_goes_first() -> None:
    known, text = KnownRows(), "x" * (LONGEST_BYTES // 2)
    count = 2 * MOST_BYTES // LONGEST_BYTES + 3
    streams = {f"rollout-{n}": rows_of(f"rollout-{n}", 1, text) for n in range(count)}
    first = {name: known.decoded(name, rows)[0] for name, rows in streams.items()}
    kept = [name for name in reversed(streams) if known.decoded(name, streams[name])[0] is first[name]]
    assert kept == list(reversed(streams))[: len(kept)]
    assert 0 < len(kept) < count


def test_a_stream_that_is_very_long_takes_nobodys_place() -> None:
    known, rows = KnownRows(), rows_of("rollout-1", 2, "x" * LONGEST_BYTES)
    assert known.decoded("rollout-1", rows)[0] is not known.decoded("rollout-1", rows)[0]


def test_the_time_of_a_row_may_be_text_or_a_time() -> None:
    rows = rows_of("rollout-1", 3)
    timed = [(*row[:7], NOON, row[8]) for row in rows]
    known = KnownRows()
    assert known.decoded("rollout-1", rows) == known.decoded("rollout-1", timed)
