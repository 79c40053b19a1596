"""Asking for several things at the same time, where none of them needs another's answer."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar

T = TypeVar("T")


class Together:
    """Pieces of work in the order in which they were named."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._named: list[asyncio.Task[Any]] = []

    def create_task(self, piece: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._group.create_task(self._after(piece, tuple(self._named)))
        self._named.append(task)
        return task

    async def rest(self) -> None:
        """Until all that were named have ended."""
        await _ended(self._named)

    async def _after(self, piece: Coroutine[Any, Any, T], earlier: tuple[asyncio.Task[Any], ...]) -> T:
        """What a piece gives; its error only once no earlier one can have any."""
        try:
            return await piece
        except Exception:
            await _ended(earlier)
            raise


async def _ended(pieces: Sequence[asyncio.Task[Any]]) -> None:
    if pieces:
        await asyncio.wait(pieces)


@asynccontextmanager
async def together() -> AsyncIterator[Together]:
    """Of several errors, that of the piece that was named first is raised, whichever came first, so that the same
    fault is told in the same words each time; the block's own counts as the last. Later pieces are ended by then. It
    is raised as it is, not in a group: callers tell errors apart by their type."""
    try:
        async with asyncio.TaskGroup() as group:
            pieces = Together(group)
            try:
                yield pieces
            except Exception:
                await pieces.rest()
                raise
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed.exceptions[0].__cause__
