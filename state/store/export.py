"""A stream as JSON lines, to be carried to another store: its events with their times and digests, and its evidence."""

import base64
import binascii
import json
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from state.canonical import canonical_json
from state.errors import EvidenceCorrupt, NotFound, Refused, UsageInvalid, VersionConflict
from state.store.chain import check_name, utc_text
from state.store.port import EventArchive, EventStore, EvidenceRef, EvidenceStore, RecordedEvent

FORMAT = 1
_WHOLE = "nothing was imported; give the lines of one export, whole and unchanged"
_EVENT = {
    "stream": str,
    "version": int,
    "type": str,
    "schema_version": int,
    "data": dict,
    "metadata": dict,
    "digest": str,
}
_EVIDENCE = {"evidence": str, "media_type": str, "base64": str}


async def export_lines(store: EventStore, stream: str, evidence: EvidenceStore | None = None) -> AsyncIterator[str]:
    """The stream's events, a line each, then each piece of evidence that they refer to, if `evidence` is given.

    Raises NotFound for a stream without events or for missing evidence, HistoryCorrupt if a digest is off.
    """
    events = await store.read(stream)
    if not events:
        raise NotFound("stream", stream)
    for event in events:
        yield _line({"interlock": FORMAT, **_fields(event)})
    if evidence is not None:
        for ref in {ref.digest: ref for event in events for ref in refs_in(event.data)}.values():
            data = base64.b64encode(await evidence.get(ref.digest)).decode()
            yield _line({"interlock": FORMAT, "evidence": ref.digest, "media_type": ref.media_type, "base64": data})


async def import_lines(archive: EventArchive, lines: Iterable[str], evidence: EvidenceStore | None = None) -> str:
    """Put one exported stream back as it was, and its evidence if a store is given; returns the stream's name.

    Evidence goes first, so that no event ever refers to what is not there. Raises UsageInvalid for lines of another
    shape, HistoryCorrupt if a digest is off, Refused if the stream exists already.
    """
    read = [_read_line(number, line) for number, line in enumerate(lines, 1) if line.strip()]
    events = [_event(fields) for fields in read if "evidence" not in fields]
    if not events:
        raise UsageInvalid("There is no event in these lines", hint=_WHOLE)
    if evidence is not None:
        for fields in read:
            if "evidence" in fields:
                await _keep(evidence, fields)
    try:
        restored = await archive.restore(events)
    except VersionConflict as error:
        raise Refused(
            f"Stream {error.stream} exists already, with {error.actual} events", hint="nothing was imported"
        ) from error
    return restored[0].stream


def refs_in(value: Any) -> Iterator[EvidenceRef]:
    """The evidence that an event's data refer to, wherever in them."""
    if isinstance(value, Mapping):
        if value.keys() == {"digest", "media_type", "size"}:
            yield EvidenceRef(value["digest"], value["media_type"], value["size"])
            return
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from refs_in(item)


def _fields(event: RecordedEvent) -> dict[str, Any]:
    return {name: getattr(event, name) for name in _EVENT} | {"recorded_at": utc_text(event.recorded_at)}


def _line(fields: Mapping[str, Any]) -> str:
    return canonical_json(fields).decode()


def _read_line(number: int, line: str) -> dict[str, Any]:
    fields = _parsed(number, line)
    if not isinstance(fields, dict) or type(form := fields.pop("interlock", None)) is not int or form != FORMAT:
        raise UsageInvalid(f"Line {number} is no line of an export in format {FORMAT}", hint=_WHOLE)
    shape = _EVIDENCE if "evidence" in fields else {**_EVENT, "recorded_at": str}
    if {name: type(value) for name, value in fields.items()} != shape:
        raise UsageInvalid(f"Line {number} lacks a field, has one too many, or one of another type", hint=_WHOLE)
    try:
        canonical_json(fields)
        for name in ("stream", "type") if shape is not _EVIDENCE else ():
            check_name(fields[name])
    except ValueError as error:
        raise UsageInvalid(f"Line {number} cannot be kept faithfully: {error}", hint=_WHOLE) from error
    return fields


def _parsed(number: int, line: str) -> Any:
    try:
        return json.loads(line)
    except RecursionError as error:
        raise UsageInvalid(f"Line {number} is nested too deeply", hint=_WHOLE) from error
    except ValueError as error:
        said = str(error).partition(";")[0]
        raise UsageInvalid(f"Line {number} is no JSON: {said}", hint=_WHOLE) from error


def _event(fields: Mapping[str, Any]) -> RecordedEvent:
    try:
        moment = datetime.fromisoformat(fields["recorded_at"])
        utc_text(moment)
    except (ValueError, OverflowError) as error:
        raise UsageInvalid(f"Event {fields['version']} has no time: {error}", hint=_WHOLE) from error
    return RecordedEvent(position=0, **{**fields, "recorded_at": moment})


async def _keep(evidence: EvidenceStore, fields: Mapping[str, Any]) -> None:
    try:
        data = base64.b64decode(fields["base64"], validate=True)
    except binascii.Error as error:
        raise EvidenceCorrupt(fields["evidence"], f"it is no base64: {error}") from error
    ref = await evidence.put(data, fields["media_type"])
    if ref.digest != fields["evidence"]:
        raise EvidenceCorrupt(fields["evidence"], f"its content gives {ref.digest[:12]}")
