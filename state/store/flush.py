"""Bringing a spool into the stores: evidence before the events that refer to it, events in their order, each once.

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
    """One spool on its way into the stores; made again, it goes on where it stopped.

    The evidence first; then every event in one append, so that whoever reads the stream finds all of them or none; then
    what is owed to other streams.
    """

    def __init__(self, events: EventStore, evidence: EvidenceStore) -> None:
        self._events, self._evidence = events, evidence
        self._done, self._put = 0, 0

    async def run(self, records: Sequence[Record], enough: Callable[[], bool] = lambda: False) -> None:
        """Bring in what is not yet; `records` may have grown since. `enough` is asked now and then whether this took
        too long.

        Raises StoreUnavailable, and VersionConflict if somebody else has written to the rollout's stream: then none of
        the events are stored, nor anything that comes after them.
        """
        for index, record in enumerate(records):
            if isinstance(record, SpooledEvidence) and index >= self._put:
                _refuse_slow(enough)
                await self._keep(record)
                self._put = index + 1
        new = records[self._done :]
        await self._append([record for record in new if isinstance(record, SpooledEvents)])
        for record in new:
            if isinstance(record, Owed):
                _refuse_slow(enough)
                await settle(self._events, record.stream, record.event)
        self._done = len(records)

    async def _append(self, batches: Sequence[SpooledEvents]) -> None:
        if batches:
            events = [event for batch in batches for event in batch.events]
            await append_missing(self._events, batches[0].stream, batches[0].after_version, events)

    async def _keep(self, item: SpooledEvidence) -> None:
        ref = await self._evidence.put(item.data, item.media_type)
        if ref.digest != item.digest:
            raise EvidenceCorrupt(item.digest, f"its content gives {ref.digest[:12]}")


def _refuse_slow(enough: Callable[[], bool]) -> None:
    if enough():
        raise StoreUnavailable("it takes what was spooled too slowly")


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
