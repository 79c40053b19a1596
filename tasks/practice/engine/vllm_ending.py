"""How a serving vLLM ends: at once, with requests under way cut off, and exit status 0."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .acts import Say
from .ending import leave_behind
from .vllm_lines import stamped
from .vllm_windows import Windows

if TYPE_CHECKING:
    from .engine import Engine


async def shut_down(engine: Engine) -> int:
    """SIGTERM and SIGINT: the default of --shutdown-timeout is 0, so nothing is waited for."""
    engine.state = "draining"
    await engine.say(Say("[core.py:1201] Shutdown initiated (timeout=0)", 0))
    await engine.say(Say("INFO:     Shutting down"))
    engine.world.close()
    slow = engine.launch.faults.get("slow-stop-leftover")
    await asyncio.sleep(engine.launch.settings.exit_seconds + (slow.number("seconds", 3.0) if slow else 0.0))
    await engine.say(Say("[core.py:1224] Shutdown complete", 0))
    for text in ("Waiting for application shutdown.", "Application shutdown complete."):
        await engine.say(Say(f"INFO:     {text}"))
    await engine.say(Say(f"INFO:     Finished server process [{engine.world.pid}]"))
    leave_behind(engine, _old_records(engine))
    return 0


def _old_records(engine: Engine) -> Iterator[str]:
    """What a core that outlived its server goes on to print."""
    batch, windows = engine.batch, Windows(engine)
    batch.submit(engine.new_job(["old"], ["."] * 100_000, "length"))
    batch.prefill(engine.world.now())
    while True:
        for _ in range(20):
            batch.forward(engine.world.now())
        for text in windows.close():
            yield stamped(engine, Say(text))
