"""What a rollout knows of its own stream and evidence without asking the store."""

from collections.abc import Sequence

from state.canonical import sha256_hex
from state.store.evidence import redacted
from state.store.port import GENESIS, EvidenceRef, RecordedEvent

MOST_BYTES = 64 << 20
"""Evidence that is remembered, as it was given; the oldest is forgotten first."""

_REDACTIONS = 5
"""What is hidden may bring together what looks like another secret; more than twice was never seen."""


class Recent:
    """A stream from its first event to its newest, as far as one orchestrator has read or written it; and what it put
    into the evidence store."""

    def __init__(self) -> None:
        self._events: list[RecordedEvent] | None = None
        self._evidence: dict[str, tuple[bytes, str]] = {}
        self._size = 0

    @property
    def version(self) -> int | None:
        """The stream's; None while it is not known."""
        return None if self._events is None else len(self._events)

    @property
    def digest(self) -> str:
        """The newest event's."""
        return self._events[-1].digest if self._events else GENESIS

    def after(self, version: int) -> tuple[RecordedEvent, ...]:
        return tuple((self._events or [])[max(0, version) :])

    def read(self, found: Sequence[RecordedEvent], after_version: int) -> None:
        """Events that follow `after_version`, to the stream's end."""
        if after_version <= 0:
            self._events = list(found)
        elif self._events is not None and after_version <= len(self._events):
            self._events[after_version:] = found

    def appended(self, recorded: Sequence[RecordedEvent]) -> None:
        if recorded and self._events is not None and recorded[0].version == len(self._events) + 1:
            self._events += recorded

    def forget(self) -> None:
        """Somebody else has written to the stream: what is known of it is not all."""
        self._events = None

    def put(self, ref: EvidenceRef, data: bytes) -> None:
        """Remember what `ref` names, as it was given: what is hidden in it is hidden when it is asked for."""
        self._size += len(data) - len(self._evidence.pop(ref.digest, (b"", ""))[0])
        self._evidence[ref.digest] = (data, ref.media_type)
        while self._size > MOST_BYTES and len(self._evidence) > 1:
            oldest = next(iter(self._evidence))
            self._size -= len(self._evidence.pop(oldest)[0])

    def redacted(self, data: bytes, media_type: str) -> tuple[EvidenceRef, bytes]:
        """The bytes that will be kept, and their name. They stay the same when a store redacts them once more."""
        kept = redacted(data, media_type)
        for _ in range(_REDACTIONS):
            if (again := redacted(kept, media_type)) == kept:
                break
            kept = again
        ref = EvidenceRef(sha256_hex(kept), media_type, len(kept))
        self.put(ref, kept)
        return ref, kept

    def bytes_of(self, digest: str) -> bytes | None:
        """What `digest` names, as the store would give it; None if it is not remembered."""
        if digest not in self._evidence:
            return None
        kept = redacted(*self._evidence[digest])
        return kept if sha256_hex(kept) == digest else None
