"""One SSH connection to one host: opened when first needed, kept, opened again when it was lost."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import asyncssh
from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from state.errors import HostKeyMismatch, HostUnreachable, InterlockError
from tasks.hosts.ssh_options import Login, Target, hop_target, target

# What may pass by itself. A refused key or host key is not among them: knocking again only fills the host's log.
_PASSING = (OSError, asyncssh.ConnectionLost)
_DEAD = (asyncssh.OPEN_CONNECT_FAILED, "SSH connection closed")  # asyncssh 2.24, of a channel that it could not ask for

T = TypeVar("T")


@dataclass(slots=True)
class _Shown(asyncssh.SSHClient):
    """Remembers the host key that was shown when it is none of the trusted ones, to name it in the refusal."""

    fingerprint: str = ""
    hop: str = ""

    def validate_host_public_key(self, host: str, addr: str, port: int, key: asyncssh.SSHKey) -> bool:
        self.fingerprint = key.get_fingerprint()
        return False


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
    _kept: asyncssh.SSHClientConnection | None = None
    _hops: list[asyncssh.SSHClientConnection] = field(default_factory=list)

    async def connection(self) -> asyncssh.SSHClientConnection:
        """The kept connection, or a new one. HostUnreachable, or HostKeyMismatch."""
        async with self._opening:
            if self._kept is None or self._kept.is_closed():
                self._kept = await self._reach()
            return self._kept

    async def opened(self, opening: Callable[[asyncssh.SSHClientConnection], Awaitable[T]]) -> T:
        """What `opening` opens on the connection; once more on a new one where the kept one turns out to be dead.

        That is safe: the loss shows before the channel stands, so that nothing was asked of the host.
        """
        connection = await self.connection()
        try:
            return await opening(connection)
        except asyncssh.ChannelOpenError as error:
            if (error.code, error.reason) != _DEAD:
                raise
        await connection.wait_closed()
        return await opening(await self.connection())

    async def aclose(self) -> None:
        async with self._opening:
            await self._close()

    def unreachable(self, detail: str) -> HostUnreachable:
        return HostUnreachable(self.name, self.login.address, detail)

    async def _close(self) -> None:
        kept, hops = self._kept, self._hops
        self._kept, self._hops = None, []
        for connection in (kept, *reversed(hops)):
            if connection is not None:
                connection.close()
                await connection.wait_closed()

    async def _reach(self) -> asyncssh.SSHClientConnection:
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

    async def _connect(self, goal: Target, hops: list[Target], shown: _Shown) -> asyncssh.SSHClientConnection:
        await self._close()
        tunnel: asyncssh.SSHClientConnection | None = None
        for hop in hops:
            shown.hop = str(hop.arguments["host"])
            tunnel = await asyncssh.connect(**{**hop.arguments, "tunnel": tunnel}, client_factory=lambda: shown)
            self._hops.append(tunnel)
        shown.hop = ""
        return await asyncssh.connect(**{**goal.arguments, "tunnel": tunnel}, client_factory=lambda: shown)

    def _translated(self, error: Exception, shown: _Shown) -> InterlockError:
        match error:
            case asyncssh.HostKeyNotVerifiable():
                return HostKeyMismatch(self.name, self.login.address, self._key_detail(error, shown))
            case asyncssh.KeyExchangeFailed() if "host key" in error.reason:
                return HostKeyMismatch(self.name, self.login.address, f"it has none of that type ({error.reason})")
            case asyncssh.PermissionDenied():
                return self.unreachable(f"the key of user `{self.login.user}` was refused ({self._offered()})")
            case TimeoutError():
                return self.unreachable(f"no answer within {self.login.connect_timeout_s:g} s")
            case ConnectionRefusedError():
                return self.unreachable("connection refused")
            case OSError():
                return self.unreachable(error.strerror or str(error))
            case asyncssh.DisconnectError():
                return self.unreachable(error.reason)
        return self.unreachable(str(error))

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
