"""The floor, and the script that a careful person would write with asyncssh alone."""

import asyncio
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import asyncssh

from benchmarks.prober import BODY, INTERVAL_S
from benchmarks.stage import Bench
from tasks.lab.layer import PORT, USER
from tasks.practice.scene import UNIT, UNIT_FILE

_REQUEST = (
    "POST /generate HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Type: application/json\r\n"
    f"Content-Length: {len(BODY)}\r\n\r\n{BODY}"
).encode()


@asynccontextmanager
async def connected(made: Bench) -> AsyncIterator[asyncssh.SSHClientConnection]:
    host = made.host
    async with asyncssh.connect(
        host.address,
        username=USER,
        client_keys=[str(host.key)],
        known_hosts=str(host.folder / "known_hosts"),
        config=None,
    ) as connection:
        yield connection


async def floor(connection: asyncssh.SSHClientConnection) -> float:
    """Restart, and ask every 10 ms until a generation comes back; when it did (seconds since the epoch)."""
    await _sudo(connection, f"systemctl restart {UNIT}")
    return await _generates(connection)


async def script(made: Bench, text: str, fact: str) -> float:
    """Install the unit, restart, wait until it generates, find `fact` in the log of this start; when it was found."""
    async with connected(made) as connection:
        await _sudo(connection, f"tee {UNIT_FILE} >/dev/null", text)
        await _sudo(connection, f"systemctl daemon-reload && systemctl restart {UNIT}")
        async with asyncio.timeout(made.limit_s):
            await _generates(connection)
        await _sudo(connection, found(fact))
        return time.time()


def found(fact: str) -> str:
    """Shell text: whether the service's log has the fact, which no start before this one could have said."""
    return f"journalctl --no-pager --all --output=cat --unit={UNIT} | grep -F -- {shlex.quote(fact)} >/dev/null"


async def _generates(connection: asyncssh.SSHClientConnection) -> float:
    while True:
        asked = time.time()
        if await _good(connection):
            return time.time()
        await asyncio.sleep(max(0.0, asked + INTERVAL_S - time.time()))


async def _good(connection: asyncssh.SSHClientConnection) -> bool:
    try:
        reader, writer = await connection.open_connection("127.0.0.1", PORT)
    except asyncssh.ChannelOpenError:
        return False
    writer.write(_REQUEST)
    answer = await reader.read()
    writer.close()
    return answer.startswith(b"HTTP/1.1 200") and b'"text"' in answer


async def _sudo(connection: asyncssh.SSHClientConnection, shell: str, stdin: str = "") -> None:
    await connection.run(f"sudo -n /bin/sh -c {shlex.quote(shell)}", input=stdin, check=True)
