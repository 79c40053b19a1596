"""Throughput and queue depth over decode records, for each data-parallel rank, then summed."""

import re
from calendar import monthrange
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import compress, pairwise

from state.inspection.acceptance import others_than
from state.inspection.events import Decoded
from state.inspection.report import Queue, Throughput

_SHOWN = 4096
GAP_S = 30.0
"""Seconds without a record after which the next one begins a new burst; it spans idle time and is left out."""


@dataclass(slots=True)
class _Rank:
    member: str
    last_time: float | None = None
    begun: bool = False
    count: int = 0
    total: float = 0.0
    high: float = 0.0
    running: int | None = None
    queued: int | None = None
    running_shown: set[bytes] = field(default_factory=set)
    queued_shown: set[bytes] = field(default_factory=set)
    """Depths as they were printed, which have not been read yet."""

    def read_shown(self) -> None:
        if self.running_shown:
            self.running = max(self.running or 0, *map(int, self.running_shown))
        if self.queued_shown:
            self.queued = max(self.queued or 0, *map(int, self.queued_shown))
        self.running_shown.clear()
        self.queued_shown.clear()

    def take(self, shown: Sequence[bytes], clocks: Sequence[bytes], drained: Sequence[int]) -> None:
        """Speeds in order with their clocks, if they have any; the first of each burst and drain tails are left out."""
        begins = seconds_of(clocks[0]) if clocks else None
        first = not self.begun or (
            begins is not None and self.last_time is not None and begins - self.last_time > GAP_S
        )
        self.begun = True
        left_out = [*drained, *([0] if first else ()), *_gaps(clocks)]
        if clocks:
            self.last_time = seconds_of(clocks[-1])
        speeds = list(map(float, compress(shown, others_than(left_out, len(shown))) if left_out else shown))
        if speeds:
            self.count += len(speeds)
            self.total += sum(speeds)
            self.high = max(self.high, max(speeds))


@lru_cache(maxsize=4096)
def _minute(stamp: bytes) -> float:
    try:
        return datetime.fromisoformat(stamp.decode("ascii")).replace(tzinfo=UTC).timestamp()
    except ValueError:
        year, month, day, hour, _ = map(int, re.split(rb"[- :]", stamp))
        return _nearest(year, month, day, hour).replace(tzinfo=UTC).timestamp()


def _nearest(year: int, month: int, day: int, hour: int) -> datetime:
    """For a minute that is none, like one of February 30, the nearest: clocks in order of their text stay in order."""
    if year < 1:
        return datetime.min
    if not 1 <= month <= 12:
        return datetime(year, 1, 1) if month < 1 else datetime(year, 12, 31, 23, 59)
    last = monthrange(year, month)[1]
    if not 1 <= day <= last:
        return datetime(year, month, 1) if day < 1 else datetime(year, month, last, 23, 59)
    return datetime(year, month, day, min(hour, 23), 59)


def seconds_of(clock: bytes) -> float:
    """`2026-10-03 11:20:41` as seconds; there is no time zone, so only differences mean anything.

    The digits may be any.
    """
    return _minute(clock[:16]) + int(clock[17:])


def _gaps(clocks: Sequence[bytes]) -> list[int]:
    """Where a burst begins. Among clocks that are in order a gap is found by halving."""
    if sorted(clocks) == list(clocks):
        return list(_gaps_between(clocks, 0, len(clocks) - 1))
    times = [seconds_of(clock) for clock in clocks]
    return [index + 1 for index, (a, b) in enumerate(pairwise(times)) if b - a > GAP_S]


def _gaps_between(clocks: Sequence[bytes], first: int, last: int) -> Iterator[int]:
    if last <= first or seconds_of(clocks[last]) - seconds_of(clocks[first]) <= GAP_S:
        return
    if last == first + 1:
        yield last
        return
    middle = (first + last) // 2
    yield from _gaps_between(clocks, first, middle)
    yield from _gaps_between(clocks, middle, last)


@dataclass(slots=True)
class Load:
    """`ranks` by data-parallel rank. Where several tensor ranks print the same batch, the first of them is heard."""

    ranks: dict[str, _Rank] = field(default_factory=dict)

    def add(self, record: Decoded) -> None:
        rank = self.ranks.get(record.group)
        if rank is None:
            rank = self.ranks[record.group] = _Rank(record.member)
        if rank.member != record.member:
            return
        if record.running is not None:
            rank.running = max(rank.running or 0, record.running)
        if record.queued is not None:
            rank.queued = max(rank.queued or 0, record.queued)
        self._throughput(rank, record)

    def add_many(self, like: Decoded, columns: Mapping[str, Sequence[bytes]], drained: Sequence[int] = ()) -> None:
        """The same for many records of one rank; those at the places of `drained` are drain tails."""
        rank = self.ranks.get(like.group)
        if rank is None:
            rank = self.ranks[like.group] = _Rank(like.member)
        if rank.member != like.member:
            return
        rank.running_shown.update(columns.get("running", ()))
        rank.queued_shown.update(columns.get("queued", ()))
        if len(rank.running_shown) + len(rank.queued_shown) > _SHOWN:
            rank.read_shown()
        speeds = columns.get("throughput")
        if speeds:
            rank.take(speeds, columns.get("clock", ()), drained)

    @staticmethod
    def _throughput(rank: _Rank, record: Decoded) -> None:
        if record.throughput is None:
            return
        gap = record.time is not None and rank.last_time is not None and record.time - rank.last_time > GAP_S
        rank.last_time = record.time if record.time is not None else rank.last_time
        if not rank.begun or gap:
            rank.begun = True
            return
        if record.tokens == 0:
            return
        rank.count += 1
        rank.total += record.throughput
        rank.high = max(rank.high, record.throughput)

    def throughput(self) -> Throughput | None:
        measured = [rank for rank in self.ranks.values() if rank.count]
        if not measured:
            return None
        mean = sum(rank.total / rank.count for rank in measured)
        return Throughput(round(mean, 6), round(sum(r.high for r in measured), 6), sum(r.count for r in measured))

    def queue(self) -> Queue | None:
        for rank in self.ranks.values():
            rank.read_shown()
        running = [rank.running for rank in self.ranks.values() if rank.running is not None]
        queued = [rank.queued for rank in self.ranks.values() if rank.queued is not None]
        if not running and not queued:
            return None
        return Queue(sum(running) if running else None, sum(queued) if queued else None)
