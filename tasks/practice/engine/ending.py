"""How a serving engine ends: by draining, by interruption, and with what it leaves behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .acts import Say
from .failures import killed_tree
from .lines import stamped

if TYPE_CHECKING:
    from .engine import Engine

_NOT_DESTROYED = (
    "[rank0]:[W ProcessGroupNCCL.cpp:1575] Warning: WARNING: destroy_process_group() was not called before program"
    " exit, which can leak resources. (function operator())"
)
"""torch's last words at every clean stop."""


async def drain(engine: Engine) -> int:
    """SIGTERM: wait for the requests under way, then kill the whole tree, itself included."""
    launch = engine.launch
    await engine.say(Say("SIGTERM received. signum=None frame=None. Draining requests and shutting down..."))
    engine.state = "draining"
    slow = launch.faults.get("slow-stop-leftover")
    clock = asyncio.get_running_loop().time
    until = clock() + (slow.number("seconds", 3.0) if slow else 0.0)
    while True:
        await asyncio.sleep(launch.settings.drain_poll_seconds)
        names = sorted(engine.requests)
        await engine.say(
            Say(
                f"Gracefully exiting... Remaining number of requests {len(names)}."
                f" Remaining requests remaining_rids={names}."
            )
        )
        if not names and clock() >= until:
            break
    await asyncio.sleep(launch.settings.exit_seconds)
    await engine.say(Say(_NOT_DESTROYED, 0, stamped=False))
    leave_behind(engine, _old_lines(engine))
    return await engine.perform_all(killed_tree(launch, engine.world.pid))


async def interrupt(engine: Engine) -> int:
    """SIGINT: uvicorn's own way out, exit status 0."""
    pid = engine.world.pid
    await engine.say(Say("INFO:     Shutting down"))
    engine.world.close()
    await asyncio.sleep(engine.launch.settings.exit_seconds)
    for text in (
        "Waiting for application shutdown.",
        "Application shutdown complete.",
        f"Finished server process [{pid}]",
    ):
        await engine.say(Say(f"INFO:     {text}"))
    if engine.launch.version >= (0, 5, 14):
        await engine.say(Say(f"kill_process_tree called: parent_pid={pid}, include_parent=False, pid={pid}"))
    return 0


def leave_behind(engine: Engine, texts: Iterator[str]) -> None:
    """What the faults say outlives the engine: a holder of its port, a process that goes on printing the texts."""
    faults, title = engine.launch.faults, next(iter(engine.launch.titles), engine.launch.engine)
    if fault := faults.get("slow-stop-leftover"):
        engine.world.leave_behind(title, iter(()), 0.2, fault.number("leftover_seconds", 30.0), keep_port=True)
    if fault := faults.get("old-process-keeps-logging"):
        interval, seconds = fault.number("interval", 0.2), fault.number("seconds", 3.0)
        engine.world.leave_behind(title, texts, interval, seconds, keep_port=False)


def _old_lines(engine: Engine) -> Iterator[str]:
    """What a scheduler that outlived its main process goes on to print."""
    batch, world = engine.batch, engine.world
    batch.submit(engine.new_job(["old"], ["."] * 100_000, "length"))
    batch.prefill(world.now())
    while True:
        for text in batch.forward(world.now()):
            yield stamped(text, world.now(), engine.launch.ranks[0])
