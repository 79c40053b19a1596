"""vLLM's records by time: each so many seconds what was generated and drafted since the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from . import vllm_lines
from .acts import Say
from .batch import Counts

if TYPE_CHECKING:
    from .engine import Engine


class Windows:
    """What was counted at the end of the last window."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._then, self._last = self._copy(), engine.world.now()

    def close(self) -> Iterator[str]:
        """The records of the window that ends now: none where nothing was generated, the second only with drafts."""
        batch, now, then = self._engine.batch, self._engine.world.now(), self._then
        counts, seconds = self._copy(), max(1e-3, now - self._last)
        self._then, self._last = counts, now
        generated = counts.generated_tokens - then.generated_tokens
        if not generated and not batch.busy:
            return
        yield vllm_lines.statistics(
            prompt=(counts.prompt_tokens - then.prompt_tokens) / seconds,
            generated=generated / seconds,
            running=len(batch.running),
            waiting=len(batch.waiting),
            usage=batch.used_tokens / max(1, self._engine.sizes.tokens),
        )
        drafts, depth = counts.verify_calls - then.verify_calls, batch.acceptance.steps
        if drafts and depth:
            positions = [counts.by_position.get(i, 0) - then.by_position.get(i, 0) for i in range(depth)]
            accepted = counts.accepted - then.accepted
            yield vllm_lines.window(
                drafts=drafts, accepted=accepted, depth=depth, by_position=positions, seconds=seconds
            )

    def _copy(self) -> Counts:
        counts = self._engine.batch.counts
        return replace(counts, by_position=dict(counts.by_position))


def interval_s(engine: Engine) -> float:
    try:
        return float(engine.launch.environment["VLLM_LOG_STATS_INTERVAL"])
    except (KeyError, ValueError):
        return engine.launch.settings.log_stats_seconds


async def watch(engine: Engine) -> None:
    """Print the records for ever; nothing where statistics are off."""
    if engine.launch.asked.get("disable_log_stats"):
        return
    windows = Windows(engine)
    while True:
        await asyncio.sleep(interval_s(engine))
        for text in windows.close():
            await engine.say(Say(text))
