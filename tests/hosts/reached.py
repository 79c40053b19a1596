"""Hosts as the contract suite meets them, one builder for each adapter."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import asyncssh
import httpx

from tasks.hosts.port import Argv, Host
from tasks.hosts.ssh import SshHost
from tasks.hosts.ssh_options import Login
from tasks.practice.host import PracticeMachine
from tasks.practice.machine import Machine
from tasks.practice.simulated import SimulatedHost
from tasks.practice.sshd import PracticeSshd
from tests.hosts import booted, contained, virtual
from tests.hosts.adapter import USER, Adapter, Reached, anew
from tests.hosts.local_machine import LocalMachine


@cache
def client_key() -> asyncssh.SSHKey:
    return asyncssh.generate_private_key("ssh-ed25519")


def login(sshd: PracticeSshd, directory: Path, **changes: object) -> Login:
    """How `sshd` is reached: its key pinned, one client key, no configuration file of whoever runs the tests."""
    path = directory / "id_ed25519"
    client_key().write_private_key(str(path))
    given = {
        "user": USER,
        "host_key": sshd.host_public_key,
        "client_keys": (str(path),),
        "config": (),
        "become": "sudo",
    }
    return Login(sshd.address, **(given | changes))  # type: ignore[arg-type]  # the fields of Login, by name


@asynccontextmanager
async def practice_sshd(
    machine: Machine, *, in_memory: Callable[[], Collection[int]] = tuple
) -> AsyncIterator[PracticeSshd]:
    public = client_key().export_public_key().decode()
    async with PracticeSshd(machine, users={USER}, authorized_keys=[public], in_memory=in_memory) as sshd:
        yield sshd


@asynccontextmanager
async def pong() -> AsyncIterator[int]:
    """A real HTTP server on loopback; its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\nconnection: close\r\n\r\npong")
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield server.sockets[0].getsockname()[1]


@asynccontextmanager
async def local_over_ssh(directory: Path, sudo_allowed: bool) -> AsyncIterator[Reached]:
    """Real programs of this machine, behind the practice sshd."""
    work = directory / "work"
    work.mkdir()
    log = directory / "log"
    log.touch()

    async def say(line: str) -> None:
        with log.open("a") as file:
            file.write(line + "\n")

    async with practice_sshd(LocalMachine(directory, sudo_allowed=sudo_allowed)) as sshd:
        host = SshHost("gpu-1", login(sshd, directory))

        async def lose_next() -> None:
            sshd.lost_answers = 1

        async def execs() -> int:
            return sshd.execs

        try:
            slow, follow = Argv(("sleep", "30")), Argv(("tail", "-f", "-n", "+1", "--", str(log)))
            yield Reached(host, str(work), slow, follow, say, pong, lose_next, execs)
        finally:
            await host.aclose()


class Pong:
    """A program in a practice machine's memory that answers on port 30000 until it is ended."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._ended = asyncio.Event()

    async def run(self, emit: Callable[[bytes], None]) -> int:
        await self._ended.wait()
        return 0

    def signal(self, number: int) -> None:
        self._ended.set()

    def listening(self) -> set[int]:
        return set() if self._ended.is_set() else {30000}

    def children(self) -> Mapping[int, Sequence[str]]:
        return {}

    async def handle(self, request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="pong")


@asynccontextmanager
async def practice_machine(sudo_allowed: bool) -> AsyncIterator[PracticeMachine]:
    machine = PracticeMachine(factory=lambda argv, env, of: Pong(of.new_pid()))
    machine.faults.sudo_refused = not sudo_allowed
    machine.faults.hang(lambda words: words[0] == "true" and words[1:] == ("slow",), times=None)
    machine.files.mkdir(f"/home/{USER}/work", parents=True, owner=(USER, USER))
    machine.files.put("/etc/systemd/system/pong.service", "[Service]\nExecStart=/opt/pong\n")
    machine.files.put("/opt/pong", "", mode=0o755)
    try:
        yield machine
    finally:
        await machine.aclose()


def reached_practice(host: Host, machine: PracticeMachine, round_trips: Callable[[], Awaitable[int]] | None) -> Reached:
    async def say(line: str) -> None:
        machine.kernel(line)

    @asynccontextmanager
    async def serve() -> AsyncIterator[int]:
        await machine.systemd.start("pong.service")
        yield 30000
        await machine.systemd.stop("pong.service")

    follow = Argv(("journalctl", "--follow", "--no-tail", "--dmesg", "--output=cat"))

    async def lose_next() -> None:
        machine.faults.cut_after(lambda words: True)

    return Reached(host, f"/home/{USER}/work", Argv(("true", "slow")), follow, say, serve, lose_next, round_trips)


@asynccontextmanager
async def practice_over_ssh(directory: Path, sudo_allowed: bool) -> AsyncIterator[Reached]:
    async with practice_machine(sudo_allowed) as machine:
        ports = lambda: {port for group in machine.systemd.groups() for port in group.listening()}  # noqa: E731
        async with practice_sshd(machine, in_memory=ports) as sshd:
            host = SshHost("gpu-1", login(sshd, directory))

            async def execs() -> int:
                return sshd.execs

            try:
                yield reached_practice(host, machine, execs)
            finally:
                await host.aclose()


@asynccontextmanager
async def practice_directly(directory: Path, sudo_allowed: bool) -> AsyncIterator[Reached]:
    async with practice_machine(sudo_allowed) as machine:
        yield reached_practice(SimulatedHost(machine, "gpu-1", USER), machine, None)


ADAPTERS = {
    "practice machine directly": Adapter(
        anew(practice_directly), {"thirty_reads_are_one_round_trip": "there is no connection to make round trips on"}
    ),
    "local programs over SSH": Adapter(anew(local_over_ssh)),
    "practice machine over SSH": Adapter(anew(practice_over_ssh)),
}

if os.environ.get("INTERLOCK_LAB") == "1":  # they are booted, which takes root and Debian's packages
    listed = {"no_such_program_is_127_for_root_too": booted.LISTED}
    ADAPTERS["container over SSH"] = Adapter(contained.opened, listed)
    ADAPTERS["virtual machine over SSH"] = Adapter(virtual.opened, listed)
