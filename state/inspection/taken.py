"""What reading one line in full has shown, for those who want to recognise the next one like it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from state.inspection.boot import BootState
from state.inspection.events import (
    SIGNS_OF_LIFE,
    Alive,
    Decoded,
    Drafted,
    Event,
    Noticed,
    PidSeen,
    RoleSeen,
    SpeculationBuilt,
    VersionSeen,
)
from state.inspection.reading import Line, Reading
from state.inspection.shapes import Slot
from state.inspection.signatures import may_fail

_UNSURE = (b"GB", b"GiB", b"SIMULATE")
_LONGEST = 2000
_PROBES = (b"0", b"1", b"2", b"9", b"11", b"15", b"98", b"130", b"134", b"137", b"139", b"143", b"256", b"99999999")
"""Numbers that mean something to a reader: error numbers, exit statuses, signals, sizes."""
_STEADY = (Alive, Decoded, Drafted, PidSeen, RoleSeen, SpeculationBuilt, VersionSeen)


@dataclass(frozen=True, slots=True)
class Taken:
    """`at` is where the engine's words begin in the raw line, -1 where they do not stand there as they were read.

    `busy` means that a traceback is open, `newest` that the line was the newest boot's.
    """

    at: int
    words: bytes
    events: tuple[Event, ...]
    boot: BootState | None
    reading: Reading
    busy: bool
    newest: bool

    @property
    def changed(self) -> bool:
        """Whether the line may have changed which boot the next one belongs to."""
        return not all(
            isinstance(event, _STEADY) or (isinstance(event, Noticed) and not event.opens) for event in self.events
        )

    @property
    def learnable(self) -> bool:
        """Whether numbers alone cannot change what the line means, fields aside."""
        if self.at < 0 or self.busy or not self.newest or len(self.words) > _LONGEST:
            return False
        if any(mark in self.words for mark in _UNSURE):
            return False
        if not all(isinstance(event, SIGNS_OF_LIFE | Decoded | Noticed) for event in self.events):
            return False
        decoded = next((event for event in self.events if isinstance(event, Decoded)), None)
        if decoded is not None:
            known = decoded.has_acceptance is not None and self._clocked(decoded)
            return known and not self.notices and not may_fail(self.words)
        return not (self.notices or may_fail(self.words)) or self._says_the_same()

    @property
    def notices(self) -> tuple[str, ...]:
        return tuple(event.code for event in self.events if isinstance(event, Noticed))

    def _clocked(self, record: Decoded) -> bool:
        """Whether the time of the record, if it has one, stands in the words and not before them."""
        return record.time is None or any(slot.field == "clock" for slot in self.slots())

    def _says_the_same(self) -> bool:
        """Whether the words with other numbers in them are read alike."""
        codes = _codes(self.events)
        slots = sorted(self.slots(), key=lambda slot: slot.start)
        edges = [0, *(edge for slot in slots for edge in (slot.start, slot.end)), len(self.words)]
        if any(a > b for a, b in pairwise(edges)):
            return False
        between = [self.words[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]
        return all(
            _codes([event for _, event in self.reading.line_reader().read(Line(number.join(between), 1))]) == codes
            for number in _PROBES
        )

    def slots(self) -> Sequence[Slot]:
        return self.reading.slots(self.words)


def _codes(events: Sequence[Event]) -> list[tuple[str, object]]:
    return [(type(event).__name__, getattr(event, "code", None)) for event in events]


def as_raw(taken: Taken | None, line: bytes) -> Taken | None:
    """With the place of the words in the raw line, where quotes may be escaped."""
    if taken is None or taken.at < 0:
        return taken
    raw = taken.words.replace(b'"', b'\\"') if line[:1] == b"{" else taken.words
    return replace(taken, at=line.rfind(raw) if raw else -1, words=raw)
