"""Awaiting readiness: the journal of this start tells the stages, and a generation that comes back is the proof."""

import asyncio
import functools
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

from state.engines.engine import Engine
from state.errors import DeadlineExceeded, EngineFailed, StepFailed
from state.inspection.engines import remedy
from state.target import Target
from tasks.boarding import SHORTEST_POLL_S, Boarding, Progress, follow, look_up, untold
from tasks.endpoint import Answer, Clock, Endpoint
from tasks.hosts.port import Host
from tasks.observe import observe_unit
from tasks.traffic import short_generation
from tasks.verification import Started

GENERATION_TIMEOUT_S = 30.0
"""How long a first generation may take once the engine says that it is ready."""

LookUp = Callable[[], Awaitable[None]]

WATCH_S = 2.0
CAUSE_S = 0.5
WORD_S = 5.0


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
    its exit or a restart show that it will not come up, StepFailed when it answers HTTP but does not generate, or asks
    for another key than the one at hand, and DeadlineExceeded after `timeout_s` seconds with the last stage proved."""
    boarding = Boarding(clock())
    try:
        async with asyncio.timeout(timeout_s):
            await _first_of(
                follow(host, target, started, boarding, progress, clock),
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
    async with Endpoint.of(host, target) as endpoint:
        answer = await endpoint.ask(short_generation(engine), timeout_s=GENERATION_TIMEOUT_S)
    _refuse_locked_out("soak", endpoint, answer)
    if not _generates(engine, answer):
        why = answer.error or f"HTTP {answer.status}"
        raise StepFailed("soak", f"{target.endpoint} does not generate any more after {soak_s:g} s: {why}")


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
    question = short_generation(engine)
    async with Endpoint.of(host, target, clock) as endpoint:
        while True:
            knew = boarding.said_ready.is_set()
            asked = asyncio.create_task(endpoint.ask(question, timeout_s=3600.0))
            try:
                answer = await _within(asked, boarding, generation_timeout_s)
            finally:
                asked.cancel()
            if answer is None:
                raise _hung("await-readiness", target, generation_timeout_s)
            _refuse_locked_out("await-readiness", endpoint, answer)
            if not _generates(engine, answer):
                await asyncio.sleep(boarding.pause_s(clock()))
            elif started.cursor or knew or not await _says(boarding):
                boarding.reach("generating", clock(), progress)
                return


async def ready_for_traffic(
    host: Host,
    engine: Engine,
    target: Target,
    started: Started,
    *,
    clock: Clock = time.monotonic,
    generation_timeout_s: float = GENERATION_TIMEOUT_S,
) -> None:
    """Wait for the engine's own word that it is ready, and for a generation after it: the first one may have come back
    before, and nothing of the engine's warm-up is to be taken for ours.

    WORD_S at most for the word: a log at level warning has no such line. Raises EngineFailed with the cause of whatever
    ends the start until then, StepFailed where it generates no more. Nothing is waited for without a cursor, which
    tells where this start begins in the journal: `await_readiness` does there.
    """
    if not started.cursor:
        return
    boarding = Boarding(clock())
    looked_up = functools.partial(look_up, host, target, started, boarding, clock)
    await looked_up()
    await _first_of(
        follow(host, target, started, boarding, untold, clock),
        _fail(target, boarding, started),
        _watch(host, target, started),
        _again(host, engine, target, boarding, looked_up, generation_timeout_s),
    )


async def _again(
    host: Host, engine: Engine, target: Target, boarding: Boarding, looked_up: LookUp, timeout_s: float
) -> None:
    """Generate once more after the engine's word; not at all without that word. What has ended is told by `_fail`."""
    if not await _says(boarding, looked_up):
        return
    question = short_generation(engine)
    try:
        async with Endpoint.of(host, target) as endpoint, asyncio.timeout(timeout_s):
            while True:
                answer = await endpoint.ask(question, timeout_s=3600)
                _refuse_locked_out("verify", endpoint, answer)
                if _generates(engine, answer) and not boarding.failed.is_set():
                    return
                await asyncio.sleep(SHORTEST_POLL_S)
    except TimeoutError:
        raise _hung("verify", target, timeout_s) from None


def _generates(engine: Engine, answer: Answer) -> bool:
    return answer.ok and engine.reply(answer.body) is not None


def _refuse_locked_out(action: str, endpoint: Endpoint, answer: Answer) -> None:
    """Whoever asks for another key than the one at hand will do so for ever: nothing is waited for."""
    if lacking := endpoint.lacking_key(answer.status):
        raise StepFailed(action, lacking.sentence, hint=lacking.hint)


def _hung(action: str, target: Target, seconds: float) -> StepFailed:
    return StepFailed(
        action,
        f"{target.endpoint} answers, but no generation came back within {seconds:g} s",
        hint="the scheduler hangs: look for a watchdog line or an Xid, and restart with the last good revision",
    )


async def _says(boarding: Boarding, looked_up: LookUp | None = None) -> bool:
    """Whether the engine says that it is ready, within WORD_S: a log at level warning has no such line."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(WORD_S):
            while not boarding.said_ready.is_set():
                begun = loop.time()
                if looked_up is not None:
                    await looked_up()
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
