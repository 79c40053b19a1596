"""One exec channel of an SSH connection: an argv that runs, what it prints, and how it is ended early."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

import asyncssh

from tasks.hosts.port import Completed

_HIGH_WATER, _LOW_WATER = 1 << 20, 1 << 18
_STDERR_KEPT = 64 << 10


class Exec(asyncssh.SSHClientSession[bytes]):
    """Collects what an argv prints until its channel closes."""

    def __init__(self, stdin: bytes = b"") -> None:
        self.ended = asyncio.Event()
        self._stdin = stdin
        self._channel: asyncssh.SSHClientChannel[bytes] | None = None
        self._out: list[bytes] = []
        self._err: list[bytes] = []

    def connection_made(self, chan: asyncssh.SSHClientChannel[bytes]) -> None:
        self._channel = chan

    def session_started(self) -> None:
        if self._channel is not None and not self._channel.is_closing():  # a quick program may have ended by now
            self._channel.write(self._stdin)
            self._channel.write_eof()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        (self._err if datatype == asyncssh.EXTENDED_DATA_STDERR else self._out).append(data)

    def eof_received(self) -> bool:
        return True  # the status is still to come

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def completed(self) -> Completed | None:
        """How the argv ended; None where nobody said so, because the connection or the channel was lost."""
        code = self._channel.get_returncode() if self._channel is not None else None
        if code is None:
            return None
        return Completed(code if code >= 0 else 128 - code, b"".join(self._out), b"".join(self._err))

    def end(self) -> None:
        """Ask the remote process to terminate, and give the channel up without waiting for its answer."""
        if self._channel is not None and not self.ended.is_set():
            self._channel.terminate()
            self._channel.abort()


class Follow(Exec):
    """The same for an argv that goes on: stdout comes as lines, and is read no faster than they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: deque[bytes] = deque()
        self._rest = b""
        self._waiting = 0
        self._paused = False
        self._news = asyncio.Event()

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        if datatype == asyncssh.EXTENDED_DATA_STDERR:
            if sum(map(len, self._err)) < _STDERR_KEPT:
                self._err.append(data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(lines)
        self._waiting += len(data)
        self._news.set()
        if self._waiting > _HIGH_WATER and not self._paused and self._channel is not None:
            self._paused = True
            self._channel.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._rest:
            self._lines.append(self._rest)
        self._news.set()
        super().connection_lost(exc)

    async def lines(self) -> AsyncIterator[bytes]:
        """Lines until the channel closes; a last one without a newline counts."""
        while True:
            while self._lines:
                line = self._lines.popleft()
                self._taken(len(line) + 1)
                yield line
            if self.ended.is_set():
                return
            self._news.clear()
            await self._news.wait()

    def _taken(self, size: int) -> None:
        self._waiting -= size
        if self._paused and self._waiting < _LOW_WATER and self._channel is not None:
            self._paused = False
            self._channel.resume_reading()
