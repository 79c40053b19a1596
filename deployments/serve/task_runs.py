"""A task run of Prefect for each action of a rollout, beside the work: it goes on for as long as the action does.

The rollout waits for none of it. Importing this imports Prefect.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from prefect.client.schemas.objects import State
from prefect.states import Cancelled

from deployments.serve.notes import Notes
from flows.prefect_run import WENT_WRONG
from flows.prefect_skin import AttemptFailedError, task_of
from state.errors import InterlockError
from state.events import ActionFailed, ActionStarted, ErrorFacts, Event, decode
from state.next_action import attempt_limit, next_action
from state.rollout import Rollout, evolve, fold
from state.store.port import RecordedEvent

Recorded = Callable[[], Awaitable[tuple[RecordedEvent, ...]]]


class Attempts:
    """How the attempts of one action came out, in their order: None for done, "" for broken off."""

    def __init__(self, key: str) -> None:
        self.key = key
        self._outcomes: asyncio.Queue[ErrorFacts | str | None] = asyncio.Queue()

    def came_out(self, outcome: ErrorFacts | str | None) -> None:
        self._outcomes.put_nowait(outcome)

    async def next(self) -> State[None] | None:
        """What the task does: wait for the next attempt. Raises AttemptFailedError."""
        match await self._outcomes.get():
            case ErrorFacts() as failed:
                raise AttemptFailedError(failed)
            case None:
                return None
            case _:
                return Cancelled(message="it was broken off")


class TaskRuns:
    """Of one rollout, in the flow run whose context this runs in."""

    def __init__(self, notes: Notes, recorded: Recorded) -> None:
        """`recorded` reads the rollout's whole stream."""
        self._notes, self._recorded = notes, recorded
        self._rollout, self._version = Rollout(), 0
        self._open: Attempts | None = None
        self.running: set[asyncio.Task[None]] = set()

    async def for_ever(self) -> None:
        """Until it is cancelled; `Notes.told` waits until all that was noted is taken."""
        while True:
            noted = await self._notes.next_event()
            try:
                await self._catch_up(noted)
                self._take(decode(noted))
                self._version = noted.version
            finally:
                self._notes.event_done()

    async def ended(self, within_s: float) -> None:
        """Wait until Prefect's client has told how each of them ended, or for so long."""
        self._break_off()
        if self.running:
            await asyncio.wait(tuple(self.running), timeout=within_s)

    async def _catch_up(self, noted: RecordedEvent) -> None:
        """What came before the first note was done by an earlier session."""
        if self._version == 0 and noted.version > 1:
            with suppress(InterlockError):  # what cannot be read now is not shown; the history has it
                before = (await self._recorded())[: noted.version - 1]
                self._rollout = fold(map(decode, before))
            for key in self._rollout.done:
                done = Attempts(key)
                done.came_out(None)
                self._run(f"{key} (done before)", 1, done)

    def _take(self, event: Event) -> None:
        before, self._rollout = self._rollout, evolve(self._rollout, event)
        if isinstance(event, ActionStarted):
            if self._open is None or self._open.key != event.action:
                self._begin(before, event.action)
        elif self._open is not None and isinstance(event, ActionFailed):
            self._open.came_out(event.error)
        elif self._open is not None and self._open.key in self._rollout.done:
            self._open.came_out(None)
            self._open = None

    def _begin(self, before: Rollout, key: str) -> None:
        self._break_off()
        action = next_action(before)
        title = action.title if action is not None and action.key == key else key
        left = max(1, attempt_limit(before) - before.attempts.get(key, 0))
        self._open = Attempts(key)
        self._run(title, left, self._open)

    def _run(self, title: str, attempts: int, outcomes: Attempts) -> None:
        running = asyncio.create_task(_shown(title, attempts, outcomes), name=f"task run {title}")
        self.running.add(running)
        running.add_done_callback(self.running.discard)

    def _break_off(self) -> None:
        """An action that failed for good has told so before; this is not read then."""
        if self._open is not None:
            self._open.came_out("")
            self._open = None


async def _shown(title: str, attempts: int, outcomes: Attempts) -> None:
    with suppress(*WENT_WRONG, AttemptFailedError):
        await task_of(title, attempts, outcomes.next)()
