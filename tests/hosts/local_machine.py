"""A Machine that is this very machine: real programs and a real /bin/sh, as an unprivileged stand-in for any host."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tasks.hosts.port import Completed

_SUDO = """#!/bin/sh
[ "$1 $2" = "-n --" ] || { echo "sudo: usage" >&2; exit 64; }
shift 2
command -v "$1" >/dev/null || { echo "sudo: $1: command not found" >&2; exit 1; }
exec "$@"
"""
_NO = "#!/bin/sh\necho 'sudo: a password is required' >&2\nexit 1\n"


class LocalMachine:
    """Runs argvs as child processes in `cwd`; `sudo` is a small script there that obeys, or refuses everybody."""

    def __init__(self, cwd: Path, *, sudo_allowed: bool = True) -> None:
        self._cwd = cwd
        self.ran: list[tuple[str, ...]] = []
        self.children: list[asyncio.subprocess.Process] = []
        (cwd / "bin").mkdir()
        (cwd / "bin" / "sudo").write_text(_SUDO if sudo_allowed else _NO)
        (cwd / "bin" / "sudo").chmod(0o755)
        self._environment = {"PATH": f"{cwd / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C"}

    async def execute(self, words: Sequence[str], *, stdin: bytes = b"", user: str) -> Completed:
        self.ran.append(tuple(words))
        try:
            child = await self._start(words, stdin=asyncio.subprocess.PIPE)
        except FileNotFoundError:
            return Completed(127, b"", f"sh: 1: {words[0]}: not found\n".encode())
        try:
            out, err = await child.communicate(stdin)
        finally:
            await _end(child)
        code = child.returncode or 0
        return Completed(code if code >= 0 else 128 - code, out, err)

    @asynccontextmanager
    async def follow(self, words: Sequence[str], *, user: str) -> AsyncIterator[AsyncIterator[bytes]]:
        child = await self._start(words, stdin=asyncio.subprocess.DEVNULL)
        try:
            yield _lines(child)
        finally:
            await _end(child)

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport()

    async def _start(self, words: Sequence[str], *, stdin: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        child = await asyncio.create_subprocess_exec(
            *words, cwd=self._cwd, env=self._environment, stdin=stdin, stdout=pipe, stderr=pipe
        )
        self.children.append(child)
        return child


async def _lines(child: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    assert child.stdout is not None
    async for line in child.stdout:
        yield line.removesuffix(b"\n")


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()
