"""A Machine that is this very machine: real programs and a real /bin/sh, as an unprivileged stand-in for any host."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import httpx

from tasks.hosts.port import Completed

SUDOERS_SAYS_NO = b"sudo: a password is required\n"


class LocalMachine:
    """Runs argvs as child processes in `cwd`. `sudo -n --` is taken off, or refused where `sudo_allowed` is False."""

    def __init__(self, cwd: str, *, sudo_allowed: bool = True) -> None:
        self.cwd, self.sudo_allowed = cwd, sudo_allowed
        self.ran: list[tuple[str, ...]] = []
        self.children: list[asyncio.subprocess.Process] = []

    async def execute(self, words: Sequence[str], *, stdin: bytes = b"", user: str) -> Completed:
        self.ran.append(tuple(words))
        words = [word.replace("sudo -n -- ", "") for word in words] if self.sudo_allowed else list(words)
        if words[:3] == ["sudo", "-n", "--"]:
            if not self.sudo_allowed:
                return Completed(1, b"", SUDOERS_SAYS_NO)
            words = words[3:]
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
        self.children.append(child)
        try:
            yield _lines(child)
        finally:
            await _end(child)

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport()

    async def _start(self, words: Sequence[str], *, stdin: int) -> asyncio.subprocess.Process:
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(*words, cwd=self.cwd, stdin=stdin, stdout=pipe, stderr=pipe)


async def _lines(child: asyncio.subprocess.Process) -> AsyncIterator[bytes]:
    assert child.stdout is not None
    async for line in child.stdout:
        yield line.removesuffix(b"\n")


async def _end(child: asyncio.subprocess.Process) -> None:
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            child.kill()
        await child.communicate()
