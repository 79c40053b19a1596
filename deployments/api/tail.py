"""The tail of the history, read once for everybody who follows it.

One task reads the end of the store and keeps the last events as they are sent; each follower has nothing but its own
position. Whoever is behind what is kept reads the store itself until it has caught up, so that a slow or a late
follower costs no memory, loses nothing, and sees each event once: positions rise in the order in which events become
visible.
"""

import asyncio
import json
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

from state.errors import InterlockError
from state.store.port import EventStore, RecordedEvent

KEPT = 4096
"""Events of the end that are kept; it may become twice as many before the older ones go."""

PAGE = 500
"""Events that are read at once."""

PAGES_KEPT = 32
"""Whole pages of the past that are kept for the next follower who comes by."""

Last = Callable[[], Awaitable[int]]


class Tail:
    """`last` gives the position of the newest event; the store is looked at every `every_s` seconds while anybody
    follows, since neither database tells a reader of another process's append."""

    def __init__(self, events: EventStore, last: Last, every_s: float) -> None:
        self._events, self._last, self._every_s = events, last, every_s
        self._followers = 0
        self._wanted, self._closing = asyncio.Event(), asyncio.Event()
        self._grown = asyncio.Event()
        self._floor = self._position = 0
        self._positions: list[int] = []
        self._streams: list[str] = []
        self._chunks: list[bytes] = []
        self._pages: OrderedDict[int, tuple[int, bytes]] = OrderedDict()
        self._covers = False

    @property
    def followers(self) -> int:
        return self._followers

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    def close(self) -> None:
        """Let every follower come to its end."""
        self._closing.set()
        self._wanted.set()
        self._grow()

    @contextmanager
    def following(self) -> Iterator[None]:
        self._followers += 1
        self._wanted.set()
        try:
            yield
        finally:
            self._followers -= 1
            if not self._followers:
                self._covers = False
                self._wanted.clear()

    async def read_for_ever(self) -> None:
        """The one reader. It waits while nobody follows; a store that fails is asked again."""
        while not self.closing:
            await self._wanted.wait()
            try:
                grown = await self._look()
            except InterlockError:  # followers read by themselves, and are told what is the matter
                grown = self._covers = False
                self._grow()
            if not grown:
                await _unless_set(self._closing, self._every_s)

    async def _look(self) -> bool:
        if not self._covers:
            self._begin_at(await self._last())
        found = await self._events.read_all(self._position, PAGE)
        if not found or not self._covers:
            return False
        self._positions += [event.position for event in found]
        self._streams += [event.stream for event in found]
        self._chunks += [as_sent(event) for event in found]
        self._position = found[-1].position
        self._trim()
        self._grow()
        return len(found) == PAGE

    def _begin_at(self, position: int) -> None:
        self._floor = self._position = position
        self._positions, self._streams, self._chunks = [], [], []
        self._covers = bool(self._followers)
        self._grow()

    def _trim(self) -> None:
        over = len(self._positions) - KEPT
        if over > KEPT:
            self._floor = self._positions[over - 1]
            del self._positions[:over], self._streams[:over], self._chunks[:over]

    def _grow(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()

    async def follow(self, after: int, stream: str | None, heartbeat_s: float) -> AsyncGenerator[bytes, None]:
        """What is recorded after the position, in order, of one stream or of all; empty bytes when nothing came for
        `heartbeat_s`. Ends when the tail is closed. Raises what the store does while it is read."""
        position = after
        while not self.closing:
            grown = self._grown
            if self._covers and position >= self._floor:
                chunk, position = self._kept_after(position, stream)
            else:
                chunk, position = await self._past(position, stream)
            if chunk:
                yield chunk
            elif position >= self._position and not await _unless_set(grown, heartbeat_s):
                yield b""

    def _kept_after(self, position: int, stream: str | None) -> tuple[bytes, int]:
        first = bisect_right(self._positions, position)
        last = min(len(self._positions), first + PAGE)
        if first == last:
            return b"", position
        chosen = range(first, last) if stream is None else [i for i in range(first, last) if self._streams[i] == stream]
        return b"".join([self._chunks[i] for i in chosen]), self._positions[last - 1]

    async def _past(self, position: int, stream: str | None) -> tuple[bytes, int]:
        """What the store has after the position, and how far that goes."""
        return await (self._page(position) if stream is None else self._rest_of(stream, position))

    async def _rest_of(self, stream: str, position: int) -> tuple[bytes, int]:
        """All of a stream; whatever was visible before it was read is in it."""
        seen = await self._last()
        rest = [event for event in await self._events.read(stream) if event.position > position]
        end = rest[-1].position if rest else position
        return b"".join(map(as_sent, rest)), max(position, end, seen)

    async def _page(self, position: int) -> tuple[bytes, int]:
        if position in self._pages:
            self._pages.move_to_end(position)
            end, chunk = self._pages[position]
            return chunk, end
        seen = await self._last()
        found = await self._events.read_all(position, PAGE)
        end, chunk = _end(found, max(position, seen)), b"".join(map(as_sent, found))
        if len(found) == PAGE:  # nothing will ever come in between
            self._pages[position] = end, chunk
            if len(self._pages) > PAGES_KEPT:
                self._pages.popitem(last=False)
        return chunk, end


def as_sent(event: RecordedEvent) -> bytes:
    """The event as server-sent events have it; its position is the id that a client goes on after."""
    data = json.dumps(event_json(event), ensure_ascii=False, separators=(",", ":"))
    return f"id: {event.position}\nevent: {event.type}\ndata: {data}\n\n".encode("utf-8", "backslashreplace")


def event_json(event: RecordedEvent) -> dict[str, object]:
    return {
        "position": event.position,
        "stream": event.stream,
        "version": event.version,
        "type": event.type,
        "schema_version": event.schema_version,
        "recorded_at": event.recorded_at.isoformat(),
        "data": dict(event.data),
        "metadata": dict(event.metadata),
        "digest": event.digest,
    }


def _end(found: Sequence[RecordedEvent], otherwise: int) -> int:
    return found[-1].position if found else otherwise


async def _unless_set(event: asyncio.Event, seconds: float) -> bool:
    """Wait until the event is set, for as long as `seconds`; whether it is."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()
