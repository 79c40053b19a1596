"""Sessions on a practice machine: what runs in them, and what becomes of it when a session is lost."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Coroutine
from contextlib import aclosing

from tasks.hosts.port import Completed
from tasks.practice.faults import ConnectionCut, Faults

_RESET = "connection reset by peer"


class Sessions:
    """Every session of one machine; `Faults.cut` and `Faults.drop` lose them all."""

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self._work: set[asyncio.Task[Completed]] = set()

    def refuse_if_unreachable(self) -> None:
        if self._faults.unreachable:
            raise ConnectionCut("no route to host")

    async def execute(self, work: Coroutine[None, None, Completed]) -> Completed:
        """What `work` answers, or ConnectionCut. A program that prints nothing meanwhile runs on to its end without its
        session, as it does under a real sshd."""
        task = asyncio.get_running_loop().create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        try:
            await asyncio.wait((task, self._faults.cutting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            task.add_done_callback(_forget_outcome)
        if not task.done() or task.cancelled():
            raise ConnectionCut(_RESET)
        return task.result()

    async def follow(self, lines: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
        """`lines` until they end, or ConnectionCut."""
        cut = self._faults.cutting
        async with aclosing(lines):
            while (line := await _first(anext(lines), cut)) is not None:
                yield line
        raise ConnectionCut(_RESET)

    def end(self) -> tuple[asyncio.Task[Completed], ...]:
        """The machine goes down: the tasks that are still ending."""
        self._faults.drop()
        ending = tuple(self._work)
        for task in ending:
            task.cancel()
        return ending


async def _first(step: Awaitable[bytes], cut: "asyncio.Future[None]") -> bytes | None:
    """What `step` gives, None if `cut` comes before it; `step` is over then."""
    task = asyncio.ensure_future(step)
    try:
        await asyncio.wait((task, cut), return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait((task,))
    return None if task.cancelled() else task.result()


def _forget_outcome(task: asyncio.Task[Completed]) -> None:
    """Where nobody is left to hear how it ended."""
    if not task.cancelled():
        task.exception()
