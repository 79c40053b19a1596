"""A process of its own on a busy store: `busy_process.py KIND NAME SECONDS URL`. Prints JSON of what it was told."""

import asyncio
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from state.errors import VersionConflict
from state.store.connect import Stores, open_stores
from state.store.port import NewEvent
from state.store.projections import catch_up
from state.store.read_models import PROJECTIONS

Going = Callable[[], bool]


async def write(stores: Stores, name: str, going: Going) -> list[str]:
    """Three at once: to a stream of this process, one event or three; to one that all share; evidence."""
    told: list[str] = []
    await asyncio.gather(
        _own(stores, name, going, told), _shared(stores, name, going, told), _kept(stores, name, going)
    )
    return told


async def _own(stores: Stores, name: str, going: Going, told: list[str]) -> None:
    version = 0
    while going():
        ids = [f"{name}:{version + n}" for n in range(3 if version % 2 else 1)]
        await stores.events.append(f"own-{name}", version, [NewEvent("made", 1, {"id": one}) for one in ids])
        version += len(ids)
        told += ids


async def _shared(stores: Stores, name: str, going: Going, told: list[str]) -> None:
    number = 0
    while going():
        one = f"{name}:shared:{number}"
        last = await stores.events.read_last("shared", 1)
        try:
            await stores.events.append("shared", last[0].version if last else 0, [NewEvent("made", 1, {"id": one})])
        except VersionConflict:
            continue
        told.append(one)
        number += 1


async def _kept(stores: Stores, name: str, going: Going) -> None:
    number = 0
    while going():
        await stores.evidence.put(f"{name} {number}".encode() * 100, "text/plain")
        number += 1


async def follow(stores: Stores, _name: str, going: Going) -> list[int]:
    """The positions that a reader sees who goes on from the last one it saw."""
    seen, last = [0], False
    while not last:
        last = not going()
        while found := await stores.events.read_all(seen[-1], limit=50):
            seen += [event.position for event in found]
    return seen[1:]


async def show(stores: Stores, _name: str, going: Going) -> int:
    """How often the tables for showing were brought up to date."""
    times = 0
    while going():
        await catch_up(stores.engine, PROJECTIONS)
        times += 1
    return times


KINDS: dict[str, Callable[[Stores, str, Going], Any]] = {"write": write, "follow": follow, "show": show}


async def main(kind: str, name: str, seconds: float, url: str) -> None:
    async with open_stores(url, lambda: datetime.now(UTC)) as stores:
        end = time.monotonic() + seconds
        print(json.dumps(await KINDS[kind](stores, name, lambda: time.monotonic() < end)))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), sys.argv[4]))
