"""One run of one way to store events, in a process of its own: prints its seconds as JSON.

python -m benchmarks.store_contenders WAY URL COUNT

`append-…` stores COUNT events, one a commit; `refold-…` stores them in streams of `PER_STREAM` and reads the whole
stream after each, checks every digest and folds what it has not folded before, `refold-cold-…` all of it; `read-…`
reads one stream of COUNT events with its digests `READS` times, of which nothing is remembered in between.
"""

import asyncio
import gc
import json
import sqlite3
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from state.event import Event
from state.events import ActionStarted, StepSucceeded, decode, encode
from state.folds import Folds
from state.rollout import fold
from state.store.connect import open_stores
from state.store.sqlite_thread import SqliteThread

PER_STREAM = 40
READS = 20
DATA = '{"action":"do:3:install-files","attempt":1}'
FIXED = (1, DATA, "{}", "2026-01-01T12:00:00.000000+00:00", "f" * 64)
COLUMNS = "stream, version, type, schema_version, data, metadata, recorded_at, digest"
PLAIN = """CREATE TABLE IF NOT EXISTS plain (position INTEGER PRIMARY KEY, stream TEXT, version INTEGER, type TEXT,
    schema_version INTEGER, data TEXT, metadata TEXT, recorded_at TEXT, digest TEXT, UNIQUE (stream, version))"""
INSERT = f"INSERT INTO plain ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
DURABLE = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")


class Timed:
    """Wall and processor seconds of a block."""

    def __enter__(self) -> "Timed":
        self.wall, self.cpu = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter()
        self.cpu += time.process_time()


def event(number: int) -> Event:
    key = f"do:{number // 2}:install-files"
    if number % 2 == 0:
        return ActionStarted(action=key, attempt=1)
    return StepSucceeded(action=key, attempt=1, step=number // 2, direction="do", facts={"unit": "sglang.service"})


async def append_sqlite3(url: str, count: int) -> Timed:
    """The driver alone, in the thread that waits."""
    connection, stream = sqlite3.connect(_path(url), isolation_level=None), uuid4().hex
    for statement in (*DURABLE, PLAIN):
        connection.execute(statement)
    with Timed() as timed:
        for version in range(count):
            connection.execute(INSERT, (stream, version, "made", *FIXED))
    connection.close()
    return timed


async def append_sqlite3_off_the_loop(url: str, count: int) -> Timed:
    """The driver alone, in a thread that the event loop waits for: what no store can do without whose disk may hang."""

    def opened() -> sqlite3.Connection:
        connection = sqlite3.connect(_path(url), isolation_level=None)
        for statement in (*DURABLE, PLAIN):
            connection.execute(statement)
        return connection

    def put(version: int) -> Callable[[sqlite3.Connection], object]:
        row = (stream, version, "made", *FIXED)
        return lambda connection: connection.execute(INSERT, row)

    thread, stream = SqliteThread("plain", opened), uuid4().hex
    await thread.run(lambda connection: None)
    with Timed() as timed:
        for version in range(count):
            await thread.run(put(version))
    thread.close()
    return timed


async def append_aiosqlite(url: str, count: int) -> Timed:
    """The driver for asyncio alone, as its documentation has it."""
    import aiosqlite

    stream = uuid4().hex
    async with aiosqlite.connect(_path(url)) as connection:
        for statement in (*DURABLE, PLAIN):
            await connection.execute(statement)
        with Timed() as timed:
            for version in range(count):
                await connection.execute(INSERT, (stream, version, "made", *FIXED))
                await connection.commit()
    return timed


async def append_asyncpg(url: str, count: int) -> Timed:
    import asyncpg  # type: ignore[import-untyped]  # it ships no types

    connection, stream = await asyncpg.connect(url), uuid4().hex
    await connection.execute(PLAIN.replace("position INTEGER", "position BIGSERIAL"))
    with Timed() as timed:
        for version in range(count):
            await connection.execute(
                f"INSERT INTO plain ({COLUMNS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
                stream,
                version,
                "made",
                *FIXED,
            )
    await connection.close()
    return timed


async def append_interlock(url: str, count: int) -> Timed:
    async with open_stores(url, _now) as stores:
        stream = f"rollout-{uuid4().hex}"
        with Timed() as timed:
            for version in range(count):
                await stores.events.append(stream, version, [encode(event(version))])
    return timed


async def refold_interlock(url: str, count: int, *, cold: bool = False) -> Timed:
    """As `flows.history` loads a rollout; `cold`, as the first time in a process."""
    folds = Folds()
    async with open_stores(url, _now) as stores:
        await stores.events.read("nobody")
        with Timed() as timed:
            for _ in range(count // PER_STREAM):
                stream = f"rollout-{uuid4().hex}"
                for version in range(PER_STREAM):
                    await stores.events.append(stream, version, [encode(event(version))])
                    rollout = (Folds() if cold else folds).of(await stores.events.read(stream))
                assert len(rollout.done) == PER_STREAM // 2
    return timed


async def refold_cold_interlock(url: str, count: int) -> Timed:
    return await refold_interlock(url, count, cold=True)


async def read_interlock(url: str, count: int, *, folding: bool = False) -> Timed:
    async with open_stores(url, _now) as stores:
        stream = f"rollout-{uuid4().hex}"
        await stores.events.append(stream, 0, [encode(event(number)) for number in range(count)])
        with Timed() as timed:
            for _ in range(READS):
                recorded = await stores.events.read(stream)
                assert not folding or len(fold(map(decode, recorded)).done) == count // 2
    return timed


async def read_and_fold_interlock(url: str, count: int) -> Timed:
    return await read_interlock(url, count, folding=True)


def _now() -> datetime:
    return datetime.now(UTC)


def _path(url: str) -> str:
    return url.removeprefix("sqlite:///")


WAYS: dict[str, Callable[[str, int], Awaitable[Timed]]] = {
    "append-sqlite3": append_sqlite3,
    "append-sqlite3-off-the-loop": append_sqlite3_off_the_loop,
    "append-aiosqlite": append_aiosqlite,
    "append-asyncpg": append_asyncpg,
    "append-interlock": append_interlock,
    "refold-interlock": refold_interlock,
    "refold-cold-interlock": refold_cold_interlock,
    "read-interlock": read_interlock,
    "read-and-fold-interlock": read_and_fold_interlock,
}


async def _told(way: str, url: str, count: int) -> dict[str, Any]:
    gc.freeze()  # the modules are no garbage: so begins every command of interlock, and each peer here
    timed = await WAYS[way](url, count)
    return {"wall": timed.wall, "cpu": timed.cpu}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_told(sys.argv[1], sys.argv[2], int(sys.argv[3])))))
