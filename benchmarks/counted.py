"""A host that counts how often it is gone to."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

import httpx

from tasks.hosts.port import Argv, Completed, Host


@dataclass
class Counted:
    """Adds up the round trips of `run_all` to `host`, and the argvs in them; everything else is the host's own."""

    host: Host
    round_trips: int = 0
    questions: int = 0

    @property
    def name(self) -> str:
        return self.host.name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        self.round_trips += 1
        self.questions += len(argvs)
        return await self.host.run_all(argvs, timeout_s=timeout_s)

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self.host.follow(argv)

    def transport(self) -> httpx.AsyncBaseTransport:
        return self.host.transport()

    async def aclose(self) -> None:
        await self.host.aclose()
