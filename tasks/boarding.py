"""What is seen of a start as it boards: its journal as it grows, the stages that it tells, whether it failed."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field

from state.inspection.log import LogReader
from state.inspection.report import Boot
from state.target import Target
from tasks import argv
from tasks.endpoint import Clock
from tasks.hosts.port import Host
from tasks.sequence import READ_TIMEOUT_S
from tasks.verification import Started

POLL_S, SHORTEST_POLL_S, POLL_SHARE = 0.1, 0.03, 0.01
"""How often a closed port is tried again: after a hundredth of the time that the start has taken, within these bounds.
A port has no event to await; a refused connection costs a millisecond, and sshd a line of its log."""

Progress = Callable[[str, float], None]
"""Told of each stage with the seconds since the start."""


@dataclass
class Boarding:
    """What has been seen of the start so far."""

    begun: float
    reader: LogReader = field(default_factory=LogReader)
    lines: list[bytes] = field(default_factory=list)
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    stages: dict[str, float] = field(default_factory=dict)
    said_ready: asyncio.Event = field(default_factory=asyncio.Event)

    def boot(self, started: Started) -> Boot | None:
        boots = self.reader.report().boots
        return next((b for b in reversed(boots) if started.main_pid in b.pids), boots[-1] if boots else None)

    def hear(self, place: int, line: bytes, started: Started, now: float, progress: Progress) -> None:
        """Take in record number `place` of this start, which comes twice: as it is followed, and as it is looked up."""
        if place < len(self.lines):
            return
        self.lines.append(line)
        self.reader.feed_line(line)
        boot = self.boot(started)
        if boot is not None and boot.stage:
            self.reach(boot.stage, now, progress)
        if boot is not None and boot.outcome == "failed":
            self.failed.set()
        if boot is not None and boot.outcome == "ready":
            self.said_ready.set()

    def pause_s(self, now: float) -> float:
        """Seconds until a closed port is tried again."""
        return min(POLL_S, max(SHORTEST_POLL_S, POLL_SHARE * (now - self.begun)))

    def reach(self, stage: str, now: float, progress: Progress) -> None:
        if stage not in self.stages:
            self.stages[stage] = round(now - self.begun, 3)
            progress(stage, self.stages[stage])


async def follow(
    host: Host, target: Target, started: Started, boarding: Boarding, progress: Progress, clock: Clock
) -> None:
    """Read this start's journal as it grows. Never returns by itself; the end of the stream is no end of the start."""
    async with host.follow(argv.journal(target.unit, after=started.cursor, follow=True)) as lines:
        place = 0
        async for line in lines:
            if _own(line, started):
                boarding.hear(place, line, started, clock(), progress)
                place += 1
    await asyncio.Event().wait()


async def look_up(host: Host, target: Target, started: Started, boarding: Boarding, clock: Clock) -> None:
    """Read what the journal has by now: journald wakes its followers up to 250 ms after a record is there (systemd 252,
    POST_CHANGE_TIMER_INTERVAL_USEC), but whoever reads the file sees it at once."""
    (read,) = await host.run_all([argv.journal(target.unit, after=started.cursor)], timeout_s=READ_TIMEOUT_S)
    for place, line in enumerate(line for line in read.stdout.splitlines() if _own(line, started)):
        boarding.hear(place, line, started, clock(), untold)


def untold(_stage: str, _seconds: float) -> None:
    """For whoever no longer waits for readiness."""


def _own(line: bytes, started: Started) -> bool:
    """Whether a record is of this start: not of older processes, whatever invocation journald stamps on them."""
    try:
        record = json.loads(line)
    except ValueError:
        return False
    if not isinstance(record, dict) or record.get("_PID") in {str(pid) for pid in started.old_pids}:
        return False
    return record.get("_SYSTEMD_INVOCATION_ID", record.get("INVOCATION_ID")) in (started.invocation, None)
