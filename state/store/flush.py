"""Bringing a spool into the stores: in its order, evidence before the events that refer to it, and each thing once.

A flush that was cut off at any moment is simply made again: evidence is stored once for its digest, events that are
there with the same content are passed over, and what is owed is not said twice.
"""

from collections.abc import Callable, Sequence

from state.errors import EvidenceCorrupt, StoreUnavailable, VersionConflict
from state.leases import due, tells
from state.store.port import EventStore, EvidenceStore, NewEvent, RecordedEvent
from state.store.spool import Owed, Record, SpooledEvents, SpooledEvidence, same

TAIL = 8
"""Events of a shared stream that are looked at first: mostly they suffice."""


class Flush:
    """One spool on its way into the stores; made again, it goes on where it stopped."""

    def __init__(self, events: EventStore, evidence: EvidenceStore) -> None:
        self._events, self._evidence = events, evidence
        self._done = 0

    async def run(self, records: Sequence[Record], enough: Callable[[], bool] = lambda: False) -> None:
        """Bring in what is not yet; `records` may have grown since. `enough` is asked between two of them whether this
        took too long.

        Raises StoreUnavailable, and VersionConflict if somebody else has written to the rollout's stream: then nothing
        of this batch is stored, nor anything that comes after it.
        """
        while self._done < len(records):
            if enough():
                raise StoreUnavailable("it takes what was spooled too slowly")
            self._done += await self._next(records[self._done :])

    async def _next(self, records: Sequence[Record]) -> int:
        """Store a batch; the number of records in it."""
        match records[0]:
            case SpooledEvidence() as item:
                await self._put(item)
                return 1
            case Owed(stream, event):
                await settle(self._events, stream, event)
                return 1
            case SpooledEvents() as first:
                batch = _one_append(first, records)
                await append_missing(
                    self._events, first.stream, first.after_version, [event for one in batch for event in one.events]
                )
                return len(batch)

    async def _put(self, item: SpooledEvidence) -> None:
        ref = await self._evidence.put(item.data, item.media_type)
        if ref.digest != item.digest:
            raise EvidenceCorrupt(item.digest, f"its content gives {ref.digest[:12]}")


def _one_append(first: SpooledEvents, records: Sequence[Record]) -> list[SpooledEvents]:
    """The appends from `first` on that follow each other with nothing between them."""
    batch: list[SpooledEvents] = []
    version = first.after_version
    for record in records:
        if not isinstance(record, SpooledEvents) or (record.stream, record.after_version) != (first.stream, version):
            break
        batch.append(record)
        version += len(record.events)
    return batch


async def append_missing(store: EventStore, stream: str, after_version: int, events: Sequence[NewEvent]) -> None:
    """Append those of `events` that the stream does not have at their versions, all or none.

    Raises VersionConflict if it has others there, or ends before `after_version`.
    """
    known = -1
    while True:
        stored = await store.read(stream, after_version)
        missing = _missing(stream, after_version, events, stored)
        if not missing:
            return
        try:
            await store.append(stream, after_version + len(stored), missing)
        except VersionConflict:
            if len(stored) <= known:
                raise
            known = len(stored)  # an append that nobody waited for any more has landed meanwhile
            continue
        return


def _missing(
    stream: str, after_version: int, events: Sequence[NewEvent], stored: Sequence[RecordedEvent]
) -> Sequence[NewEvent]:
    for event, there in zip(events, stored, strict=False):
        if not same(event, there):
            raise VersionConflict(stream, there.version - 1, after_version + len(stored))
    return events[len(stored) :]


async def settle(store: EventStore, stream: str, event: NewEvent) -> None:
    """Say `event` at the head of a stream that others write to as well, unless it is not due there (any more)."""
    while True:
        tail = await _telling(store, stream, event)
        if not due(tail, event):
            return
        try:
            await store.append(stream, tail[-1].version if tail else 0, [event])
        except VersionConflict:
            continue
        return


async def _telling(store: EventStore, stream: str, event: NewEvent) -> Sequence[RecordedEvent]:
    """As much of the stream's end as tells whether `event` is due: thousands of rollouts may have written to it."""
    count = TAIL
    while not tells(tail := await store.read_last(stream, count), event):
        count *= 4
    return tail
