"""From stored rows to events, checking on the way that they are what was recorded."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from state.errors import HistoryCorrupt
from state.store.chain import check_digest, check_next, digest_of_texts, utc_text
from state.store.port import RecordedEvent


def decode_chain(
    stream: str, rows: Iterable[Sequence[Any]], previous: str, after_version: int
) -> tuple[RecordedEvent, ...]:
    """The events of `rows` (columns of `tables.events`), which follow event `after_version` with digest `previous`.

    Raises HistoryCorrupt for the first that is missing or is not what was recorded.
    """
    decoded, version = [], after_version
    for row in rows:
        _, at_stream, at_version, type_, schema_version, data, metadata, recorded_at, digest = row
        version += 1
        check_next(stream, version, at_stream, at_version)
        written = recorded_at if isinstance(recorded_at, str) else utc_text(recorded_at)
        if not (isinstance(data, str) and isinstance(metadata, str)):
            raise HistoryCorrupt(stream, version, "its content is not text")
        expected = digest_of_texts(previous, stream, version, type_, schema_version, data, metadata, written)
        check_digest(stream, version, expected, digest)
        decoded.append(decode(row))
        previous = digest
    return tuple(decoded)


def decode(row: Sequence[Any]) -> RecordedEvent:
    """One event; raises HistoryCorrupt if its JSON or its time cannot be read. Its digest is not checked."""
    position, stream, version, type_, schema_version, data, metadata, recorded_at, digest = row
    try:
        return RecordedEvent(
            position,
            stream,
            version,
            type_,
            schema_version,
            json.loads(data),
            {} if metadata == "{}" else json.loads(metadata),
            datetime.fromisoformat(recorded_at) if isinstance(recorded_at, str) else recorded_at.astimezone(UTC),
            digest,
        )
    except ValueError as error:
        raise HistoryCorrupt(stream, version, f"it cannot be read: {error}") from error
