"""Awaiting readiness: the journal of this start tells the stages, and a generation that comes back is the proof."""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from state.engines.engine import Engine
from state.errors import DeadlineExceeded, EngineFailed, StepFailed
from state.inspection.engines import remedy
from state.inspection.log import LogReader
from state.inspection.report import Boot
from state.target import Target
from tasks import argv
from tasks.endpoint import Answer, Clock, Endpoint
from tasks.hosts.port import Host
from tasks.observe import observe_unit
from tasks.sequence import READ_TIMEOUT_S
from tasks.verification import Started

POLL_S, SHORTEST_POLL_S, POLL_SHARE = 0.1, 0.03, 0.01
"""How often a closed port is tried again: after a hundredth of the time that the start has taken, within these bounds.
A port has no event to await; a refused connection costs a millisecond, and sshd a line of its log."""

GENERATION_TIMEOUT_S = 30.0
"""How long a first generation may take once the engine says that it is ready."""

WATCH_S = 2.0
CAUSE_S = 0.5
WORD_S = 5.0

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


async def await_readiness(
    host: Host,
    engine: Engine,
    target: Target,
    started: Started,
    *,
    timeout_s: float,
    progress: Progress,
    clock: Clock = time.monotonic,
    generation_timeout_s: float = GENERATION_TIMEOUT_S,
) -> Boarding:
    """Returns once a generation came back. Raises EngineFailed with cause and remedy as soon as the engine's own lines,
    its exit or a restart show that it will not come up, StepFailed when it answers HTTP but does not generate, and
    DeadlineExceeded after `timeout_s` seconds with the last stage that was proved."""
    boarding = Boarding(clock())
    try:
        async with asyncio.timeout(timeout_s):
            await _first_of(
                _follow(host, target, started, boarding, progress, clock),
                _fail(target, boarding, started),
                _watch(host, target, started),
                _generate(host, engine, target, started, boarding, progress, clock, generation_timeout_s),
            )
    except TimeoutError:
        last = next(reversed(boarding.stages), "none")
        raise DeadlineExceeded(
            f"The start of {target.unit} (last stage: {last})",
            timeout_s,
            hint="raise `readiness.timeout` if it was still loading",
        ) from None
    return boarding


async def _first_of(*works: Coroutine[Any, Any, None]) -> None:
    """Run all at once; the first that ends, ends the others. Its error is raised."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)
    next(work for work in running if work in done).result()


async def _follow(
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


async def _look_up(
    host: Host, target: Target, started: Started, boarding: Boarding, progress: Progress, clock: Clock
) -> None:
    """Read what the journal has by now: journald wakes its followers up to 250 ms after a record is there (systemd 252,
    POST_CHANGE_TIMER_INTERVAL_USEC), but whoever reads the file sees it at once. Without a cursor there is no telling
    which record is which."""
    if not started.cursor:
        return
    (read,) = await host.run_all([argv.journal(target.unit, after=started.cursor)], timeout_s=READ_TIMEOUT_S)
    for place, line in enumerate(line for line in read.stdout.splitlines() if _own(line, started)):
        boarding.hear(place, line, started, clock(), progress)


def _own(line: bytes, started: Started) -> bool:
    """Whether a record is of this start: not of older processes, whatever invocation journald stamps on them."""
    try:
        record = json.loads(line)
    except ValueError:
        return False
    if not isinstance(record, dict) or record.get("_PID") in {str(pid) for pid in started.old_pids}:
        return False
    return record.get("_SYSTEMD_INVOCATION_ID", record.get("INVOCATION_ID")) in (started.invocation, None)


async def _fail(target: Target, boarding: Boarding, started: Started) -> None:
    """Raise the cause, a moment after the first fatal line: the line that names the cause may follow the first one."""
    await boarding.failed.wait()
    await asyncio.sleep(CAUSE_S)
    boot = boarding.boot(started)
    cause = boot.failures[0] if boot and boot.failures else None
    code, text = (cause.code, cause.text) if cause else ("exited", "the engine ended without saying why")
    raise EngineFailed(code, text, remedy(target.engine, code), stage=boot.stage if boot else None)


async def _watch(host: Host, target: Target, started: Started) -> None:
    """systemd's own word, in case the journal is slow or silent: another invocation, a restart, or an end."""
    while True:
        await asyncio.sleep(WATCH_S)
        if lost := await _lost(host, target, started):
            await asyncio.sleep(WATCH_S)  # the journal usually names the cause within that time, and ends this watch
            raise lost


async def _lost(host: Host, target: Target, started: Started) -> EngineFailed | None:
    unit = await observe_unit(host, target.unit)
    if unit.active_state in ("active", "activating") and unit.invocation == started.invocation:
        return None
    text = f"{target.unit} is {unit.active_state} ({unit.result}) after {unit.restarts} restarts"
    return EngineFailed("exited", text, remedy(target.engine, "exited"))


async def soak(host: Host, engine: Engine, target: Target, started: Started, *, soak_s: float) -> None:
    """Watch the same start for `soak_s` seconds of ordinary use, and see it generate once more.

    Raises EngineFailed when it ends or restarts, StepFailed when it does not generate any more.
    """
    try:
        async with asyncio.timeout(soak_s):
            await _watch(host, target, started)
    except TimeoutError:
        pass
    if lost := await _lost(host, target, started):
        raise lost
    async with Endpoint(host, target.endpoint) as endpoint:
        answer = await endpoint.ask(engine.generation(PROMPT, 8, exact=False), timeout_s=GENERATION_TIMEOUT_S)
    if not answer.ok or engine.reply(answer.body) is None:
        why = answer.error or f"HTTP {answer.status}"
        raise StepFailed("soak", f"{target.endpoint} does not generate any more after {soak_s:g} s: {why}")


PROMPT = "The quick brown fox"


async def _generate(
    host: Host,
    engine: Engine,
    target: Target,
    started: Started,
    boarding: Boarding,
    progress: Progress,
    clock: Clock,
    generation_timeout_s: float,
) -> None:
    """Try a short generation until one comes back; a server that is ready but does not generate in time has failed."""
    question = engine.generation(PROMPT, 8, exact=False)
    async with Endpoint(host, target.endpoint, clock) as endpoint:
        while True:
            knew = boarding.said_ready.is_set()
            asked = asyncio.create_task(endpoint.ask(question, timeout_s=3600.0))
            try:
                answer = await _within(asked, boarding, generation_timeout_s)
            finally:
                asked.cancel()
            if answer is None:
                raise StepFailed(
                    "await-readiness",
                    f"{target.endpoint} answers, but no generation came back within {generation_timeout_s:g} s",
                    hint="the scheduler hangs: look for a watchdog line or an Xid, "
                    "and restart with the last good revision",
                )
            reply = engine.reply(answer.body) if answer.ok else None
            if reply is None:
                await asyncio.sleep(boarding.pause_s(clock()))
            elif knew or not await _says(boarding, lambda: _look_up(host, target, started, boarding, progress, clock)):
                boarding.reach("generating", clock(), progress)
                return


async def _says(boarding: Boarding, look_up: Callable[[], Coroutine[Any, Any, None]]) -> bool:
    """After a generation that came before the engine's own word: wait for the word. False if it does not come (a log at
    level warning has no such line) and the generation counts; True if it came: another one has to come after it."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(WORD_S):
            while not boarding.said_ready.is_set():
                begun = loop.time()
                await look_up()
                await _set_within(boarding.said_ready, max(SHORTEST_POLL_S, loop.time() - begun))
    except TimeoutError:
        return False
    return True


async def _set_within(event: asyncio.Event, seconds: float) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def _within(asked: asyncio.Task[Answer], boarding: Boarding, seconds: float) -> Answer | None:
    """The answer; None if it did not come within `seconds` after the engine said that it was ready."""
    ready = asyncio.create_task(boarding.said_ready.wait())
    try:
        await asyncio.wait({asked, ready}, return_when=asyncio.FIRST_COMPLETED)
        done, _ = await asyncio.wait({asked}, timeout=seconds)
        return asked.result() if done else None
    finally:
        ready.cancel()
