"""Shapes of lines that come by the million, learned from lines that were read in full.

Lines that differ only in numbers say the same, apart from the fields that an engine names. A learned line becomes a
pattern; all patterns together split a whole block of a file in one pass.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from state.inspection.events import Decoded
from state.inspection.splitting import Groups, Splitter

MOST_SHAPES = 64
MOST_RECORDS = 16
_SIGHTINGS = 3
_MOST_SIGHTINGS = 8192
_MISSES = 64
"""Lines read in full that cost about as much as to compile the pattern."""
_NUMBER = re.compile(
    rb"(?<![0-9A-Za-z])(?:(?P<id>[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{2}(?::[0-9a-f]{2}){5,31})"
    rb"|(?P<hex>(?=[0-9]*[a-f])[0-9a-f]{12,64}))(?![0-9A-Za-z])|[0-9]+"
)
_STATUS = re.compile(rb'" [0-9]{3}')
_JSON_VARYING = re.compile(rb'"(?:__[A-Z_]+|_SOURCE_[A-Z_]+|SYSLOG_TIMESTAMP|_STREAM_ID|time)" ?: ?"[^"\\]*"')
_JSON_OF_OTHERS = re.compile(
    rb'"(?:__[A-Z_]+|_SOURCE_[A-Z_]+|SYSLOG_TIMESTAMP|_STREAM_ID|time|_PID|SYSLOG_PID|_AUDIT_\w+|_SYSTEMD_[A-Z_]+|SYSLOG_RAW)"'
    rb' ?: ?"[^"\\]*"'
)
_TAG = re.compile(rb"(?P<host> [^\s:\[\]]{1,255} )(?P<ident>[^\s:\[\]]{1,64})\[\d{1,10}\]: ?\Z")
_STRING = rb'"[^"\\\n]*+"'
"""A JSON string without escapes. (A class of one or two bytes would be compared byte by byte; three make a bitmap.)"""
_STAMP = re.compile(
    rb"((?:[\w.-]{1,128} +\| )?)"
    rb"([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d(?:\.\d+)?|\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?)"
)


@dataclass(frozen=True, slots=True)
class Slot:
    """A piece of a line that varies: its place, the pattern of what means the same, its field if it has one."""

    start: int
    end: int
    pattern: bytes
    field: str = ""


def digit_slots(words: bytes, start: int = 0, end: int | None = None) -> list[Slot]:
    """Every number in part of a line, ids included; an HTTP status is no such number, for it means something."""
    kept = {found.start() + 2 for found in _STATUS.finditer(words)}
    stop = len(words) if end is None else end
    return [
        Slot(found.start(), found.end(), _number_like(found))
        for found in _NUMBER.finditer(words, start, stop)
        if found.start() not in kept
    ]


def _number_like(found: re.Match[bytes]) -> bytes:
    if found["id"]:
        return b"[0-9a-f:-]{%d}" % len(found[0])
    return b"[0-9a-f]++" if found["hex"] else b"[0-9]++"


@dataclass(frozen=True, slots=True)
class Shape:
    """One learned line as pieces of a pattern, each with the field that it captures or an empty name.

    `record` is what its decode record has in common with the others, `notices` are the codes that it repeats.
    """

    pieces: tuple[tuple[bytes, str], ...]
    record: Decoded | None
    notices: tuple[str, ...] = ()

    @property
    def tells(self) -> bool:
        """Whether matches have to be handed over to a boot."""
        return self.record is not None or bool(self.notices)

    @property
    def pattern(self) -> bytes:
        return b"".join(pattern for pattern, _ in self.pieces)


def shape_of(
    line: bytes, at: int, words: bytes, slots: Sequence[Slot], record: Decoded | None, *, mute: bool = False
) -> Shape | None:
    """The shape of a whole line whose words begin at `at`; None where its slots overlap.

    A `mute` line showed nothing, so that nothing depends on the process that wrote it.
    """
    pieces = [(piece, "") for piece in _head(line[:at], mute=mute)]
    end = 0
    for slot in sorted(slots, key=lambda slot: slot.start):
        if slot.start < end:
            return None
        pieces += [(re.escape(words[end : slot.start]), ""), (slot.pattern, slot.field)]
        end = slot.end
    pieces += [(re.escape(words[end:]), ""), (_tail(line[at + len(words) :], mute=mute), "")]
    kept = [(pattern, name if record is not None else "") for pattern, name in pieces if pattern]
    return Shape(tuple(_paired(kept)), record)


def _paired(pieces: list[tuple[bytes, str]]) -> list[tuple[bytes, str]]:
    """Length and rate as one field `pair`, if the rate follows at once: the same pairs come again and again."""
    names = [name for _, name in pieces]
    at = names.index("length") if "length" in names else len(names)
    if names[at : at + 3] != ["length", "", "rate"] or re.fullmatch(rb",\\ [^,]+:\\ ", pieces[at + 1][0]) is None:
        return pieces
    pair = b"".join(pattern for pattern, _ in pieces[at : at + 3])
    return [*pieces[:at], (pair, "pair"), *pieces[at + 3 :]]


def _head(head: bytes, *, mute: bool) -> tuple[bytes, ...]:
    """What stands before the words, in the pieces that lines of different programs share."""
    if head[:1] == b"{":
        return (_json_part(head, mute=mute),)
    found = _STAMP.match(head)
    if found is None:
        return (re.escape(head),)
    rest = head[found.end() :]
    stamp, tag = re.escape(found[1]) + b".{%d}" % len(found[2]), _TAG.match(rest)
    if tag is None:
        return stamp, re.escape(rest)
    number = rb"[0-9]++" if mute else re.escape(rest[tag.end("ident") + 1 : rest.rindex(b"]")])
    return stamp, re.escape(tag["host"]), re.escape(tag["ident"]) + rb"\[", number, re.escape(rest[rest.rindex(b"]") :])


def _tail(tail: bytes, *, mute: bool) -> bytes:
    return _json_part(tail, mute=mute) if tail[:1] == b'"' else re.escape(tail)


def _json_part(part: bytes, *, mute: bool) -> bytes:
    """JSON around the message, with the fields that differ from record to record left open."""
    pieces: list[bytes] = []
    end = 0
    for found in (_JSON_OF_OTHERS if mute else _JSON_VARYING).finditer(part):
        name = part[found.start() : found.end()].rsplit(b'"', 2)[0]
        pieces += [re.escape(part[end : found.start()]), re.escape(name), _STRING]
        end = found.end()
    return b"".join((*pieces, re.escape(part[end:])))


class Shapes:
    """The learned shapes, compiled into one pattern that takes whole lines."""

    def __init__(self) -> None:
        self._sightings: dict[bytes, int] = {}
        self._shapes: dict[bytes, Shape] = {}
        self.splitter: Splitter | None = None
        self._dirty = False
        self._missed = 0
        self.telling: tuple[Shape, ...] = ()

    def sighted(self, words: bytes) -> bool:
        """Counts a sighting of words that differ only in numbers; whether there were enough to learn the shape."""
        if len(self._sightings) >= _MOST_SIGHTINGS:
            self._sightings.clear()
        key = words.translate(None, b"0123456789abcdef")
        count = self._sightings[key] = self._sightings.get(key, 0) + 1
        return count >= _SIGHTINGS

    def learn(self, shape: Shape, line: bytes) -> None:
        """The shape is used from now on, if it takes the line that it was made of."""
        if shape.pattern in self._shapes or len(self._shapes) >= MOST_SHAPES:
            return
        if shape.tells and sum(known.tells for known in self._shapes.values()) >= MOST_RECORDS:
            return
        if re.fullmatch(shape.pattern, line) is not None:
            self._shapes[shape.pattern] = shape
            self._dirty = True

    @property
    def empty(self) -> bool:
        return not self._shapes

    @property
    def full(self) -> bool:
        return len(self._shapes) >= MOST_SHAPES

    def forget(self) -> None:
        """Boots have changed: which boot a line belongs to has to be found out anew."""
        if self._shapes or self._sightings:
            self.__init__()  # type: ignore[misc]

    def missed(self) -> None:
        """A line had to be read in full."""
        self._missed += 1

    @property
    def outdated(self) -> bool:
        """Whether a new pattern is worth its price: shapes were learned, and many lines read, since the last one."""
        return self._dirty and self._missed >= _MISSES

    def compiled(self) -> Splitter | None:
        """The newest pattern that is worth its price; None before anything was learned."""
        if self._shapes and (self.outdated or self.splitter is None):
            self._compile()
        return self.splitter

    def _compile(self) -> None:
        self._dirty, self._missed = False, 0
        ordered = sorted(self._shapes.values(), key=lambda shape: not shape.tells)
        tree = _Tree()
        lines = tree.add([(shape, 0) for shape in ordered], {}, 0)
        self.telling = tuple(shape for shape, _ in tree.telling)
        groups = tuple(groups for _, groups in tree.telling)
        self.splitter = Splitter(re.compile(rb"(?m:^)" + lines), tree.groups + 1, groups)


class _Tree:
    """Shapes as one pattern in which what several of them begin with stands once."""

    def __init__(self) -> None:
        self.groups = 0
        self.telling: list[tuple[Shape, Groups]] = []

    def add(self, shapes: Sequence[tuple[Shape, int]], fields: Mapping[str, int], own: int) -> bytes:
        """The pattern of what is left of the shapes from their given piece on, line end included.

        `fields` were captured before; `own` is the first group that only this shape captures, 0 without one.
        """
        branches: dict[tuple[bytes, str], list[tuple[Shape, int]]] = {}
        ends: list[Shape] = []
        for shape, at in shapes:
            if at == len(shape.pieces):
                ends.append(shape)
            else:
                branches.setdefault(shape.pieces[at], []).append((shape, at + 1))
        patterns = [self._branch(piece, rest, fields, own) for piece, rest in branches.items()]
        patterns += [self._end(shape, fields, own) for shape in ends]
        return patterns[0] if len(patterns) == 1 else b"(?:" + b"|".join(patterns) + b")"

    def _branch(
        self, piece: tuple[bytes, str], rest: list[tuple[Shape, int]], fields: Mapping[str, int], own: int
    ) -> bytes:
        pattern, name = piece
        if not name:
            return pattern + self.add(rest, fields, own)
        self.groups += 1
        own = own or (self.groups if len(rest) == 1 else 0)
        return b"(" + pattern + b")" + self.add(rest, {**fields, name: self.groups}, own)

    def _end(self, shape: Shape, fields: Mapping[str, int], own: int) -> bytes:
        if not shape.tells:
            return rb"\n"
        if own:
            self.telling.append((shape, Groups(self.groups, own, fields)))
            return rb"\n"
        self.groups += 1
        self.telling.append((shape, Groups(self.groups, self.groups, fields)))
        return rb"(\n)"
