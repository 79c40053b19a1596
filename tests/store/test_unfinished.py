"""The streams that are named as unfinished, against the fold that decides it: none is left out."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from state.events import decode
from state.rollout import fold
from state.store.connect import open_stores
from state.store.memory import MemoryEventStore
from state.store.port import NewEvent

HISTORIES = sorted((Path(__file__).parents[1] / "histories").glob("*.jsonl"))


def recorded(path: Path) -> list[NewEvent]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return [NewEvent(e["type"], e["schema_version"], e["data"]) for e in lines if "type" in e]


@pytest.mark.parametrize("path", HISTORIES, ids=[path.stem for path in HISTORIES])
async def test_every_beginning_of_a_history_is_unfinished_until_its_end(
    path: Path, store_url: str, now: Callable[[], datetime]
) -> None:
    events, memory = recorded(path), MemoryEventStore(now)
    async with open_stores(store_url, now) as stores:
        for length in range(1, len(events) + 1):
            for store in (memory, stores.events):
                await store.append(f"rollout-{length:03}", 0, events[:length])
        named = await stores.events.unfinished()
    ended = {name for name in await memory.streams() if fold(map(decode, await memory.read(name))).ended}
    assert named == await memory.unfinished()
    assert set(await memory.streams()) - set(named) == ended
    assert ended
