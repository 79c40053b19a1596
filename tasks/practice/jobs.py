"""systemd's jobs: one at a time for a unit; the same kind joins, another kind takes its place."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Literal

Outcome = Literal["done", "failed", "canceled"]
Spawn = Callable[[Coroutine[None, None, None]], "asyncio.Task[None]"]


@dataclass(slots=True)
class _Job:
    kind: str
    outcome: "asyncio.Future[Outcome]"
    task: "asyncio.Task[None] | None" = None


class Jobs:
    """`done` is told the unit whose job has ended, before anybody who waits for it goes on."""

    def __init__(self, spawn: Spawn, done: Callable[[str], None]) -> None:
        self._jobs: dict[str, _Job] = {}
        self._spawn, self._done = spawn, done

    def running(self, name: str) -> str:
        """The kind of a unit's job, empty for none."""
        return self._jobs[name].kind if name in self._jobs else ""

    def enqueue(self, name: str, kind: str, body: Callable[[], Awaitable[bool]]) -> "asyncio.Future[Outcome]":
        """Queue a job. It goes on to its end whether or not anybody waits for it."""
        running = self._jobs.get(name)
        if running is not None and running.kind == kind:
            return running.outcome
        if running is not None:
            self._end(name, running, "canceled")
            if running.task is not None:
                running.task.cancel()
        job = _Job(kind, asyncio.get_running_loop().create_future())
        self._jobs[name] = job
        job.task = self._spawn(self._run(name, job, body))
        return job.outcome

    def cancel_all(self) -> None:
        for name, job in list(self._jobs.items()):
            self._end(name, job, "canceled")
            if job.task is not None:
                job.task.cancel()

    async def _run(self, name: str, job: _Job, body: Callable[[], Awaitable[bool]]) -> None:
        self._end(name, job, "done" if await body() else "failed")
        self._done(name)

    def _end(self, name: str, job: _Job, outcome: Outcome) -> None:
        if self._jobs.get(name) is job:
            del self._jobs[name]
        if not job.outcome.done():
            job.outcome.set_result(outcome)
