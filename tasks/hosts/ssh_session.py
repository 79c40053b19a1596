"""The SSH connection to one host: opened when first needed, kept, opened again when it was lost, joined when full."""

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import TypeVar

import asyncssh
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from state.errors import HostKeyMismatch, HostUnreachable, InterlockError, LoginRefused
from tasks.hosts.ssh_options import Login, Target, hop_target, target

# What may pass by itself. A refused key or host key is not among them: knocking again only fills the host's log.
# ChannelOpenError is a jump host's word that it cannot reach the next one yet.
_PASSING = (OSError, asyncssh.ConnectionLost, asyncssh.ChannelOpenError)
_DEAD = (asyncssh.OPEN_CONNECT_FAILED, "SSH connection closed")  # asyncssh 2.24, of a channel that it could not ask for
_CONNECTIONS = 10  # at most beside the first: one for each session, should sshd allow no more (MaxSessions 1)

T = TypeVar("T")


@dataclass(slots=True)
class _Shown(asyncssh.SSHClient):
    """Remembers the host key that was shown when it is none of the trusted ones, to name it in the refusal."""

    fingerprint: str = ""
    hop: str = ""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.fingerprint = key.get_fingerprint()
        return False


@dataclass(frozen=True, slots=True)
class _Link:
    """Connections that lead to the host: those to jump hosts, each through the one before, and the host's own."""

    path: list[asyncssh.SSHClientConnection]

    @property
    def connection(self) -> asyncssh.SSHClientConnection:
        return self.path[-1]

    async def closed(self) -> bool:
        """Whether the host's own connection is gone; those to the jump hosts are then closed too."""
        if self.connection.is_closed():
            await self.aclose()
        return self.connection.is_closed()

    async def aclose(self) -> None:
        for connection in reversed(self.path):
            connection.close()
            await connection.wait_closed()


@dataclass
class Session:
    """The kept connection of `name`.

    Reaching is tried `attempts` times, waiting 0.2 s, 0.4 s, … at most 5 s between them; `sleep` is called with the
    seconds to wait. Nothing is ever sent twice: only reaching is retried here.
    """

    name: str
    login: Login
    attempts: int = 4
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock)
    _open: list[_Link] = field(default_factory=list)

    async def connection(self, besides: Collection[asyncssh.SSHClientConnection] = ()) -> asyncssh.SSHClientConnection:
        """A connection that stands and is none of `besides`, or a new one. HostUnreachable, or HostKeyMismatch."""
        async with self._opening:
            self._open = [link for link in self._open if not await link.closed()]
            for link in self._open:
                if link.connection not in besides:
                    return link.connection
            self._open.append(await self._reach())
            return self._open[-1].connection

    async def opened(
        self, opening: Callable[[asyncssh.SSHClientConnection], Awaitable[T]], *, full: Collection[int] = ()
    ) -> T:
        """What `opening` opens on the connection, or on another one where that is dead or full.

        That is safe: either shows before the channel stands, so that nothing was asked of the host. Codes of `full` are
        sshd's refusals of one more channel on a connection (MaxSessions).
        """
        tried: list[asyncssh.SSHClientConnection] = []
        while True:
            connection = await self.connection(besides=tried)
            try:
                return await opening(connection)
            except asyncssh.ChannelOpenError as error:
                if dead := (error.code, error.reason) == _DEAD:
                    await connection.wait_closed()
                if len(tried) == _CONNECTIONS or not (dead or error.code in full):
                    raise
            tried.append(connection)

    async def aclose(self) -> None:
        async with self._opening:
            links, self._open = self._open, []
            for link in links:
                await link.aclose()

    def unreachable(self, detail: str) -> HostUnreachable:
        return HostUnreachable(self.name, self.login.where, detail)

    async def _reach(self) -> _Link:
        shown = _Shown()
        policy = AsyncRetrying(
            retry=retry_if_exception_type(_PASSING),
            wait=wait_exponential(multiplier=0.2, max=5),
            stop=stop_after_attempt(self.attempts),
            sleep=self.sleep,
            reraise=True,
        )
        try:
            goal = target(self.login)
            hops = [hop_target(self.login, hop) for hop in goal.hops]
            return await policy(self._connect, goal, hops, shown)
        except (OSError, ValueError, asyncssh.Error) as error:
            raise self._translated(error, shown) from error

    async def _connect(self, goal: Target, hops: list[Target], shown: _Shown) -> _Link:
        link = _Link([])
        try:
            for aim in (*hops, goal):
                shown.hop = "" if aim is goal else str(aim.arguments["host"])
                tunnel = link.path[-1] if link.path else None
                connection = await asyncssh.connect(**{**aim.arguments, "tunnel": tunnel}, client_factory=lambda: shown)
                link.path.append(connection)
        finally:
            if len(link.path) <= len(hops):
                await link.aclose()
        return link

    def _translated(self, error: Exception, shown: _Shown) -> InterlockError:
        match error:
            case asyncssh.HostKeyNotVerifiable():
                return HostKeyMismatch(self.name, self.login.where, self._key_detail(error, shown))
            case asyncssh.KeyExchangeFailed() if "host key" in error.reason:
                return HostKeyMismatch(self.name, self.login.where, f"it has none of that type ({error.reason})")
        if shown.hop:
            detail = error.reason if isinstance(error, asyncssh.DisconnectError) else self._detail(error)
            return self.unreachable(f"jump host {shown.hop}: {detail}")
        if isinstance(error, asyncssh.PermissionDenied):
            return LoginRefused(self.name, self.login.where, self._detail(error))
        return self.unreachable(self._detail(error))

    def _detail(self, error: Exception) -> str:
        match error:
            case asyncssh.PermissionDenied():
                return f"the key of user `{self.login.user}` was refused ({self._offered()})"
            case TimeoutError():
                return f"no answer within {self.login.connect_timeout_s:g} s"
            case ConnectionRefusedError():
                return "connection refused"
            case OSError():
                return error.strerror or str(error)
            case asyncssh.DisconnectError() | asyncssh.ChannelOpenError():
                return error.reason
        return str(error)

    def _key_detail(self, error: asyncssh.HostKeyNotVerifiable, shown: _Shown) -> str:
        if not shown.fingerprint:
            return error.reason
        if shown.hop:
            return f"jump host {shown.hop} showed {shown.fingerprint}, which known_hosts does not have"
        if (pinned := self.login.pinned()) is not None:
            return f"it showed {shown.fingerprint}, pinned is {pinned.get_fingerprint()}"
        return f"it showed {shown.fingerprint}, which {self.login.known_hosts or 'known_hosts'} does not have"

    def _offered(self) -> str:
        return "offered: " + (", ".join(self.login.client_keys) or "those of the agent and of ~/.ssh")
