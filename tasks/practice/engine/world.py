"""What surrounds the engine: its clock, its output, its port and its scheduler processes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class World(Protocol):
    """A real process, or a practice machine in memory."""

    @property
    def pid(self) -> int: ...

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def say(self, text: str) -> None:
        """A line of the main process."""
        ...

    def access(self, text: str) -> None:
        """A line of the access log."""
        ...

    async def say_as(self, rank: int, text: str) -> None:
        """A line of a scheduler process; comes back once it is out, so never while that process is stopped."""
        ...

    async def bind(self, host: str, port: int) -> bool:
        """Listen. False where somebody else already does."""
        ...

    def close(self) -> None:
        """Stop listening."""
        ...

    def rank_pid(self, rank: int) -> int:
        """The PID of a scheduler process."""
        ...

    def lose_rank(self, rank: int) -> int:
        """Kill a scheduler process; its PID."""
        ...

    def leave_behind(
        self, title: str, texts: Iterator[str], interval: float, seconds: float, *, keep_port: bool
    ) -> None:
        """Start a process that heeds no signal but SIGKILL, and prints the texts, for so many seconds."""
        ...
