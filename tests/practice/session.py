"""Small programs for a machine in memory, and a session on it."""

import asyncio
import json
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from tasks.hosts.port import Completed
from tasks.practice.host import PracticeMachine
from tasks.practice.process import Emit, Factory


class Acting:
    """A program that lives `lives_s` (None: until a signal), takes `dies_s` to heed SIGTERM, and ends with `status`.

    `keeps` are argvs of children that outlive it; `ports` are what it listens on while it lives.
    """

    def __init__(
        self,
        machine: PracticeMachine,
        *,
        lives_s: float | None = None,
        dies_s: float | None = 0.0,
        status: int = 0,
        lines: Sequence[bytes] = (b"hello",),
        keeps: Sequence[Sequence[str]] = (),
        ports: Sequence[int] = (),
    ) -> None:
        self.pid = machine.new_pid()
        self._lives, self._dies, self._status, self._lines = lives_s, dies_s, status, lines
        self._children = {machine.new_pid(): tuple(argv) for argv in keeps}
        self._ports = set(ports)
        self._signals: asyncio.Queue[int] = asyncio.Queue()

    async def run(self, emit: Emit) -> int:
        for line in self._lines:
            emit(line)
        try:
            async with asyncio.timeout(self._lives):
                number = await self._signals.get()
        except TimeoutError:
            self._ports.clear()
            return self._status
        if self._dies is None:
            await asyncio.Event().wait()
        await asyncio.sleep(self._dies or 0)
        self._ports.clear()
        return -number

    def signal(self, number: int) -> None:
        if number != signal.SIGKILL:
            self._signals.put_nowait(number)

    def listening(self) -> set[int]:
        return set(self._ports)

    def children(self) -> Mapping[int, Sequence[str]]:
        return self._children

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={"path": request.url.path})


def acting(**how: Any) -> Factory:
    return lambda argv, env, machine: Acting(machine, **how)


class Session:
    """A shell on the machine, for one user."""

    def __init__(self, machine: PracticeMachine, user: str = "root") -> None:
        self.machine, self.user = machine, user

    async def __call__(self, *words: str, stdin: bytes = b"") -> Completed:
        return await self.machine.execute(words, stdin=stdin, user=self.user)

    async def shown(self, unit: str, *names: str) -> dict[str, str]:
        done = await self("systemctl", "show", f"--property={','.join(names)}", "--", unit)
        return dict(line.split("=", 1) for line in done.text.splitlines())

    async def said(self, unit: str) -> list[str]:
        """The messages about a unit, its own and systemd's."""
        done = await self("journalctl", "-o", "json", "--all", f"--unit={unit}")
        return [json.loads(line)["MESSAGE"] for line in done.text.splitlines() if line.startswith("{")]

    def install(self, name: str, text: str, program: str = "/opt/app/run") -> None:
        self.machine.files.put(program, "#!", mode=0o755)
        self.machine.files.put(f"/etc/systemd/system/{name}", text)

    def want(self, name: str) -> None:
        """Link a unit as `systemctl enable` would."""
        self.machine.files.mkdir("/etc/systemd/system/multi-user.target.wants", parents=True)
        self.machine.files.symlink(f"/etc/systemd/system/{name}", f"/etc/systemd/system/multi-user.target.wants/{name}")

    async def until(self, holds: Callable[[], bool], *, within_s: float = 5.0) -> None:
        async with asyncio.timeout(within_s):
            while not holds():  # noqa: ASYNC110  # a unit's state has no event
                await asyncio.sleep(0.01)
