"""The stand-in as a process: real PIDs, a real port, real signals."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator, Sequence

from .endpoints import handle
from .engine import Engine
from .http1 import start_http
from .launch import Launch
from .protocol import Request, Response
from .ranks import RankProcess, frame, leave_behind


class ProcessWorld:
    """The engine's surroundings as this process has them: stderr for logs, stdout for the access log."""

    def __init__(self, ranks: Sequence[RankProcess]) -> None:
        self._ranks = list(ranks)
        self._echoes: list[deque[asyncio.Future[None]]] = [deque() for _ in ranks]
        self._gone = [False] * len(ranks)
        self._listener: socket.socket | None = None
        self._server: asyncio.AbstractServer | None = None
        self.engine: Engine | None = None

    @property
    def pid(self) -> int:
        return os.getpid()

    def now(self) -> float:
        return time.time()

    def say(self, text: str) -> None:
        os.write(2, text.encode() + b"\n")

    def access(self, text: str) -> None:
        os.write(1, text.encode() + b"\n")

    async def say_as(self, rank: int, text: str) -> None:
        if self._gone[rank]:
            return
        echo = asyncio.get_running_loop().create_future()
        self._echoes[rank].append(echo)
        os.write(self._ranks[rank].lines, frame(text + "\n"))
        await echo

    def attach(self, engine: Engine) -> None:
        """Listen to what the scheduler processes echo, and to their end."""
        self.engine = engine
        loop = asyncio.get_running_loop()
        for number, rank in enumerate(self._ranks):
            loop.add_reader(rank.echoes, self._echoed, number)

    def _echoed(self, number: int) -> None:
        count = len(os.read(self._ranks[number].echoes, 4096))
        waiting = self._echoes[number]
        if not count:
            asyncio.get_running_loop().remove_reader(self._ranks[number].echoes)
            self._gone[number], count = True, len(waiting)
            if self.engine is not None:
                self.engine.rank_lost(number, self._ranks[number].pid)
        for _ in range(min(count, len(waiting))):
            echo = waiting.popleft()
            if not echo.done():
                echo.set_result(None)

    async def bind(self, host: str, port: int) -> bool:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
            listener.listen(2048)
        except OSError as error:
            listener.close()
            if error.errno == errno.EADDRINUSE:
                return False
            await asyncio.Event().wait()  # a host that is not this machine's hangs the real engine without a word
        listener.setblocking(False)
        self._listener = listener
        self._server = await start_http(listener, self._handle)
        return True

    async def _handle(self, request: Request) -> Response:
        if self.engine is None:
            return Response(503)
        return await handle(self.engine, request)

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def rank_pid(self, rank: int) -> int:
        return self._ranks[rank].pid

    def lose_rank(self, rank: int) -> int:
        pid = self._ranks[rank].pid
        os.kill(pid, signal.SIGKILL)
        return pid

    def leave_behind(
        self, title: str, texts: Iterator[str], interval: float, seconds: float, *, keep_port: bool
    ) -> None:
        keep = self._listener.fileno() if keep_port and self._listener is not None else None
        leave_behind(title, texts, interval, seconds, keep)


async def _live(launch: Launch, ranks: Sequence[RankProcess]) -> None:
    world = ProcessWorld(ranks)
    engine = Engine(launch, world)
    world.attach(engine)
    loop = asyncio.get_running_loop()

    def mind_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, engine.stop, number)

    engine.on_serving(mind_signals)
    _end(await engine.run(), ranks)


def _end(status: int, ranks: Sequence[RankProcess]) -> None:
    """At once, before asyncio can complain about connections that are still open."""
    if status < 0:
        for rank in ranks:
            os.kill(rank.pid, signal.SIGKILL)
        os.kill(os.getpid(), -status)
    os._exit(status)


def serve(launch: Launch, ranks: Sequence[RankProcess]) -> None:
    """Run to the end; does not come back. A negative status is a signal that the process sends itself."""
    asyncio.run(_live(launch, ranks))
