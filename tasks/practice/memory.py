"""Programs that run inside the event loop: an engine from a factory, and the machine's own programs under a unit."""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import httpx

from tasks.hosts.port import Completed
from tasks.practice.process import EmitAs, Factory, Program, SignalsChildren, SpawnFailed, WritesAs

if TYPE_CHECKING:
    from tasks.practice.host import PracticeMachine


class MemoryGroup:
    """A program in memory and its children; what SIGKILL took stays dead, whatever the program says."""

    def __init__(self, program: Program, argv: Sequence[str], env: Mapping[str, str]) -> None:
        self.argv, self.env = tuple(argv), dict(env)
        self._program = program
        self._running = True
        self._killed: set[int] = set()
        self._kill = asyncio.Event()

    @property
    def pid(self) -> int:
        return self._program.pid

    async def wait(self, emit: EmitAs) -> int:
        run = asyncio.ensure_future(self._run(emit))
        kill = asyncio.ensure_future(self._kill.wait())
        try:
            await asyncio.wait((run, kill), return_when=asyncio.FIRST_COMPLETED)
            return -signal.SIGKILL if self._kill.is_set() else run.result()
        finally:
            self._running = False
            kill.cancel()
            run.cancel()

    async def _run(self, emit: EmitAs) -> int:
        if isinstance(self._program, WritesAs):
            return await self._program.run_as(emit)
        return await self._program.run(lambda line: emit(self.pid, line))

    def members(self) -> Mapping[int, Sequence[str]]:
        main = {self.pid: self.argv} if self._running and not self._kill.is_set() else {}
        children = {pid: tuple(argv) for pid, argv in self._program.children().items()}
        return main | {pid: argv for pid, argv in children.items() if pid not in self._killed}

    def signal(self, pid: int, number: int) -> None:
        if pid == self.pid:
            self._signal_main(number)
        elif isinstance(self._program, SignalsChildren):
            self._program.signal_child(pid, number)
        if pid != self.pid and number == signal.SIGKILL:
            self._killed.add(pid)

    def _signal_main(self, number: int) -> None:
        self._program.signal(number)
        if number == signal.SIGKILL:
            self._kill.set()

    def listening(self) -> Mapping[int, int]:
        living = self.members()
        holder = self.pid if self.pid in living else next(iter(living), 0)
        return dict.fromkeys(self._program.listening(), holder) if holder else {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return await self._program.handle(request)


class MemoryRunner:
    """Runs what a factory makes of an argv, on asyncio time only: no thread, no file, no socket."""

    def __init__(self, machine: "PracticeMachine", factory: Factory) -> None:
        self._machine, self._factory = machine, factory

    def finds(self, path: str) -> bool:
        return self._machine.files.exists(path)

    async def spawn(self, path: str, argv: Sequence[str], env: Mapping[str, str], *, cwd: str) -> MemoryGroup:
        self._executable(path)
        return MemoryGroup(self._factory(argv, env, self._machine), argv, env)

    async def run(self, path: str, argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> Completed:
        group = await self.spawn(path, argv, env, cwd="/")
        lines: list[bytes] = []
        status = await group.wait(lambda _pid, line: lines.append(line + b"\n"))
        return Completed(status if status >= 0 else 128 - status, b"".join(lines))

    async def aclose(self) -> None:
        """Nothing outlives the machine's own tasks."""

    def _executable(self, path: str) -> None:
        try:
            entry = self._machine.files.stat(path)
        except OSError as error:
            raise SpawnFailed(path, error.strerror or str(error)) from error
        if entry.kind != "file" or not entry.mode & 0o111:
            raise SpawnFailed(path, "Permission denied")


class OwnGroup:
    """One of the machine's own programs (a shell script, `systemctl`) as a unit's main process."""

    def __init__(
        self, pid: int, argv: Sequence[str], env: Mapping[str, str], run: Callable[[], Awaitable[Completed]]
    ) -> None:
        self.pid, self.argv, self.env = pid, tuple(argv), dict(env)
        self._task = asyncio.ensure_future(run())
        self._number = 0

    async def wait(self, emit: EmitAs) -> int:
        await asyncio.wait((self._task,))
        if self._task.cancelled():
            return -self._number
        completed = self._task.result()
        for line in (completed.stdout + completed.stderr).splitlines():
            emit(self.pid, line)
        return completed.status

    def members(self) -> Mapping[int, Sequence[str]]:
        return {} if self._task.done() else {self.pid: self.argv}

    def signal(self, pid: int, number: int) -> None:
        if pid == self.pid and number in (signal.SIGTERM, signal.SIGKILL, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
            self._number = number
            self._task.cancel()

    def listening(self) -> Mapping[int, int]:
        return {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed", request=request)


class MachineTransport(httpx.AsyncBaseTransport):
    """HTTP to whatever listens on the asked port of a machine in memory."""

    def __init__(self, machine: "PracticeMachine") -> None:
        self._machine = machine

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        port = request.url.port or (443 if request.url.scheme == "https" else 80)
        group = next((g for g in self._machine.systemd.groups() if port in g.listening()), None)
        if group is None:
            raise httpx.ConnectError("All connection attempts failed", request=request)
        await request.aread()
        return await group.handle(request)
