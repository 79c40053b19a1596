"""The `Host` port: what a host can be asked, whatever stands behind it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # who asks a host over HTTP loads it: planning does not
    import httpx


@dataclass(frozen=True, slots=True)
class Argv:
    """A remote command as a list of words, quoted once, at the wire. `root` asks for the host's way to become root."""

    words: tuple[str, ...]
    stdin: bytes = b""
    root: bool = False


@dataclass(frozen=True, slots=True)
class Completed:
    """How an argv ended. `status` is its exit status, 128 + n after signal n; 127 where there is no such program."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def text(self) -> str:
        return self.stdout.decode("utf-8", "replace")

    @property
    def ok(self) -> bool:
        return self.status == 0


class Host(Protocol):
    """A host reached somehow. Every adapter passes `tests/contract/test_host.py`.

    All methods raise HostUnreachable (no session, or the session was lost), HostKeyMismatch, PrivilegeRefused (sudo
    said no to an argv with `root`) or DeadlineExceeded. A non-zero exit status is an answer, not an error.
    """

    @property
    def name(self) -> str: ...

    async def run_all(self, argvs: Sequence[Argv], *, timeout_s: float) -> tuple[Completed, ...]:
        """Run argvs one after another, whatever their statuses, in one round trip. Only a lone argv may carry stdin."""
        ...

    def follow(self, argv: Argv) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """The lines (without their newline) that a long-running argv prints; leaving the context ends it."""
        ...

    def transport(self) -> "httpx.AsyncBaseTransport":
        """HTTP as seen from the host: a URL with 127.0.0.1 means the host's own loopback."""
        ...

    async def aclose(self) -> None: ...
