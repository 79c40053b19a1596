"""The stores as one rollout sees them: when they are away, what it did is spooled, and brought in when they are back.

Once something is spooled, everything that follows is, until all of it is in the store: so the order stays. The stores
are tried again before each call, at growing intervals.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from state.errors import StoreUnavailable, TakenOver, VersionConflict
from state.store.chain import seal
from state.store.flush import Flush, settle
from state.store.patient import Patience, PatientEvents, PatientEvidence
from state.store.port import EventStore, EvidenceRef, EvidenceStore, NewEvent, RecordedEvent, SpoolFile
from state.store.recent import Recent
from state.store.spool import SPOOLED, Owed, Record, Spooled, SpooledEvents, SpooledEvidence, line_of, name_of

FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 30.0
"""Between two tries to flush."""

FLUSH_S = 5.0
"""How long one try may hold up the rollout; what is left then is brought in by the next one."""


@dataclass(frozen=True, slots=True)
class Terms:
    """When a rollout may go on without its store, and for how long it waits for one that is slow. `said` is told when
    the store is lost and when it is back."""

    stream: str
    rollout: str
    holder: str
    may_spool: Callable[[], bool]
    patience_s: Callable[[], float]
    now: Callable[[], datetime]
    clock: Callable[[], float]
    said: Callable[[str], None]


class Spooling:
    """Both stores over one spool. `events` and `evidence` are what the rollout uses in their place. `name` is how each
    event that waits says so, `told` which hosts know that name, `waited_s` how long the end has waited for the store.
    """

    def __init__(self, events: EventStore, evidence: EvidenceStore, file: SpoolFile, terms: Terms) -> None:
        patience = Patience(terms.patience_s)
        self.stored, self.kept = PatientEvents(events, patience), PatientEvidence(evidence, patience)
        self.file, self.terms = file, terms
        self.events, self.evidence = SpoolingEvents(self), SpoolingEvidence(self)
        self.recent = Recent()
        self._spooled = Spooled()
        self._flush = Flush(self.stored, self.kept)
        self._one_at_once = asyncio.Lock()
        self._next_try, self._wait_s = 0.0, FIRST_WAIT_S
        self._taken_over: TakenOver | None = None
        self.name = ""
        self.told: set[tuple[str, str]] = set()
        self.waited_s = 0.0

    @property
    def waiting(self) -> int:
        """How many facts wait in the spool."""
        return self._spooled.facts

    async def flush(self, *, now: bool = False) -> bool:
        """Whether nothing is spooled (any more). Tries to bring in what is, if it is time to, or at once.

        Raises TakenOver if another orchestrator has written to the rollout's stream; the spool is kept then.
        """
        if self._taken_over:
            raise self._taken_over
        if self._spooled.records and (now or self.terms.clock() >= self._next_try):
            async with self._one_at_once:
                if self._spooled.records and (now or self.terms.clock() >= self._next_try):
                    await self._try()
        return not self._spooled.records

    async def _try(self) -> None:
        until = self.terms.clock() + FLUSH_S
        try:
            await self._flush.run(self._spooled.records, lambda: self.terms.clock() > until)
            stream = await self.stored.read(self.terms.stream)
        except StoreUnavailable:
            self._next_try = self.terms.clock() + self._wait_s
            self._wait_s = min(2 * self._wait_s, LONGEST_WAIT_S)
        except VersionConflict as error:
            self._taken_over = TakenOver(self.terms.rollout, self.file.set_aside())
            raise self._taken_over from error
        else:
            self.file.remove()
            self.terms.said(f"the event store is back: it has the {self._spooled.facts} facts that were spooled")
            self.recent.read(stream, 0)
            self._spooled, self._flush = Spooled(), Flush(self.stored, self.kept)
            self.name, self._wait_s, self.waited_s = "", FIRST_WAIT_S, 0.0

    async def spool(self, record: Record, why: StoreUnavailable | None = None) -> None:
        """Keep a record durably on this machine. Raises StoreUnavailable if that cannot be done either."""
        async with self._one_at_once:
            first = not self._spooled.records
            line, check = line_of(record, self._spooled.check)
            await self.file.append(line)
            self._spooled = Spooled((*self._spooled.records, record), check)
            if first:
                self._next_try = self.terms.clock() + self._wait_s
        if first and why:
            self.terms.said(f"{why}; what happens is spooled to {self.file.place} until it is back")


class SpoolingEvents:
    """Implements `EventStore`. Events that wait in the spool have no position yet: 0."""

    def __init__(self, spooling: Spooling) -> None:
        self.spooling = spooling

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        """See the port. What the store does not answer for may be in it or not; a flush finds out."""
        s = self.spooling
        if stream != s.terms.stream:
            return await s.stored.append(stream, expected_version, events)
        lost = None
        if await s.flush():
            try:
                recorded = await s.stored.append(stream, expected_version, events)
                s.recent.appended(recorded)
                return recorded
            except VersionConflict:
                s.recent.forget()
                raise
            except StoreUnavailable as error:
                if not s.terms.may_spool() or s.recent.version != expected_version:
                    raise
                lost = error
        return await self._spooled(expected_version, events, lost)

    async def _spooled(
        self, expected_version: int, events: Sequence[NewEvent], lost: StoreUnavailable | None
    ) -> tuple[RecordedEvent, ...]:
        s, stream = self.spooling, self.spooling.terms.stream
        if s.recent.version != expected_version:
            raise VersionConflict(stream, expected_version, s.recent.version or 0)
        moment = s.terms.now()
        s.name = s.name or name_of(s.terms.holder, s.file.place, expected_version)
        dated = tuple(
            replace(event, happened_at=moment, metadata={**event.metadata, SPOOLED: s.name}) for event in events
        )
        sealed = seal(stream, expected_version, s.recent.digest, dated, moment)
        await s.spool(SpooledEvents(stream, expected_version, dated), lost)
        recorded = tuple(event.recorded(0) for event in sealed)
        s.recent.appended(recorded)
        return recorded

    async def settle(self, stream: str, event: NewEvent) -> None:
        """Say `event` in a stream that others write to as well, now or when the store is back; see `flush.settle`."""
        s = self.spooling
        lost = None
        if await s.flush():
            try:
                await settle(s.stored, stream, event)
                return
            except StoreUnavailable as error:
                if not s.terms.may_spool():
                    raise
                lost = error
        await s.spool(Owed(stream, replace(event, happened_at=s.terms.now())), lost)

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        """See the port. The rollout's own stream is known, as far as it is its own, while the store is away."""
        s = self.spooling
        if stream != s.terms.stream:
            return await s.stored.read(stream, after_version)
        if await s.flush():
            try:
                found = await s.stored.read(stream, after_version)
                s.recent.read(found, after_version)
                return found
            except StoreUnavailable:
                if not s.terms.may_spool() or s.recent.version is None:
                    raise
        return s.recent.after(after_version)

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        if stream != self.spooling.terms.stream:
            return await self.spooling.stored.read_last(stream, count)
        return (await self.read(stream))[-count:]

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        return await self.spooling.stored.read_all(after_position, limit)

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self.spooling.stored.streams(prefix)

    async def unfinished(self) -> tuple[str, ...]:
        return await self.spooling.stored.unfinished()


class SpoolingEvidence:
    """Implements `EvidenceStore`."""

    def __init__(self, spooling: Spooling) -> None:
        self._spooling = spooling

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        s = self._spooling
        lost = None
        if await s.flush():
            try:
                ref = await s.kept.put(data, media_type)
                s.recent.put(ref, data)
                return ref
            except StoreUnavailable as error:
                if not s.terms.may_spool():
                    raise
                lost = error
        ref, kept = s.recent.redacted(data, media_type)
        await s.spool(SpooledEvidence(ref.digest, media_type, kept), lost)
        return ref

    async def get(self, digest: str) -> bytes:
        """See the port; what this rollout put lately is known while the store is away."""
        s = self._spooling
        try:
            if await s.flush():
                return await s.kept.get(digest)
        except StoreUnavailable:
            pass
        known = s.recent.bytes_of(digest)
        return known if known is not None else await s.kept.get(digest)
