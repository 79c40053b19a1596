"""Whole blocks of a file at once: lines of learned shapes in one pass, every other line by the full reading."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter

from state.inspection.boot import BootState
from state.inspection.events import Decoded
from state.inspection.shapes import Shape, Shapes, shape_of
from state.inspection.splitting import Matches, Split, Splitter
from state.inspection.taken import Taken

_CHUNK = 64
"""Lines that are read in full before learned shapes are tried again."""


@dataclass(slots=True)
class _Waiting:
    """Matches of one block that have not been taken yet: those from `start` to before `stop`.

    `begins` says at which place among the matches other lines stood, and which line of the input the match there is.
    """

    split: Split
    shapes: tuple[Shape, ...]
    start: int = 0
    stop: int = 0
    begins: list[tuple[int, int]] = field(default_factory=list)

    def matched(self) -> list[tuple[Shape, Matches]]:
        matched = zip(self.shapes, (one.between(self.start, self.stop) for one in self.split.matches), strict=True)
        return [(shape, matches) for shape, matches in matched if matches.count]

    def line_of(self, place: int) -> int:
        at, line = self.begins[bisect_right(self.begins, place, key=itemgetter(0)) - 1]
        return line + place - at


class Bulk:
    """`feed` reads one line in full and says what it took, `count` passes lines and says which was the last.

    `speaks` tells an engine's own lines, `silent` those that reading in full could not make say anything.
    """

    def __init__(
        self,
        feed: Callable[[bytes], Taken | None],
        count: Callable[[int], int],
        speaks: Callable[[bytes], bool],
        silent: Callable[[bytes], bool],
    ) -> None:
        self._feed = feed
        self._count = count
        self._speaks = speaks
        self._silent = silent
        self._waiting = _Waiting(Split(0, (), ()), ())
        self._shapes = Shapes()
        self._boots: dict[bytes, BootState] = {}
        self._busy = True

    @property
    def splitter(self) -> Splitter | None:
        """What the next block will be split by; None if its first lines are to be read one by one."""
        return None if self._busy else self._shapes.compiled()

    def take(self, block: bytes) -> None:
        """A block of whole lines, the last one with its end."""
        while block:
            splitter = self._shapes.compiled()
            if splitter is None or self._busy:
                lines = block.split(b"\n", _CHUNK)
                block = lines.pop()
                for line in lines:
                    self._read(line)
            else:
                block = after_lines(block, self.take_split(splitter.split(block)))

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

    def take_split(self, split: Split) -> int | None:
        """Takes the lines that matched and reads the others.

        Returns None, or after how many lines what is known has changed, so that the rest has to be split anew.
        Matches are counted at once and taken together, before the next line that could speak of the same figures.
        """
        lines = counted = 0
        before = self._count(0)
        self._waiting = _Waiting(split, self._shapes.telling, begins=[(0, before + 1)])
        for at, text in split.others:
            self._count(at - counted)
            lines += at - counted
            counted = self._waiting.stop = at
            texts = text.split(b"\n")[:-1]
            self._waiting.begins.append((at, before + lines + len(texts) + 1))
            for line in texts:
                self._read(line)
                lines += 1
                if self._busy or self._shapes.empty or self._shapes.outdated:
                    self._flush()
                    return lines
        self._count(split.count - counted)
        self._waiting.stop = split.count
        self._flush()
        return None

    def _flush(self) -> None:
        """The waiting matches go to their boots, column by column."""
        waiting = self._waiting
        if waiting.stop <= waiting.start:
            return
        records: list[_Records] = []
        for shape, matches in waiting.matched():
            boot = self._boots[shape.pattern]
            if shape.record is None:
                boot.repeat(shape.notices, matches.count, waiting.line_of(matches.last))
            else:
                records.append(_Records(boot, shape.record, matches, waiting.line_of))
        servers = {(id(one.boot), one.like.group) for one in records}
        if len(servers) == len(records):
            for one in _by_last(records):
                one.hand_over()
        else:
            _in_order(records, waiting.start, waiting.stop)
        waiting.start = waiting.stop


def after_lines(block: bytes, lines: int | None) -> bytes:
    """What is left of a block after so many lines; nothing of it where `lines` is None."""
    return b"" if lines is None else block.split(b"\n", lines)[lines]


@dataclass(frozen=True, slots=True)
class _Records:
    """Decode records of one shape, and whose they are."""

    boot: BootState
    like: Decoded
    matches: Matches
    line_of: Callable[[int], int]

    def hand_over(self) -> None:
        if self.matches.count:
            last = self.line_of(self.matches.last)
            self.boot.take_records(self.like, self.matches.fields, self.matches.count, last)

    def between(self, start: int, stop: int) -> "_Records":
        return _Records(self.boot, self.like, self.matches.between(start, stop), self.line_of)


def _by_last(records: list[_Records]) -> list[_Records]:
    return sorted(records, key=lambda one: one.matches.last) if len(records) > 1 else records


def _in_order(records: Sequence[_Records], start: int, stop: int) -> None:
    """One rank printed records of several shapes: those of the commonest one are cut where another one stands."""
    main = max(records, key=lambda one: one.matches.count)
    others = sorted(((row, one) for one in records if one is not main for row in one.matches.rows), key=itemgetter(0))
    begun = start
    for row, one in others:
        main.between(begun, row).hand_over()
        one.between(row, row + 1).hand_over()
        begun = row + 1
    main.between(begun, stop).hand_over()
