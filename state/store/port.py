"""The `EventStore` and `EvidenceStore` ports: append-only history, and the raw bytes it refers to."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

GENESIS = "0" * 64
"""The digest that the first event of every stream chains to."""


@dataclass(frozen=True, slots=True)
class NewEvent:
    """An event about to be appended. `data` and `metadata` are JSON objects; `type` is the event's wire name.

    `happened_at` is an aware time, for an event that is stored later than it was recorded; else the store's clock says.
    """

    type: str
    schema_version: int
    data: Mapping[str, Any]
    metadata: Mapping[str, Any] = field(default_factory=dict)
    happened_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event as it is stored. `version` counts from 1 within the stream, `position` rises over the whole store."""

    position: int
    stream: str
    version: int
    type: str
    schema_version: int
    data: Mapping[str, Any]
    metadata: Mapping[str, Any]
    recorded_at: datetime
    digest: str


@dataclass(frozen=True, slots=True)
class EvidenceRef:
    """Names raw evidence by the SHA-256 of its redacted bytes; `size` is their number."""

    digest: str
    media_type: str
    size: int


class EventStore(Protocol):
    """Append-only streams with optimistic concurrency. Every adapter passes `tests/contract/test_event_store.py`.

    Methods raise StoreUnavailable when the database cannot be reached.
    """

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        """Append all or none, durably; raises VersionConflict unless the stream is at `expected_version` (0: new)."""
        ...

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        """The stream's events in order, none if there is no such stream; raises HistoryCorrupt if a digest is off."""
        ...

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        """The newest `count` events of the stream, or all if there are no more, in order; raises as `read`."""
        ...

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        """Events of all streams by position; an event that commits late is never skipped by a reader that goes on."""
        ...

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        """Names of the streams that begin with `prefix`, in order of their first event."""
        ...

    async def unfinished(self) -> tuple[str, ...]:
        """The streams of rollouts that may have something left to do, oldest first, found without reading them all.

        None of those is left out; a few more may be among them, so the fold of each has to say.
        """
        ...


class EventArchive(Protocol):
    """Where an exported stream can be put back."""

    async def restore(self, events: Sequence[RecordedEvent]) -> tuple[RecordedEvent, ...]:
        """Store a whole stream with the times and digests that it has; positions are new.

        Raises HistoryCorrupt if its chain does not hold, VersionConflict if there is such a stream already.
        """
        ...


class EvidenceStore(Protocol):
    """Content-addressed bytes, redacted before they are stored, and stored once."""

    async def put(self, data: bytes, media_type: str) -> EvidenceRef: ...

    async def get(self, digest: str) -> bytes:
        """The bytes; raises NotFound, or HistoryCorrupt if they do not match their digest."""
        ...


class SpoolFile(Protocol):
    """Where one session of a rollout keeps its facts on this machine while the event store is away. At most one process
    holds it, until it lets go of it or ends."""

    @property
    def place(self) -> str:
        """Where a person finds it."""
        ...

    def hold(self) -> bool:
        """Whether this process has it to itself now; False while another one does, and if there is none."""
        ...

    async def append(self, line: bytes) -> None:
        """Durable once it returns; creates and holds it. Raises StoreUnavailable, and leaves no part of the line: for a
        full disk, and where there is one by that name which is not this one."""
        ...

    def read(self) -> bytes:
        """All of it; nothing if there is none."""
        ...

    def remove(self) -> None: ...

    def set_aside(self) -> str:
        """Keep it under another name, which is returned, and which nobody appends to or flushes any more."""
        ...

    def let_go(self) -> None: ...


class Spools(Protocol):
    """The spools of this machine."""

    def of(self, name: str) -> SpoolFile: ...

    def left(self) -> tuple[str, ...]:
        """The names of those that there are, whether anybody holds them or not."""
        ...

    def reserve(self) -> None:
        """Make sure of some room for a spool that may be needed."""
        ...
