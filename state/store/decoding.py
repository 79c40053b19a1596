"""From stored rows to events, checking on the way that they are what was recorded."""

import json
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from hashlib import sha256
from typing import Any

from state.errors import HistoryCorrupt
from state.store.chain import check_digest, check_next, quoted, utc_text
from state.store.port import RecordedEvent

Row = Sequence[Any]
"""The columns of `tables.events` in their order, the time as the driver gives it."""

_from_text = json.JSONDecoder().raw_decode


def decode_chain(stream: str, rows: Iterable[Row], previous: str, after_version: int) -> tuple[RecordedEvent, ...]:
    """The events of `rows`, which follow event `after_version` with digest `previous`.

    Each digest is that of the text as it is stored: neither is it parsed and written again, nor is anything taken to be
    canonical. Raises HistoryCorrupt for the first event that is missing or is not what was recorded.
    """
    decoded, version, head = [], after_version, quoted(stream)
    for row in rows:
        _, at_stream, at_version, type_, schema_version, data, metadata, recorded_at, digest = row
        version += 1
        if at_version != version or at_stream != stream:
            check_next(stream, version, at_stream, at_version)
        if not (isinstance(data, str) and isinstance(metadata, str)):
            raise HistoryCorrupt(stream, version, "its content is not text")
        written = recorded_at if isinstance(recorded_at, str) else utc_text(recorded_at)
        # as `chain.digest_of_texts` has it, whose call alone is a tenth of what an event takes
        whole = f'["{previous}",{head},{version},{_kind(type_, schema_version)},{data},{metadata},"{written}"]'
        expected = sha256(whole.encode("utf-8", "surrogatepass")).hexdigest()
        if expected != digest:
            check_digest(stream, version, expected, digest)
        decoded.append(decode(row))
        previous = digest
    return tuple(decoded)


def decode(row: Row) -> RecordedEvent:
    """One event; raises HistoryCorrupt if its JSON or its time cannot be read. Its digest is not checked."""
    position, stream, version, type_, schema_version, data, metadata, recorded_at, digest = row
    try:
        return RecordedEvent(
            position,
            stream,
            version,
            type_,
            schema_version,
            parsed(data),
            {} if metadata == "{}" else parsed(metadata),
            datetime.fromisoformat(recorded_at) if isinstance(recorded_at, str) else recorded_at.astimezone(UTC),
            digest,
        )
    except ValueError as error:
        raise HistoryCorrupt(stream, version, f"it cannot be read: {error}") from error


def parsed(text: str) -> Any:
    """`json.loads` for a text that begins with its value and ends with it, as what is stored does; any other is left to
    that. Raises ValueError."""
    try:
        value, end = _from_text(text)
    except ValueError:
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


@lru_cache(256, typed=True)
def _kind(type_: str, schema_version: int) -> str:
    return f"{quoted(type_)},{schema_version}"
