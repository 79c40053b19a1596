"""Two orchestrators, each a process, started on one service at the same instant: 200 times in `make moments`."""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from flows.ports import utc_now
from state.store.connect import open_stores
from state.store.verification import verify_history
from tests.flows.rehearsal import EVERY

ROOT = Path(__file__).parents[2]
TIMES = 200 if EVERY else 12
LIMIT_S = 60.0
NAMES = ("ada", "grace")


@asynccontextmanager
async def orchestrator(url: str, name: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.flows.one_of_two", url, name, cwd=ROOT,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        assert await answer(process) == "ready"
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert await asyncio.wait_for(process.wait(), LIMIT_S) == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def answer(process: asyncio.subprocess.Process) -> Any:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
    assert line, f"it ended with {await process.wait()}"
    return json.loads(line)


async def told_to(word: str, *processes: asyncio.subprocess.Process) -> list[Any]:
    """What each answers; all are told before any answer is read."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(f"{word}\n".encode())
    return list(await asyncio.gather(*map(answer, processes)))


async def test_of_two_started_at_once_one_proceeds_and_the_other_names_it(
    store_url: str, record_property: Callable[[str, object], None]
) -> None:
    won = dict.fromkeys(NAMES, 0)
    async with AsyncExitStack() as stack:
        both = [await stack.enter_async_context(orchestrator(store_url, name)) for name in NAMES]
        for _ in range(TIMES):
            ends = await told_to("go", *both)
            (winner,) = [number for number, end in enumerate(ends) if end[0] == "proceeds"]
            name, (outcome, sentence) = NAMES[winner], ends[1 - winner]
            held = rf"is held by {name} until \S+ \(rollout {ends[winner][1]}: by {name}\)"
            assert (outcome, bool(re.search(held, sentence))) == ("refused", True), sentence
            assert await told_to("release", both[winner]) == [["cancelled"]]
            won[name] += 1
    assert sum(won.values()) == TIMES
    async with open_stores(store_url, utc_now) as stores:
        assert (await verify_history(stores.events)).faults == ()
        assert len(await stores.events.streams("rollout-")) == 2 * TIMES
    record_property("won", won)
