"""The practice machine's time: the event loop's, so that a loop with virtual time controls all of it."""

import asyncio
from datetime import UTC, datetime


class Clock:
    """Wall-clock and monotonic time that move with the event loop of the first look at them."""

    def __init__(self, started: datetime | None = None, *, uptime_s: float = 86_400.0) -> None:
        self.base = started or datetime.now(UTC)
        self._uptime = uptime_s
        self._zero: float | None = None

    def elapsed(self) -> float:
        """Seconds since the first look from inside an event loop; 0 outside of one."""
        try:
            now = asyncio.get_running_loop().time()
        except RuntimeError:
            return 0.0
        if self._zero is None:
            self._zero = now
        return now - self._zero

    def realtime_us(self) -> int:
        return round((self.base.timestamp() + self.elapsed()) * 1_000_000)

    def monotonic_us(self) -> int:
        return round((self._uptime + self.elapsed()) * 1_000_000)

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.realtime_us() / 1_000_000, UTC)

    def booted(self) -> None:
        """The machine starts anew: monotonic time counts from here."""
        self._uptime = -self.elapsed()


def stamp(microseconds: int) -> str:
    """A timestamp as `systemctl show` prints it; empty for a time that never was."""
    if not microseconds:
        return ""
    return datetime.fromtimestamp(microseconds // 1_000_000, UTC).strftime("%a %Y-%m-%d %H:%M:%S UTC")
