"""Whole blocks of a file at once: lines of learned shapes in one pass, every other line by the full reading."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import cast

from state.inspection.boot import BootState
from state.inspection.events import Decoded
from state.inspection.shapes import Columns, Shapes, learnable, shape_of
from state.inspection.taken import Taken

_CHUNK = 64
"""Lines that are read in full before learned shapes are tried again."""


@dataclass(slots=True)
class _Waiting:
    """Matches of one block that have not been taken yet: those from `start` to before `stop`."""

    parts: Sequence[bytes | None]
    step: int
    records: tuple[Columns, ...]
    start: int = 0
    stop: int = 0


class Bulk:
    """`feed` reads one line in full and says what it took, `count` passes lines, `speaks` tells an engine's own."""

    def __init__(
        self, feed: Callable[[bytes], Taken | None], count: Callable[[int], None], speaks: Callable[[bytes], bool]
    ) -> None:
        self._feed = feed
        self._count = count
        self._speaks = speaks
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
        if taken.at >= 0 and not taken.busy and taken.newest and self._shapes.sighted(taken.words):
            self._learn(line, taken)

    def _learn(self, line: bytes, taken: Taken) -> None:
        if not learnable(taken.words, taken.events):
            return
        record = next((event for event in taken.events if isinstance(event, Decoded)), None)
        shape = shape_of(line, taken.at, taken.words, taken.slots(), record)
        if shape is not None and (record is None or taken.boot is not None):
            self._shapes.learn(shape, line)
            if taken.boot is not None:
                self._boots[shape.pattern] = taken.boot

    def _split(self, block: bytes, parts: Sequence[bytes | None]) -> bytes:
        """Takes the lines that matched, reads the others; the rest of the block where these changed what is known.

        Matches are counted at once and taken together, before the next line that could speak of the same figures.
        """
        others = parts[:: self._shapes.step]
        lines = counted = 0
        self._waiting = _Waiting(parts, self._shapes.step, self._shapes.records)
        for index, text in enumerate(others):
            if not text:
                continue
            self._count(index - counted)
            lines += index - counted
            counted = self._waiting.stop = index
            for line in text.split(b"\n")[:-1]:
                self._read(line)
                lines += 1
                if self._busy or self._shapes.empty:
                    self._flush()
                    return block.split(b"\n", lines)[lines]
        self._count(len(others) - 1 - counted)
        self._waiting.stop = len(others) - 1
        self._flush()
        return b""

    def _flush(self) -> None:
        """The waiting matches go to their boots, column by column."""
        waiting, stop = self._waiting, self._waiting.stop
        if stop <= waiting.start:
            return
        matched = [
            (columns, row)
            for columns in waiting.records
            if (row := self._last_row(columns.mark, waiting.start, stop)) is not None
        ]
        servers = {(id(self._boots[c.shape.pattern]), c.shape.record.group) for c, _ in matched if c.shape.record}
        if len(servers) == len(matched):
            for columns, _ in sorted(matched, key=lambda match: match[1]):
                self._hand_over(columns, waiting.start, stop)
        else:
            self._in_order([columns for columns, _ in matched], waiting.start, stop)
        waiting.start = stop

    def _column(self, group: int, start: int, stop: int) -> Sequence[bytes | None]:
        step = self._waiting.step
        return self._waiting.parts[start * step + group : stop * step : step]

    def _last_row(self, mark: int, start: int, stop: int) -> int | None:
        """The last of the matches that is of the shape with that mark."""
        column = self._column(mark, start, stop)
        return next((start + i for i in range(len(column) - 1, -1, -1) if column[i] is not None), None)

    def _in_order(self, records: Sequence[Columns], start: int, stop: int) -> None:
        """One rank printed records of several shapes: runs of one shape are taken one after another."""
        waiting = self._waiting
        begun = start
        current: Columns | None = None
        for row in range(start, stop):
            at = row * waiting.step
            of = next((columns for columns in records if waiting.parts[at + columns.mark] is not None), None)
            if of is not None and of is not current:
                if current is not None:
                    self._hand_over(current, begun, row)
                begun, current = row, of
        if current is not None:
            self._hand_over(current, begun, stop)

    def _hand_over(self, columns: Columns, start: int, stop: int) -> None:
        shape, marks = columns.shape, self._column(columns.mark, start, stop)
        rows = [row for row, mark in enumerate(marks) if mark is not None]
        if shape.record is None or not rows:
            return
        pick = itemgetter(*rows) if len(rows) > 1 else None
        fields: dict[str, Sequence[bytes]] = {}
        for name, group in columns.fields.items():
            column = self._column(group, start, stop)
            fields[name] = cast(Sequence[bytes], pick(column) if pick else (column[rows[0]],))
        self._boots[shape.pattern].take_records(shape.record, fields, len(rows))
