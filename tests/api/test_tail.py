"""The tail by itself: whatever the order of appends, joins, leaves and waits, each follower gets its events once."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Literal
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deployments.api import tail as module
from deployments.api.tail import Tail
from state.errors import HistoryCorrupt, InterlockError, StoreUnavailable
from state.store.memory import MemoryEventStore
from state.store.port import NewEvent, RecordedEvent

Move = tuple[Literal["append", "wait", "join", "leave"], int, int]

MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(0, 2), st.integers(1, 9)),
        st.tuples(st.just("wait"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("join"), st.integers(0, 3), st.integers(0, 30)),
        st.tuples(st.just("leave"), st.integers(0, 3), st.just(0)),
    ),
    max_size=40,
)


class SlowStore(MemoryEventStore):
    """Answers after a turn of the loop or several, so that others get between a question and its answer."""

    turns = 1

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        found = await super().read_all(after_position, limit)
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return found

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        found = await super().read(stream, after_version)
        for _ in range(self.turns):
            await asyncio.sleep(0)
        return found

    async def last(self) -> int:
        return len(await super().read_all(0, 1 << 30))


def made(turns: int = 1) -> SlowStore:
    store = SlowStore(lambda: datetime(2026, 11, 30, tzinfo=UTC))
    store.turns = turns
    return store


def positions(chunk: bytes) -> list[int]:
    return [int(line[4:]) for line in chunk.decode().splitlines() if line.startswith("id: ")]


async def follow(tail: Tail, after: int, stream: str | None, into: list[int]) -> None:
    with tail.following():
        async with aclosing(tail.follow(after, stream, 0.001)) as chunks:
            async for chunk in chunks:
                into += positions(chunk)


class Play:
    """The moves played: followers with what they asked for and what they got."""

    def __init__(self, store: SlowStore) -> None:
        self.store, self.tail = store, Tail(store, store.last, 0.001)
        self.followers: list[tuple[int, str | None, list[int], asyncio.Task[None]]] = []
        self.left: list[tuple[int, str | None, list[int]]] = []

    async def play(self, move: Move) -> None:
        kind, which, number = move
        match kind:
            case "append":
                stream = f"s{which}"
                events = [NewEvent("noted", 1, {}) for _ in range(number)]
                await self.store.append(stream, len(await self.store.read(stream)), events)
            case "wait":
                await asyncio.sleep((0, 0, 0.001, 0.004)[which])
            case "join":
                asked = (number, None if which == 3 else f"s{which}")
                seen: list[int] = []
                self.followers.append((*asked, seen, asyncio.create_task(follow(self.tail, *asked, seen))))
            case "leave" if self.followers:
                after, stream, seen, task = self.followers.pop(which % len(self.followers))
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                self.left.append((after, stream, seen))

    async def wanted(self, after: int, stream: str | None) -> list[int]:
        recorded = await self.store.read_all(after, 1 << 30)
        return [event.position for event in recorded if stream in (None, event.stream)]


async def play(moves: list[Move], turns: int) -> None:
    played = Play(made(turns))
    reader = asyncio.create_task(played.tail.read_for_ever())
    for move in moves:
        await played.play(move)
    for after, stream, seen, _ in played.followers:
        wanted = await played.wanted(after, stream)
        async with asyncio.timeout(10):
            while len(seen) < len(wanted):  # noqa: ASYNC110  # the follower is the tail's, and tells nobody
                await asyncio.sleep(0.001)
        assert seen == wanted
    for after, stream, seen in played.left:
        assert seen == (await played.wanted(after, stream))[: len(seen)]
    played.tail.close()
    async with asyncio.timeout(10):
        await asyncio.gather(reader, *(task for *_, task in played.followers))
    assert played.tail.followers == 0


@settings(max_examples=60, deadline=None)
@given(MOVES, st.integers(0, 6), st.integers(1, 7), st.integers(0, 4))
def test_each_follower_gets_each_event_once_and_in_order(moves: list[Move], kept: int, page: int, turns: int) -> None:
    with patch.object(module, "KEPT", kept), patch.object(module, "PAGE", page), patch.object(module, "PAGES_KEPT", 2):
        asyncio.run(play(moves, turns))


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(StoreUnavailable("connection refused"), id="away"),
        pytest.param(HistoryCorrupt("s0", 1, "its digest is off"), id="damaged"),
    ],
)
async def test_a_store_that_fails_ends_the_followers_with_what_is_the_matter(error: InterlockError) -> None:
    store = made()
    tail = Tail(store, store.last, 0.001)
    reader = asyncio.create_task(tail.read_for_ever())
    seen: list[int] = []
    await store.append("s0", 0, [NewEvent("noted", 1, {})])
    following = asyncio.create_task(follow(tail, 0, None, seen))
    await asyncio.sleep(0.05)
    assert seen == [1]
    with patch.object(store, "read_all", failing(error)), pytest.raises(type(error)):
        await asyncio.wait_for(following, 10)
    assert not reader.done()
    await store.append("s0", 1, [NewEvent("noted", 1, {})])
    again = asyncio.create_task(follow(tail, 1, None, seen))
    await asyncio.sleep(0.05)
    assert seen == [1, 2]
    tail.close()
    await asyncio.gather(reader, again)


def failing(error: InterlockError) -> Callable[..., object]:
    async def fail(*_args: object) -> None:
        raise error

    return fail
