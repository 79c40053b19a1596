"""Real child processes: what runs a unit's ExecStart in child mode, and how its control group is known."""

import asyncio
import contextlib
import os
import signal
import socket
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from tasks.hosts.port import Completed
from tasks.practice.process import EmitAs, SpawnFailed
from tasks.practice.scan import Scan
from tasks.practice.sockets import listeners

_READ_BYTES = 65_536
_CREDENTIALS = struct.Struct("3i")


class Output:
    """The receiving end of a unit's stdout and stderr. The kernel says who wrote, as it does for journald."""

    def __init__(self) -> None:
        self._ours, self.theirs = socket.socketpair()
        self._ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self._ours.setblocking(False)
        self._partial: dict[int, bytes] = {}
        self._emit: EmitAs | None = None

    def listen(self, emit: EmitAs) -> None:
        self._emit = emit
        self.theirs.close()
        asyncio.get_running_loop().add_reader(self._ours.fileno(), self.drain)

    def drain(self) -> None:
        """Hand over every whole line that is there."""
        while not self.closed:
            try:
                data, ancillary, _, _ = self._ours.recvmsg(_READ_BYTES, socket.CMSG_SPACE(_CREDENTIALS.size))
            except BlockingIOError:
                return
            except ConnectionResetError:
                data, ancillary = b"", []
            if not data:
                self.close()
                return
            pid = next((_CREDENTIALS.unpack(raw[: _CREDENTIALS.size])[0] for _, _, raw in ancillary), 0)
            self._lines(pid, data)

    def _lines(self, pid: int, data: bytes) -> None:
        *whole, rest = (self._partial.pop(pid, b"") + data).split(b"\n")
        for line in whole:
            self._hand_over(pid, line)
        if rest:
            self._partial[pid] = rest

    @property
    def closed(self) -> bool:
        return self._ours.fileno() < 0

    def close(self) -> None:
        if self.closed:
            return
        self.theirs.close()
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop().remove_reader(self._ours.fileno())
        for pid, rest in self._partial.items():
            self._hand_over(pid, rest)
        self._partial.clear()
        self._ours.close()

    def _hand_over(self, pid: int, line: bytes) -> None:
        if self._emit is not None:
            self._emit(pid, line)


class ChildGroup:
    """A real main process and every process whose environment carries the same INVOCATION_ID."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        argv: Sequence[str],
        env: Mapping[str, str],
        output: Output,
        scan: Scan,
    ) -> None:
        self.argv, self.env, self.pid = tuple(argv), dict(env), process.pid
        self._process, self._output, self._scan = process, output, scan
        self.mark = f"INVOCATION_ID={env['INVOCATION_ID']}".encode()

    async def wait(self, emit: EmitAs) -> int:
        self._output.listen(emit)
        status = await self._process.wait()
        self._output.drain()  # a leftover may hold the other end, and its lines still count
        if not self.members():
            self._output.close()
        return status

    def members(self) -> Mapping[int, Sequence[str]]:
        found = {pid: self._argv(pid) for pid in self._scan.marked(self.mark)}
        if self.pid not in found and self._process.returncode is None and lives(self.pid):
            found[self.pid] = self._argv(self.pid)  # a process shows no environment while it execs
        return found

    def _argv(self, pid: int) -> tuple[str, ...]:
        """What runs. A main process with an interpreter in front, from a wrapper below the root, is shown as asked."""
        words = read_cmdline(pid)
        asked = self.argv[1:]
        wrapped = pid == self.pid and (not asked or words[-len(asked) :] == asked)
        return self.argv if wrapped else words

    def signal(self, pid: int, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)

    @property
    def over(self) -> bool:
        """Whether the main process is reaped and nobody can print any more."""
        return self._process.returncode is not None and self._output.closed

    async def end(self) -> None:
        """Kill what is left, and wait for it."""
        for pid in self.members():
            self.signal(pid, signal.SIGKILL)
        await self._process.wait()
        self._output.close()

    def listening(self) -> Mapping[int, int]:
        members = set(self.members())
        return {found.port: pid for found in listeners() for pid in found.pids if pid in members}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        async with httpx.AsyncHTTPTransport() as transport:
            return await transport.handle_async_request(request)


class ChildRunner:
    """Runs programs below `root`, or the real one where there is none below it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._groups: list[ChildGroup] = []
        self._scan = Scan()

    def finds(self, path: str) -> bool:
        return os.path.exists(self._executable(path))

    async def spawn(self, path: str, argv: Sequence[str], env: Mapping[str, str], *, cwd: str) -> ChildGroup:
        output = Output()
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                executable=self._executable(path),
                env={**env, "PRACTICE_ROOT": str(self._root)},
                cwd=self._directory(cwd),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output.theirs.fileno(),
                stderr=output.theirs.fileno(),
                start_new_session=True,
            )
        except OSError as error:
            output.close()
            raise SpawnFailed(path, os.strerror(error.errno or 0)) from error
        group = ChildGroup(process, argv, env, output, self._scan)
        self._groups = [*(other for other in self._groups if not other.over), group]
        return group

    async def run(self, path: str, argv: Sequence[str], env: Mapping[str, str], stdin: bytes) -> Completed:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                executable=self._executable(path),
                env={**env, "PRACTICE_ROOT": str(self._root)},
                cwd=self._root,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except OSError as error:
            raise SpawnFailed(path, os.strerror(error.errno or 0)) from error
        try:
            out, err = await process.communicate(stdin)
        except asyncio.CancelledError:
            process.kill()
            await process.wait()
            raise
        status = process.returncode or 0
        return Completed(status if status >= 0 else 128 - status, out, err)

    def outside(self) -> Mapping[int, Sequence[str]]:
        """Living processes that were started below this root, but are of no unit any more: PID to argv. A container is
        such a one, which its engine's own daemon starts for the client that a unit runs."""
        mark = f"PRACTICE_ROOT={self._root}".encode()
        of_units = {group.mark for group in self._groups}
        found = self._scan.environments()
        return {pid: read_cmdline(pid) for pid, variables in found if mark in variables and not of_units & variables}

    async def aclose(self) -> None:
        await asyncio.gather(*(group.end() for group in self._groups))
        for pid in self.outside():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._groups.clear()

    def _executable(self, path: str) -> str:
        below = self._root / path.lstrip("/")
        return str(below) if os.path.lexists(below) else path

    def _directory(self, cwd: str) -> Path:
        below = self._root / cwd.lstrip("/")
        return below if below.is_dir() else self._root


def lives(pid: int) -> bool:
    """Whether there is such a process, and it is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b") ")[2][:1] != b"Z"
    except OSError:
        return False


def read_cmdline(pid: int) -> tuple[str, ...]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        return ("?",)
    return tuple(word.decode("utf-8", "replace") for word in words) or ("?",)
