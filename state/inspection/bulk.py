"""Whole blocks of a file at once: lines of learned shapes in one pass, every other line by the full reading."""

from collections.abc import Callable, Sequence

from state.inspection.boot import BootState
from state.inspection.events import Decoded
from state.inspection.shapes import Shape, Shapes, learnable, shape_of
from state.inspection.taken import Taken

_CHUNK = 256
"""Lines that are read in full before learned shapes are tried again."""


class Bulk:
    """`feed` reads one line in full and says what it took; `clock` turns a captured time into seconds."""

    def __init__(self, feed: Callable[[bytes], Taken | None], count: Callable[[int], None]) -> None:
        self._feed = feed
        self._count = count
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
        taken = self._feed(line)
        if taken is None:
            self._busy = False
            return
        if taken.changed:
            self._shapes.forget()
            self._boots.clear()
        self._busy = taken.busy
        if taken.at >= 0 and not taken.busy and taken.newest and learnable(taken.words, taken.events):
            self._learn(line, taken)

    def _learn(self, line: bytes, taken: Taken) -> None:
        record = next((event for event in taken.events if isinstance(event, Decoded)), None)
        shape = shape_of(line, taken.at, taken.words, taken.slots(), record)
        if shape is not None and (record is None or taken.boot is not None):
            self._shapes.learn(shape)
            if taken.boot is not None:
                self._boots[shape.pattern] = taken.boot

    def _split(self, block: bytes, parts: Sequence[bytes | None]) -> bytes:
        """Takes the lines that matched, reads the others; the rest of the block where these changed what is known."""
        step = self._shapes.step
        records = self._shapes.records
        others = parts[::step]
        done = lines = 0
        for index, text in enumerate(others):
            if not text:
                continue
            self._matched(parts, step, records, done, index)
            lines += index - done
            done = index
            unread = text.split(b"\n")
            unread.pop()
            for line in unread:
                before = self._shapes
                self._read(line)
                lines += 1
                if self._busy or before.pattern() is None:
                    return block.split(b"\n", lines)[lines]
        self._matched(parts, step, records, done, len(others) - 1)
        return b""

    def _matched(
        self, parts: Sequence[bytes | None], step: int, records: tuple[tuple[Shape, int], ...], start: int, stop: int
    ) -> None:
        """The matches from `start` to before `stop`: those of records go to their boots, column by column."""
        if stop <= start:
            return
        self._count(stop - start)
        for shape, group in records:
            columns = [
                [value for value in parts[start * step + group + offset : stop * step : step] if value is not None]
                for offset in range(len(shape.fields))
            ]
            if columns and columns[0]:
                assert shape.record is not None
                self._boots[shape.pattern].take_records(shape.record, dict(zip(shape.fields, columns, strict=True)))
