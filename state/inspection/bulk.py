"""Whole blocks of a file at once: lines of learned shapes in one pass, every other line by the full reading."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from operator import itemgetter
from typing import Protocol, cast

from state.inspection.boot import BootState
from state.inspection.events import Decoded
from state.inspection.shapes import Columns, Shapes, shape_of
from state.inspection.taken import Taken

_CHUNK = 64
"""Lines that are read in full before learned shapes are tried again."""


class Count(Protocol):
    def __call__(self, lines: int, *, alive: bool = False) -> None:
        """Passes lines; `alive` if they may be the newest boot's."""
        ...


@dataclass(slots=True)
class _Waiting:
    """Matches of one block that have not been taken yet: those from `start` to before `stop`."""

    parts: Sequence[bytes | None]
    step: int
    records: tuple[Columns, ...]
    start: int = 0
    stop: int = 0


class Bulk:
    """`feed` reads one line in full and says what it took, `count` passes lines.

    `speaks` tells an engine's own lines, `silent` those that reading in full could not make say anything.
    """

    def __init__(
        self,
        feed: Callable[[bytes], Taken | None],
        count: Count,
        speaks: Callable[[bytes], bool],
        silent: Callable[[bytes], bool],
    ) -> None:
        self._feed = feed
        self._count = count
        self._speaks = speaks
        self._silent = silent
        self._waiting = _Waiting((), 1, ())
        self._shapes = Shapes()
        self._boots: dict[bytes, BootState] = {}
        self._busy = True

    def take(self, block: bytes) -> None:
        """A block of whole lines, the last one with its end."""
        while block:
            pattern = self._shapes.pattern()
            if pattern is None or self._busy:
                lines = block.split(b"\n", _CHUNK)
                block = lines.pop()
                for line in lines:
                    self._read(line)
            else:
                block = self._split(block, pattern.split(block))

    def _read(self, line: bytes) -> None:
        if self._silent(line) and (self._shapes.full or not self._shapes.sighted(line)):
            self._count(1)
            return
        self._shapes.missed()
        if self._speaks(line):
            self._flush()
        taken = self._feed(line)
        if taken is None:
            self._busy = False
            return
        if taken.changed:
            self._flush()
            self._shapes.forget()
            self._boots.clear()
        self._busy = taken.busy
        if not self._shapes.full and self._shapes.sighted(taken.words) and taken.learnable:
            self._learn(line, taken)

    def _learn(self, line: bytes, taken: Taken) -> None:
        record = next((event for event in taken.events if isinstance(event, Decoded)), None)
        shape = shape_of(line, taken.at, taken.words, taken.slots(), record, mute=not taken.events)
        if shape is not None:
            shape = replace(shape, notices=taken.notices)
        if shape is not None and (taken.boot is not None or not shape.tells):
            self._shapes.learn(shape, line)
            if taken.boot is not None:
                self._boots[shape.pattern] = taken.boot

    def _split(self, block: bytes, parts: Sequence[bytes | None]) -> bytes:
        """Takes the lines that matched, reads the others; the rest of the block where these changed what is known.

        Matches are counted at once and taken together, before the next line that could speak of the same figures.
        """
        others = cast(Sequence[bytes], parts[:: self._shapes.step])
        lines = counted = 0
        self._waiting = _Waiting(parts, self._shapes.step, self._shapes.records)
        for index in compress(range(len(others)), others):
            self._count(index - counted, alive=bool(self._boots))
            lines += index - counted
            counted = self._waiting.stop = index
            for line in others[index].split(b"\n")[:-1]:
                self._read(line)
                lines += 1
                if self._busy or self._shapes.empty or self._shapes.outdated:
                    self._flush()
                    return block.split(b"\n", lines)[lines]
        self._count(len(others) - 1 - counted, alive=bool(self._boots))
        self._waiting.stop = len(others) - 1
        self._flush()
        return b""

    def _flush(self) -> None:
        """The waiting matches go to their boots, column by column."""
        waiting, stop = self._waiting, self._waiting.stop
        if stop <= waiting.start:
            return
        marked = [(columns, self._column(columns.mark, waiting.start, stop)) for columns in waiting.records]
        marked = [(columns, marks) for columns, marks in marked if marks.count(None) < len(marks)]
        matched = [
            (columns, waiting.start + _last(marks)) for columns, marks in marked if not self._repeated(columns, marks)
        ]
        servers = {(id(self._boots[c.shape.pattern]), c.shape.record.group) for c, _ in matched if c.shape.record}
        if len(servers) == len(matched):
            for columns, _ in sorted(matched, key=itemgetter(1)):
                self._hand_over(columns, waiting.start, stop)
        else:
            self._in_order([columns for columns, _ in matched], waiting.start, stop)
        waiting.start = stop

    def _column(self, group: int, start: int, stop: int) -> Sequence[bytes | None]:
        step = self._waiting.step
        return self._waiting.parts[start * step + group : stop * step : step]

    def _repeated(self, columns: Columns, marks: Sequence[bytes | None]) -> bool:
        """Notices are counted at once; whether the shape was one of notices."""
        if columns.shape.record is None:
            self._boots[columns.shape.pattern].repeat(columns.shape.notices, len(marks) - marks.count(None))
        return columns.shape.record is None

    def _in_order(self, records: Sequence[Columns], start: int, stop: int) -> None:
        """One rank printed records of several shapes: those of the commonest one are cut where another one stands."""
        rows = {columns.mark: self._rows(columns, start, stop) for columns in records}
        main = max(records, key=lambda columns: len(rows[columns.mark]))
        others = sorted(
            ((row, columns) for columns in records if columns is not main for row in rows[columns.mark]),
            key=itemgetter(0),
        )
        begun = start
        for row, columns in others:
            self._hand_over(main, begun, row)
            self._hand_over(columns, row, row + 1)
            begun = row + 1
        self._hand_over(main, begun, stop)

    def _rows(self, columns: Columns, start: int, stop: int) -> list[int]:
        return [start + at for at, mark in enumerate(self._column(columns.mark, start, stop)) if mark is not None]

    def _hand_over(self, columns: Columns, start: int, stop: int) -> None:
        shape, marks = columns.shape, self._column(columns.mark, start, stop)
        count = len(marks) - marks.count(None)
        if shape.record is None or not count:
            return
        fields = {
            name: cast(Sequence[bytes], list(compress(self._column(group, start, stop), marks)))
            for name, group in columns.fields.items()
        }
        self._boots[shape.pattern].take_records(shape.record, fields, count)


def _last(marks: Sequence[bytes | None]) -> int:
    """The place of the last one that is set; at least one is."""
    return next(at for at in range(len(marks) - 1, -1, -1) if marks[at] is not None)
