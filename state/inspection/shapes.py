"""Shapes of lines that come by the million, learned from lines that were read in full.

Lines that differ only in digits say the same, apart from the fields that an engine names. A learned line becomes a
pattern; all patterns together split a whole block of a file in one pass.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.inspection.events import Alive, Decoded, Event, PidSeen, RoleSeen
from state.inspection.signatures import may_fail

MOST_SHAPES = 64
MOST_RECORDS = 16
_SIGHTINGS = 3
_MOST_SIGHTINGS = 8192
_DIGITS = re.compile(rb"[0-9]+")
_STATUS = re.compile(rb'" [0-9]{3}')
_JSON_VARYING = re.compile(rb'"(?:__[A-Z_]+|_SOURCE_[A-Z_]+|SYSLOG_TIMESTAMP|_STREAM_ID)" ?: ?"[^"\\]*"')
_STAMP = re.compile(
    rb"((?:[\w.-]{1,128} +\| )?)"
    rb"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?)"
)
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
    """One learned line as pieces of a pattern, each with the field that it captures or an empty name."""

    pieces: tuple[tuple[bytes, str], ...]
    record: Decoded | None

    @property
    def pattern(self) -> bytes:
        return b"".join(pattern for pattern, _ in self.pieces)


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the compiled pattern captures one shape: `mark` matched if the shape did, `fields` by name."""

    shape: Shape
    mark: int
    fields: Mapping[str, int]


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
    pieces = [(_head(line[:at]), "")]
    end = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        if slot.start < end:
            return None
        pieces += [(re.escape(words[end : slot.start]), ""), (slot.pattern, slot.field)]
        end = slot.end
    pieces += [(re.escape(words[end:]), ""), (_tail(line[at + len(words) :]), "")]
    return Shape(tuple(piece for piece in pieces if piece[0]), record)


def _head(head: bytes) -> bytes:
    if head[:1] == b"{":
        return _json_part(head)
    found = _STAMP.match(head)
    if found is None:
        return re.escape(head)
    return re.escape(found[1]) + b".{%d}" % len(found[2]) + re.escape(head[found.end() :])


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
        self.records: tuple[Columns, ...] = ()
        self.step = 1

    def sighted(self, words: bytes) -> bool:
        """Counts a sighting of words that differ only in digits; whether there were enough to learn the shape."""
        if len(self._sightings) >= _MOST_SIGHTINGS:
            self._sightings.clear()
        key = words.translate(None, b"0123456789")
        count = self._sightings[key] = self._sightings.get(key, 0) + 1
        return count >= _SIGHTINGS

    def learn(self, shape: Shape, line: bytes) -> None:
        """The shape is used from now on, if it takes the line that it was made of."""
        if shape.pattern in self._shapes or len(self._shapes) >= MOST_SHAPES:
            return
        if shape.record is not None and sum(s.record is not None for s in self._shapes.values()) >= MOST_RECORDS:
            return
        if re.fullmatch(shape.pattern, line) is not None:
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
        tree = _Tree()
        lines = tree.add([(shape, 0) for shape in ordered], {})
        self.records, self.step = tuple(tree.records), tree.groups + 1
        self._compiled = re.compile(rb"(?m:^)(?:" + lines + rb")\n")


class _Tree:
    """Shapes as one pattern in which what several of them begin with stands once."""

    def __init__(self) -> None:
        self.groups = 0
        self.records: list[Columns] = []

    def add(self, shapes: Sequence[tuple[Shape, int]], fields: Mapping[str, int]) -> bytes:
        """The pattern of what is left of the shapes from their given piece on; `fields` were captured before."""
        branches: dict[tuple[bytes, str], list[tuple[Shape, int]]] = {}
        ends: list[Shape] = []
        for shape, at in shapes:
            if at == len(shape.pieces):
                ends.append(shape)
            else:
                branches.setdefault(shape.pieces[at], []).append((shape, at + 1))
        patterns = [self._branch(piece, rest, fields) for piece, rest in branches.items()]
        patterns += [self._end(shape, fields) for shape in ends]
        return patterns[0] if len(patterns) == 1 else b"(?:" + b"|".join(patterns) + b")"

    def _branch(self, piece: tuple[bytes, str], rest: list[tuple[Shape, int]], fields: Mapping[str, int]) -> bytes:
        pattern, name = piece
        if name and any(shape.record is not None for shape, _ in rest):
            self.groups += 1
            return b"(" + pattern + b")" + self.add(rest, {**fields, name: self.groups})
        return pattern + self.add(rest, fields)

    def _end(self, shape: Shape, fields: Mapping[str, int]) -> bytes:
        if shape.record is None:
            return b""
        self.groups += 1
        self.records.append(Columns(shape, self.groups, fields))
        return b"()"
