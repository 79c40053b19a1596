"""The threads that work on an SQLite file: each answers who asks, whatever becomes of them, and ends when told."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

from state.store.connect import open_stores
from state.store.port import NewEvent
from state.store.sqlite_thread import SqliteThread


def writer_of(path: Path) -> SqliteThread:
    return SqliteThread("interlock-writer", lambda: sqlite3.connect(path, isolation_level=None))


def descriptors() -> int:
    return len(list(Path("/dev/fd").iterdir()))


def threads() -> int:
    return sum(thread.name.startswith("interlock-") for thread in threading.enumerate())


async def test_work_is_done_in_order_and_its_errors_are_raised_to_who_asked(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "a.db")
    await writer.run(lambda connection: connection.execute("CREATE TABLE a (n INTEGER UNIQUE)").close())

    def put(number: int) -> Callable[[sqlite3.Connection], int]:
        return lambda connection: connection.execute("INSERT INTO a VALUES (?)", (number,)).rowcount

    ends = await asyncio.gather(*(writer.run(put(n)) for n in (1, 2, 2, 3)), return_exceptions=True)
    assert [type(end) for end in ends] == [int, int, sqlite3.IntegrityError, int]
    assert await writer.run(lambda c: c.execute("SELECT group_concat(n) FROM a").fetchone()) == ("1,2,3",)
    writer.close()


async def test_it_ends_when_it_is_closed_and_begins_anew_when_it_is_asked(tmp_path: Path) -> None:
    writer, before = writer_of(tmp_path / "a.db"), threads()
    writer.close()
    assert await writer.run(lambda connection: 1) == 1
    assert threads() == before + 1
    writer.close()
    assert threads() == before
    assert await writer.run(lambda connection: 2) == 2
    writer.close()


async def test_who_is_cancelled_holds_nobody_up_and_the_work_is_done(tmp_path: Path) -> None:
    writer, go = writer_of(tmp_path / "a.db"), threading.Event()
    waiting = asyncio.create_task(writer.run(lambda connection: go.wait(10)))
    later = asyncio.create_task(writer.run(lambda connection: "later"))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait({waiting})
    assert waiting.cancelled()
    go.set()
    assert await later == "later"
    writer.close()


def test_who_went_away_with_its_loop_is_not_told(tmp_path: Path) -> None:
    writer, go, done = writer_of(tmp_path / "a.db"), threading.Event(), threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(writer.run(lambda connection: (go.wait(10), done.set())))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    go.set()
    assert done.wait(10)
    assert asyncio.run(writer.run(lambda connection: "next")) == "next"
    writer.close()


async def test_a_file_that_cannot_be_opened_is_unavailable_and_one_that_can_again_is_used(tmp_path: Path) -> None:
    writer = writer_of(tmp_path / "none" / "a.db")
    with pytest.raises(sqlite3.OperationalError, match="unable to open"):
        await writer.run(lambda connection: None)
    (tmp_path / "none").mkdir()
    assert await writer.run(lambda connection: "open") == "open"
    writer.close()


async def test_a_store_that_is_closed_has_no_thread(sqlite_url: str, now: Callable[[], datetime]) -> None:
    before = threads()
    async with open_stores(sqlite_url, now) as stores:
        await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})])
        assert threads() == before + 1
    assert threads() == before


async def test_an_append_that_fails_in_the_thread_is_made_the_long_way_once(
    sqlite_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(sqlite_url, now) as stores:
        writer = stores.engine.sync_engine.get_execution_options()["writer"]
        pages = await writer.run(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        await writer.run(lambda c: c.execute(f"PRAGMA max_page_count={pages}").close())
        for version in range(20):
            await stores.events.append("rollout-1", version, [NewEvent("made", 1, {"text": "x" * 5000})])
        with pytest.raises(sqlite3.OperationalError, match="full"):
            await writer.run(lambda c: c.execute("CREATE TABLE more (n)").close())
        assert len(await stores.events.read("rollout-1")) == 20


async def test_more_work_than_wake_ups_can_be_told_is_done_in_order(tmp_path: Path) -> None:
    writer, go, done = writer_of(tmp_path / "a.db"), threading.Event(), list[int]()
    first = writer.begin(lambda connection: go.wait(10))
    waiting = [writer.begin(lambda connection, n=n: done.append(n)) for n in range(70_000)]  # a pipe holds 65,536 bytes
    go.set()
    await first
    await waiting[-1]
    assert done == list(range(70_000))
    writer.close()


async def test_a_thread_that_has_ended_leaves_no_descriptor(tmp_path: Path) -> None:
    writer, before = writer_of(tmp_path / "a.db"), descriptors()
    for _ in range(3):
        assert await writer.run(lambda connection: 1) == 1
        writer.close()
    assert descriptors() == before
