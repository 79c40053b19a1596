"""Prefect's server beside this process: started, watched, started again when it ends. Nothing waits for it."""

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

from flows.prefect_home import PrefectHome

log = logging.getLogger("interlock.serve")

START_S = 180.0
"""A busy machine takes more than a minute for a new database."""

LOOK_EVERY_S = 5.0
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 60.0


class PrefectBeside:
    """`up` says whether the server answers. While it does, `work` runs, which may end when the server fails."""

    def __init__(self, home: PrefectHome, work: Callable[[], Awaitable[None]]) -> None:
        self.home, self._work = home, work
        self.up = False

    async def for_ever(self) -> None:
        wait_s = FIRST_WAIT_S
        while True:
            came_up = await self._once()
            wait_s = FIRST_WAIT_S if came_up else min(2 * wait_s, LONGEST_WAIT_S)
            await asyncio.sleep(wait_s)

    async def stop(self) -> None:
        self.up = False
        await self.home.stop()

    async def _once(self) -> bool:
        """From a start to the server's end; whether it came up."""
        await self.home.start()
        self.up = await self.home.answers(START_S)
        if not self.up:
            log.error("Prefect does not answer; rollouts go on without it", extra={"url": self.home.api_url})
            await self.home.stop()
            return False
        log.info("Prefect answers", extra={"url": self.home.api_url.removesuffix("/api")})
        await asyncio.to_thread(importlib.import_module, "deployments.serve.dispatch")  # seconds, the first time
        working = asyncio.ensure_future(self._work())
        try:
            await self._until_it_ends(working)
        finally:
            self.up = False
            working.cancel()
            with suppress(asyncio.CancelledError):
                await asyncio.wait([working])
        return True

    async def _until_it_ends(self, working: "asyncio.Future[None]") -> None:
        if self.home.given:
            while await self.home.answers(LOOK_EVERY_S):
                await asyncio.wait([working], timeout=LOOK_EVERY_S)
            log.error("Prefect answers no more; rollouts go on without it", extra={"url": self.home.api_url})
            return
        status = await self.home.ended()
        log.error("Prefect's server ended (exit status %d) and is started again; rollouts go on without it", status)
