"""The SSH adapter of the `Host` port, on asyncssh.

One connection is kept; each `run_all` is one exec on it. The account's login shell is given one line of quoted words,
starting with `env LC_ALL=C` (sshd's AcceptEnv need not allow it; sudo's default env_check lets it pass): no terminal,
no login shell. It must be a POSIX shell; where it is bash, sshd makes it read ~/.bashrc first, each time.
"""

import asyncio
import secrets
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import asyncssh

from state.errors import ArgvFailed, DeadlineExceeded
from tasks.hosts.port import Argv, Completed
from tasks.hosts.privilege import answered, elevate, one_root
from tasks.hosts.ssh_exec import Exec, Follow
from tasks.hosts.ssh_options import Login
from tasks.hosts.ssh_session import Session
from tasks.script import render_batch, split_frames

if TYPE_CHECKING:
    import httpx

LONGEST_COMMAND = (128 << 10) - 1
"""Bytes of one command: sshd hands it to the shell as one word, and Linux takes no longer one (MAX_ARG_STRLEN)."""

OPENING_S = 60.0
"""For a session on a connection that stands, or on another where that turns out to be dead."""

_CLEAN = ("env", "LC_ALL=C")
_SESSIONS = 10  # OpenSSH's default MaxSessions; what runs beyond that waits here, what is followed does not
_FULL = (asyncssh.OPEN_CONNECT_FAILED, asyncssh.OPEN_ADMINISTRATIVELY_PROHIBITED, asyncssh.OPEN_RESOURCE_SHORTAGE)


class SshHost:
    """A host reached over SSH as `login` says.

    A lost connection is opened again by the next call: `attempts` tries, with `sleep` awaited between them. What was
    running when it was lost is never run again here; HostUnreachable says so, and the caller looks at the host first.
    `timeout_s` of `run_all` counts from when the argv has been handed over. A batch too long for
    one command goes in several. ValueError for a word with a NUL, for stdin in a
    batch and for an argv longer than LONGEST_COMMAND.
    """

    def __init__(
        self,
        name: str,
        login: Login,
        *,
        attempts: int = 4,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        mark: Callable[[], str] = secrets.token_hex,
    ) -> None:
        self._name = name
        self._login = login
        self._session = Session(name, login, attempts, sleep)
        self._mark = mark
        self._slots = asyncio.Semaphore(_SESSIONS)

    @property
    def name(self) -> str:
        return self._name

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        if not argvs:
            return ()
        if len(argvs) == 1:
            command = shlex.join((*_CLEAN, *elevate(argvs[0], self._login.become)))
            found: tuple[Completed, ...] = (await self._run(command, argvs[0].stdin, argvs[0].words[0], timeout_s),)
        else:
            found = await self._batch(argvs, timeout_s, root=one_root(argvs))
        return tuple(
            answered(self._name, self._login.user, argv, self._login.become, completed)
            for argv, completed in zip(argvs, found, strict=True)
        )

    async def _batch(self, argvs: Sequence[Argv], timeout_s: float, *, root: bool) -> tuple[Completed, ...]:
        """With `root`, in one shell of root's; its halves too, where it is too long."""
        if any(argv.stdin for argv in argvs):
            raise ValueError("Only a single argv may carry stdin")
        mark = self._mark()
        script = render_batch([elevate(replace(a, root=a.root and not root), self._login.become) for a in argvs], mark)
        shell = Argv(("/bin/sh", "-c", script), root=root)
        command = shlex.join((*_CLEAN, *elevate(shell, self._login.become)))
        if len(command.encode()) > LONGEST_COMMAND and len(argvs) > 1:
            half = len(argvs) // 2
            halves = [await self._batch(part, timeout_s, root=root) for part in (argvs[:half], argvs[half:])]
            return (*halves[0], *halves[1])
        done = await self._run(command, b"", f"batch of {len(argvs)} argvs", timeout_s)
        answered(self._name, self._login.user, shell, self._login.become, done)
        found = split_frames(done.stdout, done.stderr, mark, len(argvs))
        if len(found) < len(argvs):
            why = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if line and mark not in line]
            raise self._session.unreachable(
                f"the shell of a batch ended at argv {len(found) + 1} of {len(argvs)}, status {done.status}: "
                + (why[-1] if why else "no stderr")
            )
        return found

    async def _run(self, command: str, stdin: bytes, what: str, timeout_s: float) -> Completed:
        session = Exec(stdin)
        try:
            async with self._slots:
                await self._started(session, command, what)
                async with asyncio.timeout(timeout_s):
                    await session.ended.wait()
        except TimeoutError:
            raise DeadlineExceeded(f"`{what}` on {self._name}", timeout_s) from None
        finally:
            session.end()
        if (completed := session.completed()) is None:
            raise self._session.unreachable(f"the connection was lost while `{what}` ran")
        return completed

    async def _started(self, session: Exec, command: str, what: str) -> None:
        """A connection that has gone silent shows only after its keepalives: what runs must not pay for that time."""
        await self._session.connection()
        try:
            async with asyncio.timeout(OPENING_S):
                await self._start(session, command)
        except TimeoutError:
            raise self._session.unreachable(f"no session for `{what}` was opened within {OPENING_S:g} s") from None

    async def _start(self, session: Exec, command: str) -> None:
        if (size := len(command.encode())) > LONGEST_COMMAND:
            raise ValueError(f"A command of {size} bytes is longer than the {LONGEST_COMMAND} that Linux takes")
        try:
            await self._session.opened(
                lambda connection: connection.create_session(
                    lambda: session, command, encoding=None, request_pty=False
                ),
                full=_FULL,
            )
        except asyncssh.ChannelOpenError as error:
            raise self._session.unreachable(f"sshd opened no session: {error.reason}") from error
        except asyncssh.DisconnectError as error:
            raise self._session.unreachable(f"the connection was lost at its start: {error.reason}") from error
        except OSError as error:  # a reset while sshd is asked to run it comes through as it is (asyncssh 2.24)
            detail = error.strerror or str(error)
            raise self._session.unreachable(f"the connection was lost at its start: {detail}") from error

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """As the port says. ArgvFailed, with its stderr, when the argv ends by itself with a bad status."""
        return self._follow(argv)

    @asynccontextmanager
    async def _follow(self, argv: Argv) -> AsyncIterator[AsyncIterator[bytes]]:
        session = Follow()
        try:
            await self._start(session, shlex.join((*_CLEAN, *elevate(argv, self._login.become))))
            yield self._lines(argv, session)
        finally:
            session.end()

    async def _lines(self, argv: Argv, session: Follow) -> AsyncIterator[bytes]:
        async for line in session.lines():
            yield line
        if (completed := session.completed()) is None:
            raise self._session.unreachable(f"the connection was lost while `{argv.words[0]}` ran")
        completed = answered(self._name, self._login.user, argv, self._login.become, completed)
        if not completed.ok:
            stderr = completed.stderr.decode("utf-8", "replace")
            raise ArgvFailed(self._name, argv.words, completed.status, stderr)

    def transport(self) -> "httpx.AsyncBaseTransport":
        from tasks.hosts.ssh_http import TunnelledTransport  # HTTP's own modules: not before they are needed

        return TunnelledTransport(self._session.opened, self._session.unreachable)

    async def aclose(self) -> None:
        await self._session.aclose()
