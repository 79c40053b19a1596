"""Cancellation that waits for work which would do harm if it went on after its orchestrator had turned back."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

import anyio

Result = TypeVar("Result")


async def in_spite_of_cancellation(work: Coroutine[Any, Any, Result]) -> Result:
    """`work` runs to its end, however often and by whatever means its caller is cancelled meanwhile."""
    task = asyncio.ensure_future(work)
    with anyio.CancelScope(shield=True):
        while not task.done():
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
    return task.result()


async def uncut(work: Coroutine[Any, Any, Result]) -> Result:
    """`work`, which is short, runs to its end; a cancellation that came meanwhile is raised after it."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await in_spite_of_cancellation(_settled(task))
        raise


async def _settled(task: "asyncio.Future[Any]") -> None:
    await asyncio.gather(task, return_exceptions=True)
