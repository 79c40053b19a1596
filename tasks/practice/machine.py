"""The `Machine` port: a practice host as seen from inside, below any connection."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import httpx

from tasks.hosts.port import Completed


class Machine(Protocol):
    """What the direct adapter (`SimulatedHost`) and the practice sshd both stand on.

    `words` is an argv: a program and its words, `sudo -n -- …`, or `/bin/sh -c SCRIPT` with a script of
    `tasks.script` (any other shell text is refused with status 2). An unknown program ends with status 127.
    """

    async def execute(self, words: Sequence[str], *, stdin: bytes = b"", user: str) -> Completed: ...

    def follow(self, words: Sequence[str], *, user: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Lines of a program that goes on (`journalctl --follow`), without their newline."""
        ...

    def transport(self) -> httpx.AsyncBaseTransport:
        """HTTP to the ports that the machine's processes listen on."""
        ...
