"""The practice machine: a Debian host as systemd, journald, sysfs and coreutils show it, without the host."""

import asyncio
import errno
import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from pathlib import Path

import httpx

from tasks.hosts.port import Completed
from tasks.practice import gpus
from tasks.practice.children import ChildRunner
from tasks.practice.clock import Clock
from tasks.practice.commands import call_for, follow_lines, owns, run_words
from tasks.practice.environment import SYSTEM_PATH
from tasks.practice.faults import Faults
from tasks.practice.files import Files
from tasks.practice.gpus import Stranger
from tasks.practice.journal import Journal
from tasks.practice.memory import MachineTransport, MemoryRunner, OwnGroup
from tasks.practice.pci import Function, PciBus
from tasks.practice.process import Factory, Group, Program, Runner, SpawnFailed
from tasks.practice.procfs import Procfs, Seen, is_real
from tasks.practice.sessions import Sessions
from tasks.practice.storage import DiskFiles, MemoryFiles
from tasks.practice.sysfs import cgroupfs, device_files, nvidia_proc, sysfs
from tasks.practice.systemd import Systemd
from tasks.practice.udev import overrides
from tasks.practice.units import ServiceUnit

FIRST_PID = 14_363
_FIRST_OWN_PID = 5_000_000
_AT_BOOT = tuple(f"/etc/systemd/system/{target}.target.wants" for target in ("multi-user", "timers"))
USERS = ("root", "0", "nobody", "interlock", "sglang")
"""Accounts that units may name in User= and Group=."""


class PracticeMachine:
    """Implements `Machine`. With `root` units run as real child processes and files lie below it; without, all is in
    memory: `factory` makes the processes, and an event loop with virtual time controls everything.

    `functions` are PCI functions, `started` the wall-clock time of the first look (default: now). A machine `inside`
    another is its container: one kernel, so PIDs, GPUs and their holders are the other's too.
    """

    def __init__(
        self,
        hostname: str = "gpu-1",
        *,
        root: Path | None = None,
        factory: Factory | None = None,
        functions: Sequence[Function] = (),
        started: datetime | None = None,
        inside: "PracticeMachine | None" = None,
        kernel_release: str = "6.1.0-37-amd64",
    ) -> None:
        self.hostname, self.kernel_release, self.root = hostname, kernel_release, root
        self.faults = Faults()
        self.clock = Clock(started)
        self.journal = Journal(self.clock, hostname)
        self.guests: list[PracticeMachine] = []
        self._inside = inside
        self._pids: Iterator[int] = inside._pids if inside else itertools.count(_FIRST_OWN_PID if root else FIRST_PID)
        self.files: Files = DiskFiles(self._now_ns, root) if root else MemoryFiles(self._now_ns)
        self.runner: Runner = (
            ChildRunner(self.files.root)
            if isinstance(self.files, DiskFiles)
            else MemoryRunner(self, factory or _nothing)
        )
        self.systemd = self._systemd()
        self.strangers: dict[int, Stranger] = {}
        self.modules: dict[str, str] = {}  # loaded kernel modules that tell a version, by name
        self.users, self.groups = set(USERS), {*USERS, "systemd-journal"}
        self._sessions = Sessions(self.faults)
        self.pci: PciBus = inside.pci if inside else PciBus(self.journal.kernel, self.holders, self.journal.stalled)
        self.pci.add(functions)
        if inside:
            inside.guests.append(self)
        self.files.layers += [
            cgroupfs(self._control_groups, self.faults.oom_kills),
            sysfs(self.pci, self.modules),
            device_files(self.pci),
            nvidia_proc(self.pci),
            Procfs(self.processes, self.faults.unkillable, lambda: self.journal.boot_id),
        ]

    async def execute(self, words: Sequence[str], *, stdin: bytes = b"", user: str) -> Completed:
        """Raises ConnectionCut where a fault ends the session."""
        self._sessions.refuse_if_unreachable()
        return await self._sessions.execute(run_words(self, words, stdin=stdin, user=user))

    @asynccontextmanager
    async def follow(self, words: Sequence[str], *, user: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Raises ConnectionCut, also from the lines, and ProgramEnded for words that do not go on."""
        self._sessions.refuse_if_unreachable()
        async with aclosing(self._sessions.follow(follow_lines(self, words, user=user))) as lines:
            yield lines

    def transport(self) -> httpx.AsyncBaseTransport:
        return httpx.AsyncHTTPTransport() if self.root else MachineTransport(self)

    @staticmethod
    def owns(program: str) -> bool:
        """Whether the machine itself plays this program, rather than a file below its root."""
        return owns(program)

    def which(self, word: str) -> str | None:
        """Where a program is: a path as it is, a name looked for along systemd's own PATH."""
        if "/" in word:
            return word
        own = f"/usr/bin/{word}" if owns(word) else ""
        places = [f"{folder}/{word}" for folder in SYSTEM_PATH.split(":")]
        return next((place for place in places if place == own or self.runner.finds(place)), None)

    def new_pid(self) -> int:
        return next(self._pids)

    def kernel(self, line: str, *, priority: int = 4) -> None:
        """A line of the kernel log."""
        self.journal.kernel(line, priority=priority)

    def add_stranger(self, *argv: str, devices: Sequence[str] = (), ports: Sequence[int] = ()) -> int:
        """A process that belongs to no unit; its PID."""
        pid = self.new_pid()
        self.strangers[pid] = Stranger(argv, tuple(devices), tuple(ports))
        return pid

    def signal(self, pid: int, number: int) -> bool:
        """Send a signal; False where there is no such process."""
        if pid in self.strangers:
            if number in (signal.SIGTERM, signal.SIGKILL) and pid not in self.faults.unkillable:
                del self.strangers[pid]
            return True
        group = next((g for g in self.systemd.groups() if pid in g.members()), None)
        if group is not None and pid not in self.faults.unkillable:
            group.signal(pid, number)
        return group is not None or any(guest.signal(pid, number) for guest in self.guests)

    def kernel_groups(self) -> list[Group]:
        """The living process groups of this machine and of its containers."""
        return [*self.systemd.groups(), *(group for guest in self.guests for group in guest.kernel_groups())]

    def holders(self, address: str) -> list[int]:
        """PIDs that have a PCI function's device file open."""
        return gpus.holders(self.pci, address, self.open_devices())

    def open_devices(self) -> dict[int, list[str]]:
        """PID -> device files it has open, the containers' processes among them."""
        found = gpus.open_devices(self.pci, self.systemd.groups(), self.strangers)
        for guest in self.guests:
            found |= guest.open_devices()
        return found

    def processes(self) -> Mapping[int, Seen]:
        """What /proc shows: the processes of units, and strangers."""
        table = {pid: Seen(s.argv, {}) for pid, s in self.strangers.items()}
        if isinstance(self.runner, ChildRunner):
            table |= {pid: Seen(argv, {}, real=True) for pid, argv in self.runner.outside().items()}
        for name, owner, group in self._owned_groups():
            for pid, argv in group.members().items():
                real = self.root is not None and is_real(pid)
                table[pid] = Seen(argv, group.env, name, owner, real)
        for guest in self.guests:
            table |= guest.processes()
        return table

    async def reboot(self) -> None:
        """Power off and on: sessions, processes, transient units and /run are gone; enabled units start again."""
        enabled = [name for folder in _AT_BOOT if self.files.exists(folder) for name in self.files.names(folder)]
        await self._power_off()
        self.strangers.clear()
        self._empty("/run/systemd/transient")
        self._empty("/run/interlock")
        self.clock.booted()
        self.journal.rebooted()
        if self._inside is None:
            self.pci.reset(overrides(self.files))
        await asyncio.gather(*(self.systemd.start(name) for name in enabled))

    async def aclose(self) -> None:
        """End every process of the machine; nothing of it stays behind."""
        await self._power_off()

    async def _power_off(self) -> None:
        if self._inside is None:
            self.pci.power_off()
        await asyncio.gather(*self._sessions.end(), *self.systemd.power_off(), return_exceptions=True)
        await self.runner.aclose()

    def _systemd(self) -> Systemd:
        return Systemd(
            files=self.files, journal=self.journal, clock=self.clock, faults=self.faults, hostname=self.hostname,
            spawn=self._spawn, new_pid=self.new_pid,
        )  # fmt: skip

    async def _spawn(self, path: str, argv: Sequence[str], env: Mapping[str, str], unit: ServiceUnit) -> Group:
        self._prepare(path, unit)
        if owns(path):
            user = unit.user or "root"
            call = call_for(self, [path, *argv[1:]], stdin=b"", user=user)
            return OwnGroup(self.new_pid(), argv, env, call)
        if (found := self.which(path)) is None:
            raise SpawnFailed(path, os.strerror(errno.ENOENT))
        return await self.runner.spawn(found, argv, env, cwd=unit.working_directory.removeprefix("-") or "/")

    def _prepare(self, path: str, unit: ServiceUnit) -> None:
        """What a forked child does before exec, in its order. Raises SpawnFailed."""
        if unit.user and unit.user not in self.users:
            raise SpawnFailed(path, os.strerror(errno.ESRCH), "USER")
        if unit.group and unit.group not in self.groups:
            raise SpawnFailed(path, os.strerror(errno.ESRCH), "GROUP")
        folder = unit.working_directory
        if folder.startswith("/") and not (self.files.exists(folder) and self.files.stat(folder).kind == "directory"):
            raise SpawnFailed(path, os.strerror(errno.ENOENT), "CHDIR")

    def session_environment(self, user: str) -> dict[str, str]:
        home = "/root" if user == "root" else f"/home/{user}"
        return {"PATH": SYSTEM_PATH, "HOME": home, "USER": user, "LOGNAME": user, "LANG": "C.UTF-8"}

    def _owned_groups(self) -> list[tuple[str, str, Group]]:
        services = self.systemd.services.values()
        return [(s.unit.name, s.unit.user or "root", g) for s in services for g in s.cgroup.groups()]

    def _control_groups(self) -> dict[str, list[int]]:
        units = self.systemd.services.values()
        return {s.unit.control_group: sorted(pids) for s in units if (pids := s.cgroup.members())}

    def _now_ns(self) -> int:
        return self.clock.realtime_us() * 1_000

    def _empty(self, folder: str) -> None:
        for name in self.files.names(folder):
            self.files.remove(f"{folder}/{name}")


def _nothing(argv: Sequence[str], env: Mapping[str, str], machine: PracticeMachine) -> Program:
    raise SpawnFailed(argv[0] if argv else "", "Exec format error")
