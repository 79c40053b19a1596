"""The stores in memory: the same contract without a disk, for simulations and demonstrations."""

from collections.abc import Callable, Sequence
from datetime import datetime

from state.canonical import sha256_hex
from state.errors import NotFound, VersionConflict
from state.store.chain import Sealed, seal, sealed_again
from state.store.evidence import redacted
from state.store.milestones import STREAMS, may_be_unfinished
from state.store.port import GENESIS, EvidenceRef, NewEvent, RecordedEvent


class MemoryEventStore:
    """An EventStore that ends with the process. `now` gives the aware time at which events are recorded."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._log: list[Sealed] = []
        self._streams: dict[str, list[int]] = {}

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        positions = self._streams.get(stream, [])
        if len(positions) != expected_version:
            raise VersionConflict(stream, expected_version, len(positions))
        previous = self._log[positions[-1] - 1].digest if positions else GENESIS
        return self._extend(seal(stream, expected_version, previous, events, self._now()))

    async def restore(self, events: Sequence[RecordedEvent]) -> tuple[RecordedEvent, ...]:
        sealed = sealed_again(events)
        for event in sealed[:1]:
            if positions := self._streams.get(event.stream):
                raise VersionConflict(event.stream, 0, len(positions))
        return self._extend(sealed)

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        positions = self._streams.get(stream, [])[max(0, after_version) :]
        return tuple(self._log[position - 1].recorded(position) for position in positions)

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        return await self.read(stream, len(self._streams.get(stream, [])) - count)

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        start = max(0, after_position)
        return tuple(e.recorded(p) for p, e in enumerate(self._log[start : start + limit], start + 1))

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return tuple(name for name in self._streams if name.startswith(prefix))

    async def unfinished(self) -> tuple[str, ...]:
        begun = ((name, at) for name, at in self._streams.items() if name.startswith(STREAMS))
        logs = ((name, [self._log[position - 1] for position in at]) for name, at in begun)
        return tuple(name for name, log in logs if may_be_unfinished((e.type, e.data) for e in log))

    def _extend(self, sealed: Sequence[Sealed]) -> tuple[RecordedEvent, ...]:
        first = len(self._log) + 1
        self._log.extend(sealed)
        for position, event in enumerate(sealed, first):
            self._streams.setdefault(event.stream, []).append(position)
        return tuple(event.recorded(position) for position, event in enumerate(sealed, first))


class MemoryEvidenceStore:
    """An EvidenceStore that ends with the process."""

    def __init__(self) -> None:
        self._kept: dict[str, bytes] = {}

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        kept = redacted(data, media_type)
        digest = sha256_hex(kept)
        self._kept.setdefault(digest, kept)
        return EvidenceRef(digest, media_type, len(kept))

    async def get(self, digest: str) -> bytes:
        if digest not in self._kept:
            raise NotFound("evidence", digest)
        return self._kept[digest]
