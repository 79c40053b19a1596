"""Shapes of lines that come by the million, learned from lines that were read in full.

Lines that differ only in digits say the same, apart from the fields that an engine names. A learned line becomes a
pattern; all patterns together split a whole block of a file in one pass.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from state.inspection.events import Alive, Decoded, Event, PidSeen, RoleSeen
from state.inspection.signatures import may_fail

FIELDS = ("clock", "running", "length", "rate", "throughput", "queued")
"""What is captured of a decode record."""
MOST_SHAPES = 64
MOST_RECORDS = 16
_SIGHTINGS = 3
_DIGITS = re.compile(rb"[0-9]+")
_STATUS = re.compile(rb'" [0-9]{3}')
_JSON_VARYING = re.compile(rb'"(?:__[A-Z_]+|_SOURCE_[A-Z_]+|SYSLOG_TIMESTAMP|_STREAM_ID)" ?: ?"[^"\\]*"')
_UNSURE = (b"GB", b"GiB", b"SIMULATE")


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of a line that varies: its place, the pattern of what means the same, its field if it has one."""

    start: int
    end: int
    pattern: bytes
    field: str = ""


def digit_slots(words: bytes, start: int = 0, end: int | None = None) -> list[Slot]:
    """Every run of digits in part of a line; an HTTP status is no such run, for it means something."""
    kept = {found.start() + 2 for found in _STATUS.finditer(words)}
    stop = len(words) if end is None else end
    return [
        Slot(found.start(), found.end(), b"[0-9]++")
        for found in _DIGITS.finditer(words, start, stop)
        if found.start() not in kept
    ]


@dataclass(frozen=True, slots=True)
class Shape:
    """One learned line: its pattern with a group for each field in `fields`."""

    pattern: bytes
    fields: tuple[str, ...]
    record: Decoded | None


def learnable(words: bytes, events: Sequence[Event]) -> bool:
    """Whether digits alone cannot change what the line means, fields aside."""
    if any(mark in words for mark in _UNSURE) or may_fail(words) or len(words) > 2000:
        return False
    decoded = [event for event in events if isinstance(event, Decoded)]
    if not all(isinstance(event, Alive | Decoded | PidSeen | RoleSeen) for event in events):
        return False
    return not decoded or (decoded[0].has_acceptance is not None and decoded[0].tokens != 0)


def shape_of(line: bytes, at: int, words: bytes, slots: Sequence[Slot], record: Decoded | None) -> Shape | None:
    """The shape of a whole line whose words begin at `at`; None where its slots overlap."""
    fields: list[str] = []
    pieces = [_head(line[:at])]
    end = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        if slot.start < end:
            return None
        pieces.append(re.escape(words[end : slot.start]))
        named = slot.field if record is not None else ""
        pieces.append(b"(" + slot.pattern + b")" if named else slot.pattern)
        fields += [named] if named else []
        end = slot.end
    pieces += [re.escape(words[end:]), _tail(line[at + len(words) :])]
    return Shape(b"".join(pieces), tuple(fields), record)


def _head(head: bytes) -> bytes:
    if head[:1] == b"{":
        return _json_part(head)
    stamp = re.match(
        rb"(?:[\w.-]{1,128} +\| )?[A-Z][a-z]{2} [ \d]\d [\d:.]+|(?:[\w.-]{1,128} +\| )?\d{4}-\d\d-\d\dT[\d:.,]+", head
    )
    if stamp is None:
        return re.escape(head)
    loose = b"".join(
        b"[0-9]++" if part[:1].isdigit() else re.escape(part) for part in re.findall(rb"[0-9]+|[^0-9]+", stamp[0])
    )
    return loose.replace(re.escape(b"  ") + b"[0-9]", b" ++[0-9]") + re.escape(head[stamp.end() :])


def _tail(tail: bytes) -> bytes:
    return _json_part(tail) if tail[:1] == b'"' else re.escape(tail)


def _json_part(part: bytes) -> bytes:
    """JSON around the message, with the fields that differ from record to record left open."""
    pieces: list[bytes] = []
    end = 0
    for found in _JSON_VARYING.finditer(part):
        name = part[found.start() : found.end()].rsplit(b'"', 2)[0]
        pieces += [re.escape(part[end : found.start()]), re.escape(name), rb'"[^"\\]*+"']
        end = found.end()
    return b"".join((*pieces, re.escape(part[end:])))


class Shapes:
    """The learned shapes, compiled into one pattern that takes whole lines."""

    def __init__(self) -> None:
        self._sightings: dict[bytes, int] = {}
        self._shapes: dict[bytes, Shape] = {}
        self._compiled: re.Pattern[bytes] | None = None
        self._dirty = False
        self.records: tuple[tuple[Shape, int], ...] = ()
        self.step = 1

    def learn(self, shape: Shape, line: bytes) -> None:
        """Counts a sighting; a shape is used from its third one on, if it takes the line that it was made of."""
        if shape.pattern in self._shapes or len(self._shapes) >= MOST_SHAPES:
            return
        if shape.record is not None and sum(s.record is not None for s in self._shapes.values()) >= MOST_RECORDS:
            return
        if len(self._sightings) > 4096:
            self._sightings.clear()
        count = self._sightings.get(shape.pattern, 0) + 1
        self._sightings[shape.pattern] = count
        if count == _SIGHTINGS and re.fullmatch(shape.pattern, line) is not None:
            self._shapes[shape.pattern] = shape
            self._dirty = True

    @property
    def empty(self) -> bool:
        return not self._shapes

    def forget(self) -> None:
        """Boots have changed: which boot a line belongs to has to be found out anew."""
        if self._shapes or self._sightings:
            self.__init__()  # type: ignore[misc]

    def pattern(self) -> re.Pattern[bytes] | None:
        if self._dirty:
            self._compile()
        return self._compiled

    def _compile(self) -> None:
        self._dirty = False
        ordered = sorted(self._shapes.values(), key=lambda shape: shape.record is None)
        groups, records = 1, []
        for shape in ordered:
            if shape.record is not None:
                records.append((shape, groups))
                groups += len(shape.fields)
        self.records, self.step = tuple(records), groups
        lines = b"|".join(shape.pattern for shape in ordered)
        self._compiled = re.compile(rb"(?:(?<=\n)|\A)(?:" + lines + rb")\n")
