"""What reading one line in full has shown, for those who want to recognise the next one like it."""

from collections.abc import Sequence
from dataclasses import dataclass

from state.inspection.boot import BootState
from state.inspection.events import (
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
from state.inspection.reading import Reading
from state.inspection.shapes import Slot

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

    def slots(self) -> Sequence[Slot]:
        return self.reading.slots(self.words)
