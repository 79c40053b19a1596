"""A store that several processes write to as fast as they can: nobody hears that it is locked, nothing is lost, doubled
or overlooked."""

import asyncio
import json
import os
import sys
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

from state.store.connect import open_stores
from state.store.port import RecordedEvent
from state.store.verification import verify_history

BUSY_S = 20.0 if os.environ.get("INTERLOCK_EVERY_MOMENT") else 3.0
WRITERS = ("a", "b", "c", "d")
ROOT = Path(__file__).parents[2]
PROCESS = Path(__file__).with_name("busy_process.py")


async def busy(url: str, kind: str, name: str = "") -> Any:
    """What the process was told; fails the test if it heard of any error."""
    argv = [sys.executable, "-W", "error", str(PROCESS), kind, name, str(BUSY_S), url]
    process = await asyncio.create_subprocess_exec(
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    out, said = await process.communicate()
    assert (process.returncode, said.decode()) == (0, "")
    return json.loads(out)


async def everything(url: str, now: Callable[[], datetime]) -> list[RecordedEvent]:
    found: list[RecordedEvent] = []
    async with open_stores(url, now) as stores:
        while page := await stores.events.read_all(found[-1].position if found else 0):
            found += page
        assert (await verify_history(stores.events)).faults == ()
    return found


async def test_what_busy_writers_were_told_is_there_once_and_a_reader_sees_all_of_it(
    store_url: str, now: Callable[[], datetime]
) -> None:
    readers = [busy(store_url, "follow"), busy(store_url, "show")]
    seen, times, *told = await asyncio.gather(*readers, *(busy(store_url, "write", name) for name in WRITERS))
    stored = await everything(store_url, now)
    ids = [event.data["id"] for event in stored]
    assert sorted(ids) == sorted(one for ids_of in told for one in ids_of)
    assert len(set(ids)) == len(ids)
    assert seen == [event.position for event in stored][: len(seen)], "a reader overlooked an event"
    assert seen
    assert times > 0
    assert min(map(len, told)) > 0
    assert {event.stream for event in stored} == {"shared", *(f"own-{name}" for name in WRITERS)}
