"""The digest chain: each event's digest covers the event and the digest before it, so that tampering shows."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from state.canonical import canonical_json
from state.errors import HistoryCorrupt
from state.store.port import GENESIS, NewEvent, RecordedEvent

Contents = tuple[Any, Any]
quoted = lru_cache(4096)(json.JSONEncoder(ensure_ascii=False).encode)
"""A string as canonical JSON writes it."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """An event as it is written: `data` and `metadata` are canonical JSON text, `recorded_at` is aware UTC."""

    stream: str
    version: int
    type: str
    schema_version: int
    data: str
    metadata: str
    recorded_at: datetime
    digest: str

    def recorded(self, position: int, contents: "Contents | None" = None) -> RecordedEvent:
        """As it is read: `contents` are this event's, if they are there already."""
        data, metadata = contents or self.contents()
        return RecordedEvent(
            position,
            self.stream,
            self.version,
            self.type,
            self.schema_version,
            data,
            metadata,
            self.recorded_at,
            self.digest,
        )

    def contents(self) -> "Contents":
        """Data and metadata as they are read from their texts."""
        return json.loads(self.data), {} if self.metadata == "{}" else json.loads(self.metadata)


def event_digest(
    previous: str,
    stream: str,
    version: int,
    type: str,
    schema_version: int,
    data: Mapping[str, Any],
    metadata: Mapping[str, Any],
    recorded_at: datetime,
) -> str:
    """SHA-256 of the canonical JSON array of the arguments, in this order; the time is written by `utc_text`."""
    texts = (canonical_json(data).decode(), canonical_json(metadata).decode())
    return digest_of_texts(previous, stream, version, type, schema_version, *texts, utc_text(recorded_at))


def digest_of_texts(
    previous: str, stream: str, version: int, type: str, schema_version: int, data: str, metadata: str, recorded_at: str
) -> str:
    """`event_digest` of canonical JSON texts: what is stored need not be parsed to be checked."""
    names = f'["{previous}",{quoted(stream)},{version},{quoted(type)},{schema_version}'
    whole = f'{names},{data},{metadata},"{recorded_at}"]'
    return sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()


def utc_text(moment: datetime) -> str:
    """ISO 8601 in UTC with microseconds, always 32 characters; raises ValueError for a naive time."""
    if moment.tzinfo is UTC:
        return moment.isoformat(timespec="microseconds")
    if moment.tzinfo is None:
        raise ValueError(f"{moment.isoformat()} has no time zone")
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def seal(
    stream: str, version: int, previous: str, events: Iterable[NewEvent], recorded_at: datetime
) -> tuple[Sealed, ...]:
    """`events` chained onto the stream's head (`version`, `previous`); one that says when it happened keeps that time.

    Raises ValueError for a name that is empty or unprintable, for NaN, infinities and lone surrogates, TypeError for
    what JSON cannot hold.
    """
    check_name(stream)
    sealed = []
    for event in events:
        check_name(event.type)
        version += 1
        moment = event.happened_at or recorded_at
        written, moment = utc_text(moment), moment.astimezone(UTC)
        data = canonical_json(event.data).decode()
        metadata = canonical_json(event.metadata).decode() if event.metadata else "{}"
        previous = digest_of_texts(previous, stream, version, event.type, event.schema_version, data, metadata, written)
        sealed.append(Sealed(stream, version, event.type, event.schema_version, data, metadata, moment, previous))
    return tuple(sealed)


def sealed_again(events: Sequence[RecordedEvent]) -> tuple[Sealed, ...]:
    """A whole stream as it was written the first time; raises HistoryCorrupt, and ValueError as `seal` does."""
    check_chain(events)
    for event in events:
        check_name(event.stream)
        check_name(event.type)
    return tuple(
        Sealed(
            event.stream,
            event.version,
            event.type,
            event.schema_version,
            canonical_json(event.data).decode(),
            canonical_json(event.metadata).decode(),
            event.recorded_at.astimezone(UTC),
            event.digest,
        )
        for event in events
    )


def check_chain(events: Iterable[RecordedEvent], previous: str = GENESIS, after_version: int = 0) -> None:
    """Raise HistoryCorrupt at the first event of one stream that is missing, or is not what its digest says.

    `previous` is the digest of event `after_version`; the events follow it. Events cut off at the end cannot be seen.
    """
    stream: str | None = None
    for event in events:
        stream = stream if stream is not None else event.stream
        check_next(stream, after_version + 1, event.stream, event.version)
        expected = event_digest(
            previous,
            event.stream,
            event.version,
            event.type,
            event.schema_version,
            event.data,
            event.metadata,
            event.recorded_at,
        )
        check_digest(event.stream, event.version, expected, event.digest)
        previous, after_version = event.digest, event.version


def check_next(stream: str, version: int, actual_stream: str, actual_version: int) -> None:
    """Raise HistoryCorrupt unless what comes next is event `version` of `stream`."""
    if actual_stream != stream:
        raise HistoryCorrupt(stream, version, f"an event of {actual_stream} stands in its place")
    if actual_version != version:
        raise HistoryCorrupt(stream, version, f"it is missing, event {actual_version} follows")


def check_digest(stream: str, version: int, expected: str, stored: str) -> None:
    """Raise HistoryCorrupt unless the two digests agree."""
    if expected != stored:
        raise HistoryCorrupt(stream, version, f"its content gives {expected[:12]}, the digest stored is {stored[:12]}")


def check_name(name: str) -> None:
    """Raise ValueError for a stream's or type's name that no database and no log could carry faithfully."""
    if not name or not name.isprintable():
        raise ValueError(f"{name!r} is no name for a stream or an event type")
