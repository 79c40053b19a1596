"""A virtual machine host, with a kernel of its own, as the contract suite needs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.hosts.port import Argv, Completed
from tasks.hosts.ssh import SshHost
from tasks.lab import vm_lab
from tests.hosts import booted
from tests.hosts.adapter import Reach


@asynccontextmanager
async def opened() -> AsyncIterator[Reach]:
    """Brought up from its saved memory, if there is one; ended. Root has a connection of its own, which is kept too."""
    made = await vm_lab.up(tied=True)
    backdoor = SshHost(made.name, made.login("root"))

    async def root(*words: str, stdin: bytes = b"") -> Completed:
        (done,) = await backdoor.run_all([Argv(words, stdin)], timeout_s=60)
        return done

    try:
        async with booted.opened(made.login(), root) as reach:
            yield reach
    finally:
        await backdoor.aclose()
        vm_lab.down_one(made)
