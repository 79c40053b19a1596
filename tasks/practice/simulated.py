"""The simulated host: a practice machine reached directly, without a connection in between."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager

import httpx

from state.errors import ArgvFailed, DeadlineExceeded, HostUnreachable
from tasks.hosts.port import Argv, Completed
from tasks.hosts.privilege import Become, answered, elevate
from tasks.practice.faults import ConnectionCut
from tasks.practice.machine import Machine
from tasks.practice.process import ProgramEnded

ADDRESS = "practice"


class SimulatedHost:
    """Implements `Host` over a practice machine."""

    def __init__(self, machine: Machine, name: str, user: str = "interlock", become: Become = "sudo") -> None:
        self._machine, self._name, self._user, self._become = machine, name, user, become

    @property
    def name(self) -> str:
        return self._name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        if len(argvs) > 1 and any(argv.stdin for argv in argvs):
            raise ValueError("Only a single argv may carry stdin")
        try:
            async with asyncio.timeout(timeout_s):
                return tuple([await self._run(argv) for argv in argvs])
        except ConnectionCut as error:
            raise self._unreachable(error) from error
        except TimeoutError as error:
            words = argvs[0].words[0] if argvs else "nothing"
            raise DeadlineExceeded(f"`{words}` on {self._name}", timeout_s) from error

    @asynccontextmanager
    async def follow(self, argv: Argv) -> AsyncIterator[AsyncIterator[bytes]]:
        try:
            async with (
                self._machine.follow(elevate(argv, self._become), user=self._user) as lines,
                aclosing(self._lines(lines)) as translated,
            ):
                yield translated
        except ConnectionCut as error:
            raise self._unreachable(error) from error
        except ProgramEnded as ended:
            answered(self._name, self._user, argv, self._become, ended.completed)
            raise ArgvFailed(self._name, argv.words, ended.completed.status, str(ended)) from ended

    def transport(self) -> httpx.AsyncBaseTransport:
        return self._machine.transport()

    async def aclose(self) -> None:
        return None

    async def _run(self, argv: Argv) -> Completed:
        words = elevate(argv, self._become)
        completed = await self._machine.execute(words, stdin=argv.stdin, user=self._user)
        return answered(self._name, self._user, argv, self._become, completed)

    async def _lines(self, lines: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
        try:
            async for line in lines:
                yield line
        except ConnectionCut as error:
            raise self._unreachable(error) from error

    def _unreachable(self, error: ConnectionCut) -> HostUnreachable:
        return HostUnreachable(self._name, ADDRESS, str(error))
