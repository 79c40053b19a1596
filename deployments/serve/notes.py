"""Notes of rollouts: what a watch is told, kept until somebody shows it. A watch may not wait; showing takes time."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from flows.ports import Watch
from state.rollout import Rollout
from state.store.port import RecordedEvent

MOST = 2_000
"""Notes that wait, for each rollout; what comes when so many wait is not shown. The record has it."""


@dataclass(frozen=True, slots=True)
class Progress:
    """A stage of a start that was reached after so many seconds."""

    stage: str
    seconds: float


Note = RecordedEvent | Progress


class Notes:
    """Of one rollout."""

    def __init__(self, rollout: str) -> None:
        self.rollout, self.service = rollout, ""
        self._waiting: asyncio.Queue[Note] = asyncio.Queue(MOST)

    async def next(self) -> Note:
        return await self._waiting.get()

    def done(self) -> None:
        self._waiting.task_done()

    async def told(self, within_s: float) -> bool:
        """Wait until everything before was shown; False if that took longer."""
        try:
            async with asyncio.timeout(within_s):
                await self._waiting.join()
        except TimeoutError:
            return False
        return True

    def take(self, note: Note) -> None:
        with suppress(asyncio.QueueFull):
            self._waiting.put_nowait(note)


Recorded = Callable[[str, Rollout, RecordedEvent], None]


class Notebook:
    """The notes of every rollout under way; `listener` is told each event as well, `said` what else is said of it."""

    def __init__(self, listener: Recorded, said: Callable[[str], None]) -> None:
        self._notes: dict[str, Notes] = {}
        self._listener, self._said = listener, said

    def watched(self, rollout: str) -> Watch:
        """The watch that takes notes of a rollout."""
        notes = self._notes[rollout] = Notes(rollout)

        def recorded(folded: Rollout, event: RecordedEvent) -> None:
            notes.take(event)
            self._listener(rollout, folded, event)
            if folded.ended:
                self._notes.pop(rollout, None)

        def progress(stage: str, seconds: float) -> None:
            notes.take(Progress(stage, seconds))

        return Watch(recorded=recorded, progress=progress, said=self._said)

    def notes(self, rollout: str) -> Notes:
        """Raises KeyError for one that is not watched."""
        return self._notes[rollout]
