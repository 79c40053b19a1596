"""A spool's format: what a rollout did while the event store was away, a line for each record, in the order in which
it happened. Each line carries a check over itself and all lines before it, so that one that is changed, taken out or
moved shows. Nothing here is a secret: events and evidence are redacted before they come here, as they are before they
are stored.
"""

import base64
import binascii
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from state.canonical import canonical_json, sha256_hex
from state.errors import SpoolDamaged
from state.store.chain import utc_text
from state.store.port import GENESIS, NewEvent, RecordedEvent


@dataclass(frozen=True, slots=True)
class SpooledEvents:
    """One append: all or none of it, onto `stream` at `after_version`. Each event says when it happened."""

    stream: str
    after_version: int
    events: tuple[NewEvent, ...]


@dataclass(frozen=True, slots=True)
class SpooledEvidence:
    """Redacted bytes, and the SHA-256 that events which come later refer to them by."""

    digest: str
    media_type: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be said once in a stream that other rollouts write to as well, at whatever version that will be."""

    stream: str
    event: NewEvent


Record = SpooledEvents | SpooledEvidence | Owed


@dataclass(frozen=True, slots=True)
class Spooled:
    """What a spool holds. `check` is its last line's, which the next one's covers; `torn` if it ends within a line,
    whose writer died before anybody heard that it was kept."""

    records: tuple[Record, ...] = ()
    check: str = GENESIS
    torn: bool = False

    @property
    def facts(self) -> int:
        return sum(len(r.events) if isinstance(r, SpooledEvents) else isinstance(r, Owed) for r in self.records)


def name_of(holder: str, place: str, version: int) -> str:
    """How events and hosts tell of a spool: who writes it where, and after which event of the rollout's stream."""
    return f"{holder}: {place} after event {version}"


def follows(name: str) -> int:
    """The version of the event that a spool of this name comes after."""
    version = name.rpartition(" ")[2]
    return int(version) if version.isdecimal() else 0


def line_of(record: Record, check: str) -> tuple[bytes, str]:
    """The record's line, after one whose check is `check`; and its own check.

    Raises ValueError and TypeError for what JSON cannot hold, as `chain.seal` does.
    """
    fields = _fields(record)
    own = _check(check, fields)
    return canonical_json({"check": own, **fields}) + b"\n", own


def read_spool(data: bytes, place: str) -> Spooled:
    """The records of a spool's bytes. Raises SpoolDamaged, which names `place` and the first line that is not what was
    written."""
    *lines, rest = data.split(b"\n")
    records: list[Record] = []
    check = GENESIS
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            own = fields.pop("check")
            if own != _check(check, fields):
                raise ValueError("its check does not cover it and what comes before it")
            records.append(_record(fields))
        except (ValueError, TypeError, AttributeError, LookupError, binascii.Error) as error:
            raise SpoolDamaged(place, number, f"{error}") from error
        check = own
    return Spooled(tuple(records), check, torn=bool(rest))


SPOOLED = "spooled"
"""The metadata by which an event says that it was spooled, and where."""


def same(one: NewEvent, stored: NewEvent | RecordedEvent) -> bool:
    """Whether a stored event says what `one` says, whenever that was recorded, and whether it was spooled or not."""
    return _said(one) == _said(stored)


def _said(event: NewEvent | RecordedEvent) -> tuple[str, int, bytes]:
    metadata = {name: value for name, value in event.metadata.items() if name != SPOOLED}
    return event.type, event.schema_version, canonical_json([event.data, metadata])


def _check(before: str, fields: Mapping[str, Any]) -> str:
    return sha256_hex(before.encode() + canonical_json(fields))


def _fields(record: Record) -> dict[str, Any]:
    match record:
        case SpooledEvents(stream, after_version, events):
            return {"kind": "events", "stream": stream, "after": after_version, "events": _events_json(events)}
        case SpooledEvidence(digest, media_type, data):
            text = base64.b64encode(data).decode()
            return {"kind": "evidence", "digest": digest, "media_type": media_type, "base64": text}
        case Owed(stream, event):
            return {"kind": "owed", "stream": stream, "events": _events_json([event])}


def _record(fields: Mapping[str, Any]) -> Record:
    match fields["kind"]:
        case "events":
            return SpooledEvents(fields["stream"], fields["after"], _events(fields))
        case "evidence":
            data = base64.b64decode(fields["base64"], validate=True)
            return SpooledEvidence(fields["digest"], fields["media_type"], data)
        case "owed":
            (event,) = _events(fields)
            return Owed(fields["stream"], event)
        case other:
            raise ValueError(f"there is no record of the kind {other!r}")


def _events_json(events: Sequence[NewEvent]) -> list[dict[str, Any]]:
    return [
        {
            "type": event.type,
            "schema_version": event.schema_version,
            "data": dict(event.data),
            "metadata": dict(event.metadata),
            "happened_at": utc_text(event.happened_at) if event.happened_at else None,
        }
        for event in events
    ]


def _events(fields: Mapping[str, Any]) -> tuple[NewEvent, ...]:
    return tuple(
        NewEvent(**{**event, "happened_at": event["happened_at"] and datetime.fromisoformat(event["happened_at"])})
        for event in fields["events"]
    )
