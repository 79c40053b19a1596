"""One pass over a block of whole lines: which lines a pattern takes, what it captures of them, and all other lines.

Nothing here depends on what was read before, so that another process can do it ahead of the reading.
"""

import re
from array import array
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import cast


@dataclass(frozen=True, slots=True)
class Groups:
    """Where the pattern captures one shape of lines.

    `mark` is captured if the shape matched, and never empty; no other shape captures it, nor any from `own` on.
    """

    mark: int
    own: int
    fields: Mapping[str, int]


@dataclass(slots=True)
class Matches:
    """The lines of one shape in order, `count` of `total` that matched, with their fields by column.

    `marks` has something for each of these lines and None for the others; it is only looked at where order matters.
    """

    count: int
    total: int
    fields: Mapping[str, Sequence[bytes]]
    marks: Sequence[bytes | None] = ()
    places: Sequence[int] | None = None

    @property
    def rows(self) -> Sequence[int]:
        """The places of the lines among all that matched."""
        if self.places is None:
            self.places = list(compress(range(self.total), self.marks))
        return self.places

    @property
    def last(self) -> int:
        """The place of the last of the lines, of which there must be one."""
        if self.places is not None:
            return self.places[-1]
        return next(place for place in range(self.total - 1, -1, -1) if self.marks[place] is not None)

    def between(self, start: int, stop: int) -> "Matches":
        """Those with places from `start` to before `stop`."""
        if not self.count or (start == 0 and stop == self.total):
            return self
        low, high = bisect_left(self.rows, start), bisect_left(self.rows, stop)
        fields = {name: column[low:high] for name, column in self.fields.items()}
        return Matches(high - low, self.total, fields, places=self.rows[low:high])


NO_MATCHES = Matches(0, 0, {}, places=())
Packed = tuple[int, list[tuple[int, bytes]], list[tuple[bytes, dict[str, bytes]]]]


@dataclass(frozen=True, slots=True)
class Split:
    """A block taken apart: how many lines matched, the other lines with the number of matches before them, and the
    matches of each shape that has fields or is counted."""

    count: int
    others: Sequence[tuple[int, bytes]]
    matches: Sequence[Matches]

    def packed(self) -> Packed:
        """As few and long objects, which are cheap to send. Fields have no line ends."""
        return (
            self.count,
            list(self.others),
            [
                (array("I", one.rows).tobytes(), {name: b"\n".join(column) for name, column in one.fields.items()})
                for one in self.matches
            ],
        )

    @classmethod
    def unpacked(cls, packed: Packed) -> "Split":
        count, others, shapes = packed
        matches = [_unpacked(count, array("I", rows), fields) if rows else NO_MATCHES for rows, fields in shapes]
        return cls(count, others, matches)


def _unpacked(total: int, places: Sequence[int], fields: Mapping[str, bytes]) -> Matches:
    return Matches(len(places), total, {name: column.split(b"\n") for name, column in fields.items()}, places=places)


@dataclass(frozen=True, slots=True)
class Splitter:
    """Learned shapes as one pattern that takes whole lines; it has `step` - 1 groups."""

    pattern: re.Pattern[bytes]
    step: int
    shapes: tuple[Groups, ...]

    def split(self, block: bytes) -> Split:
        """`block` ends with a line end."""
        parts: list[bytes | None] = cast(list[bytes | None], self.pattern.split(block))
        between = cast(list[bytes], parts[:: self.step])
        alike = between.count(b"") == len(between)
        others = [] if alike else [(at, text) for at, text in enumerate(between) if text]
        return Split(len(between) - 1, others, [self._matches(parts, groups) for groups in self.shapes])

    def _matches(self, parts: list[bytes | None], groups: Groups) -> Matches:
        marks = parts[groups.mark :: self.step]
        count = len(marks) - marks.count(None)
        if not count:
            return NO_MATCHES
        fields = {name: self._column(parts, group, groups, marks) for name, group in groups.fields.items()}
        return Matches(count, len(marks), fields, marks)

    def _column(
        self, parts: list[bytes | None], group: int, groups: Groups, marks: list[bytes | None]
    ) -> Sequence[bytes]:
        column = parts[group :: self.step]
        kept = filter(None, column) if group >= groups.own else compress(column, marks)
        return cast(list[bytes], list(kept))
