"""A real SSH server on loopback in front of a practice machine, with faults that can be asked for.

What a real sshd and shell do is kept: an argv whose client has gone runs on to its end, one that is followed ends, a
TERM sent over the channel ends it; there is no terminal, no shell without a command, and TCP only to loopback.
"""

import asyncio
import re
import shlex
from collections.abc import Awaitable, Callable, Collection, Sequence
from types import TracebackType
from typing import Self

import asyncssh

from tasks.hosts.port import Completed
from tasks.practice.machine import Machine
from tasks.practice.sshd_http import bridge

_Handler = Callable[[asyncssh.SSHReader[bytes], asyncssh.SSHWriter[bytes]], Awaitable[None]]
_LOOPBACK = ("127.0.0.1", "localhost", "::1")


class PracticeSshd:
    """sshd of `machine` on 127.0.0.1; `port`, `address` and `host_public_key` are there once the context is entered.

    `users` may log in with any key of `authorized_keys` (OpenSSH public key lines). `host_key` is an OpenSSH private
    key; without it the server makes one. `in_memory` says which ports nothing real listens on, but the machine's
    transport answers; other ports are the real loopback's. A ConnectionError of the machine cuts. An argv starts when
    its stdin has ended. Counters: `connections` that logged in, `execs`, `streams` (direct-tcpip).
    Faults: `cut`, `refuse`/`accept`, `stall`/`resume`, `delay_s` before each exec, `lost_answers`, `max_sessions`.
    """

    def __init__(
        self,
        machine: Machine,
        *,
        users: Collection[str],
        authorized_keys: Sequence[str],
        host_key: str | None = None,
        in_memory: Callable[[], Collection[int]] = tuple,
    ) -> None:
        self.machine = machine
        self.users = users
        self.in_memory = in_memory
        self.authorized = {asyncssh.import_public_key(line) for line in authorized_keys}
        self._host_key = (
            asyncssh.import_private_key(host_key) if host_key else asyncssh.generate_private_key("ssh-ed25519")
        )
        self.host_public_key = self._host_key.export_public_key().decode().strip()
        self.port = 0
        self.connections = self.execs = self.streams = 0
        self.delay_s = 0.0
        self.max_sessions = 10
        """Sessions that may be open at once on one connection (MaxSessions)."""
        self.lost_answers = 0
        """How many of the next argvs are carried out and then answered by a cut connection."""
        self.open: set[asyncssh.SSHServerConnection] = set()
        self.running: set[asyncio.Task[None]] = set()
        self.going = asyncio.Event()
        self.going.set()
        self._acceptor: asyncssh.SSHAcceptor | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        await self.accept()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.refuse()
        await self.cut()
        for task in self.running:
            if not task.cancelling():
                task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)

    async def accept(self) -> None:
        """Listen, on the same port as before."""
        self._acceptor = await asyncssh.listen(
            "127.0.0.1",
            self.port,
            server_factory=lambda: _Door(self),
            server_host_keys=[self._host_key],
            encoding=None,
            line_editor=False,
            reuse_address=True,
        )
        self.port = self._acceptor.get_port()

    async def refuse(self) -> None:
        """Stop listening: new connections are refused, those that stand go on."""
        if self._acceptor is not None:
            self._acceptor.close()
            await self._acceptor.wait_closed()
            self._acceptor = None

    async def cut(self) -> None:
        """Drop every connection without a word. Argvs that run go on running."""
        for connection in tuple(self.open):
            connection.abort()
            await connection.wait_closed()

    def stall(self) -> None:
        """From now on no exec is begun, until `resume`."""
        self.going.clear()

    def resume(self) -> None:
        self.going.set()

    async def begin(self) -> None:
        """What each exec waits for before its argv runs."""
        self.execs += 1
        if self.delay_s:
            await asyncio.sleep(self.delay_s)
        await self.going.wait()

    def loses_answer(self) -> bool:
        if not self.lost_answers:
            return False
        self.lost_answers -= 1
        return True


class _Door(asyncssh.SSHServer):
    """One connection: who may come in, and what may be opened."""

    def __init__(self, sshd: PracticeSshd) -> None:
        self._sshd = sshd
        self._connection: asyncssh.SSHServerConnection | None = None
        self.sessions = 0

    def connection_made(self, conn: asyncssh.SSHServerConnection) -> None:
        self._connection = conn
        self._sshd.open.add(conn)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._connection is not None:
            self._sshd.open.discard(self._connection)

    def public_key_auth_supported(self) -> bool:
        return True

    def validate_public_key(self, username: str, key: asyncssh.SSHKey) -> bool:
        return username in self._sshd.users and key in self._sshd.authorized

    def auth_completed(self) -> None:
        self._sshd.connections += 1

    def session_requested(self) -> asyncssh.SSHServerSession[bytes]:
        if self.sessions >= self._sshd.max_sessions:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, "open failed")
        self.sessions += 1
        return _Exec(self._sshd, self)

    def connection_requested(self, dest_host: str, dest_port: int, orig_host: str, orig_port: int) -> bool | _Handler:
        if dest_host not in _LOOPBACK:
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, "only loopback may be reached")
        self._sshd.streams += 1
        if dest_port not in self._sshd.in_memory():
            return True
        transport = self._sshd.machine.transport()
        return lambda reader, writer: bridge(reader, writer, transport, dest_port)


class _Exec(asyncssh.SSHServerSession[bytes]):
    """One exec request: the argv it names, its stdin, its task."""

    def __init__(self, sshd: PracticeSshd, door: _Door) -> None:
        self._sshd, self._door = sshd, door
        self._channel: asyncssh.SSHServerChannel[bytes] | None = None
        self._command = ""
        self._stdin = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._follows = False

    def connection_made(self, chan: asyncssh.SSHServerChannel[bytes]) -> None:
        self._channel = chan

    def exec_requested(self, command: str) -> bool:
        self._command = command
        return True

    def data_received(self, data: bytes, datatype: asyncssh.DataType) -> None:
        self._stdin += data

    def eof_received(self) -> bool:
        if self._task is None and self._channel is not None:
            self._task = asyncio.create_task(self._serve(self._channel))
            self._sshd.running.add(self._task)
            self._task.add_done_callback(self._sshd.running.discard)
        return True

    def signal_received(self, signal: str) -> None:
        if self._task is not None and not self._task.cancelling():
            self._task.cancel()
        if self._channel is not None:
            self._channel.exit_with_signal(signal)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.sessions -= 1
        if self._task is not None and self._follows and not self._task.cancelling():
            self._task.cancel()

    async def _serve(self, channel: asyncssh.SSHServerChannel[bytes]) -> None:
        await self._sshd.begin()
        try:
            completed = _as_env_says(self._command, await self._carried_out(channel, _words(self._command)))
        except ConnectionError:
            completed = None
        except ValueError as error:
            completed = Completed(2, b"", f"sh: 1: Syntax error: {error}\n".encode())
        if completed is None or self._sshd.loses_answer():
            await self._sshd.cut()
        else:
            self._answer(channel, completed)

    async def _carried_out(self, channel: asyncssh.SSHServerChannel[bytes], words: Sequence[str]) -> Completed:
        machine, user = self._sshd.machine, str(channel.get_extra_info("username"))
        if not _goes_on(words):
            return await machine.execute(words, stdin=bytes(self._stdin), user=user)
        self._follows = True
        async with machine.follow(words, user=user) as lines:
            async for line in lines:
                if channel.is_closing():
                    break
                channel.write(line + b"\n")
        return Completed(0)

    def _answer(self, channel: asyncssh.SSHServerChannel[bytes], completed: Completed) -> None:
        if channel.is_closing():
            return
        channel.write(completed.stdout)
        channel.write_stderr(completed.stderr)
        channel.exit(completed.status)


def _words(command: str) -> list[str]:
    """The argv of a command line, as a shell splits it; what `env` sets in front of it is left out."""
    words = shlex.split(command)
    if words[:1] == ["env"]:
        words = words[1:]
        while words and "=" in words[0]:
            words = words[1:]
    if not words:
        raise ValueError("no command")
    return words


def _as_env_says(command: str, completed: Completed) -> Completed:
    """A program that cannot be run is told of by the `env` in front of it, in its own words (coreutils 9.1)."""
    said = re.fullmatch(rb"sh: 1: (.+): (not found|No such file or directory|Permission denied)\n", completed.stderr)
    if said is None or not command.startswith("env "):
        return completed
    reason = b"No such file or directory" if said[2] == b"not found" else said[2]
    return Completed(completed.status, completed.stdout, b"env: '%s': %s\n" % (said[1], reason))


def _goes_on(words: Sequence[str]) -> bool:
    """Whether the argv prints until it is ended: `journalctl --follow`, `tail -f`, with or without sudo."""
    program = words[words.index("--") + 1 :] if words[0] == "sudo" and "--" in words else words
    if not program or program[0].rpartition("/")[2] not in ("journalctl", "tail"):
        return False
    return any(word == "--follow" or re.fullmatch("-[fF][a-z]*", word) for word in program[1:])
