"""A container host, with a systemd of its own, as the contract suite needs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tasks.hosts.port import Completed
from tasks.hosts.ssh_options import Login
from tasks.lab import container, lab
from tasks.lab.layer import Furnishing
from tasks.lab.record import LabHost
from tests.hosts import booted
from tests.hosts.adapter import Reach


@asynccontextmanager
async def opened() -> AsyncIterator[Reach]:
    """Booted, its engine not running; ended."""
    (made,) = await lab.up([Furnishing(enabled=False)], tied=True)

    async def root(*words: str, stdin: bytes = b"") -> Completed:
        return await container.execute(made, words, stdin=stdin)

    try:
        async with booted.opened(_login(made), root) as reach:
            yield reach
    finally:
        lab.down_one(made)


def _login(host: LabHost) -> Login:
    spec = host.spec
    keys = (str(host.key),)
    return Login(spec.address, spec.user, host_key=spec.host_key, client_keys=keys, become="sudo", config=())
