"""What a start consists of: acts, performed one after another by whoever runs the engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Say:
    """A log line. `rank` None is the main process; else the index of the scheduler process that prints it.

    An act that is not `stamped` is printed as it is, without time and rank, as progress bars and tracebacks are.
    One that is `severe` is printed at every log level.
    """

    text: str
    rank: int | None = None
    stamped: bool = True
    severe: bool = False
    level: str = "INFO"  # as vLLM shows it in front of a line


@dataclass(frozen=True)
class Pause:
    seconds: float


@dataclass(frozen=True)
class Bind:
    """Take the HTTP port, and go the way of a taken port if it is."""


@dataclass(frozen=True)
class WarmUp:
    """Answer the engine's own first request."""


@dataclass(frozen=True)
class Ready:
    """From here on `/health` is 200."""


@dataclass(frozen=True)
class LoseRank:
    """The scheduler process of this rank dies of SIGKILL."""

    rank: int


@dataclass(frozen=True)
class End:
    """The process ends: an exit status, or a negative signal number that it sends itself."""

    status: int


Act = Union[Say, Pause, Bind, WarmUp, Ready, LoseRank, End]  # noqa: UP007  # evaluated at run time, on Python 3.9 too
