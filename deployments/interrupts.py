"""Ctrl-C, SIGTERM, a lost terminal (SIGHUP): the first one turns back, no later one keeps that from a safe end."""

import asyncio
import signal
import sys
from collections.abc import Coroutine
from typing import Any

INTERRUPTED = 130


def run(work: Coroutine[Any, Any, int]) -> int:
    """Run `work` and return its exit code; INTERRUPTED if it was cut short, having reached a safe end first."""
    try:
        return asyncio.run(_interruptible(work))
    except asyncio.CancelledError:
        return INTERRUPTED


async def _interruptible(work: Coroutine[Any, Any, int]) -> int:
    running, loop = asyncio.ensure_future(work), asyncio.get_running_loop()

    def interrupted() -> None:
        if running.cancelling():
            print("still on the way to a safe end; if it is killed, `interlock recover` goes on", file=sys.stderr)
            return
        print("interrupted: going to a safe end first", file=sys.stderr)
        running.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, interrupted)
    return await running
