"""What the contract suite needs of each adapter of the `Host` port."""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from tasks.hosts.port import Argv, Host

USER = "interlock"


@dataclass(frozen=True)
class Reached:
    """A host, and what the suite needs to know of it.

    `directory` exists there, empty and writable; `slow` does not end by itself within a second; `follow` goes on, and
    prints each line that `say` is given; `round_trips` counts the test's execs where they can be counted; `serve` lets
    something answer `GET /` with "pong" on a port of the host's loopback; `lose_next` lets the session be lost when the
    next argv has been carried out, before its answer.
    """

    host: Host
    directory: str
    slow: Argv
    follow: Argv
    say: Callable[[str], Awaitable[None]]
    serve: Callable[[], AbstractAsyncContextManager[int]]
    lose_next: Callable[[], Awaitable[None]]
    round_trips: Callable[[], Awaitable[int]] | None = None


Reach: TypeAlias = Callable[[Path, bool], AbstractAsyncContextManager[Reached]]
"""A host for one test, given a folder of this machine and whether sudo shall say yes."""


@dataclass(frozen=True)
class Adapter:
    """`opened` brings up, once, what all tests share, and ends it; `cannot` says which test it cannot take part in, and
    why."""

    opened: Callable[[], AbstractAsyncContextManager[Reach]]
    cannot: dict[str, str] = field(default_factory=dict)


def anew(reach: Reach) -> Callable[[], AbstractAsyncContextManager[Reach]]:
    """For an adapter whose tests share nothing."""
    return lambda: nullcontext(reach)
