"""Writers that do not know of each other: several processes on one file, several connections to one server."""

import asyncio
import sys
from collections.abc import Callable
from datetime import datetime

import pytest
from sqlalchemy import insert, text
from sqlalchemy.ext.asyncio import AsyncConnection

from state.errors import StoreUnavailable, VersionConflict
from state.store.chain import Sealed, seal
from state.store.connect import open_stores
from state.store.database import Database
from state.store.migrate import check, upgrade
from state.store.port import GENESIS, NewEvent
from state.store.single import insert_single
from state.store.sqlite_thread import SqliteThread
from state.store.tables import events
from state.store.verification import verify_history

# a process of its own: opens the store, and appends to a shared stream (reading again at a conflict) and to its own
WRITER = """
import asyncio, sys
from datetime import UTC, datetime
from state.errors import VersionConflict
from state.store.connect import open_stores
from state.store.database import Database
from state.store.migrate import upgrade
from state.store.port import NewEvent

async def main(url, name, count):
    await upgrade(url)
    async with open_stores(url, lambda: datetime.now(UTC)) as stores:
        for number in range(count):
            await stores.events.append(name, number, [NewEvent("made", 1, {"number": number})])
            await stores.evidence.put(str(number).encode(), "text/plain")
            while True:
                version = len(await stores.events.read("shared"))
                try:
                    await stores.events.append("shared", version, [NewEvent("made", 1, {"by": name, "number": number})])
                    break
                except VersionConflict:
                    continue

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


async def run_writers(url: str, writers: int, count: int) -> None:
    argv = (sys.executable, "-W", "error", "-c", WRITER, url)
    started = [
        await asyncio.create_subprocess_exec(*argv, f"own-{n}", str(count), stderr=asyncio.subprocess.PIPE)
        for n in range(writers)
    ]
    for said in await asyncio.gather(*(process.communicate() for process in started)):
        assert said[1] == b""
    assert [process.returncode for process in started] == [0] * writers


async def test_several_processes_create_and_fill_one_sqlite_file(
    tmp_path_factory: pytest.TempPathFactory, now: Callable[[], datetime]
) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('new') / 'folder' / 'store.db'}"
    await run_writers(url, writers=4, count=15)
    async with open_stores(url, now) as stores:
        found = await verify_history(stores.events)
        shared = await stores.events.read("shared")
    assert (found.streams, found.events, found.faults) == (5, 4 * 15 * 2, ())
    assert sorted((e.data["by"], e.data["number"]) for e in shared) == [
        (f"own-{n}", i) for n in range(4) for i in range(15)
    ]
    assert await check(url) == ()


async def test_an_append_waits_for_a_transaction_of_another_process(
    sqlite_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(sqlite_url, now) as stores, open_stores(sqlite_url, now) as others:
        async with others.engine.execution_options(sqlite_begin="BEGIN IMMEDIATE").begin():
            waiting = asyncio.create_task(stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})]))
            done, _ = await asyncio.wait({waiting}, timeout=0.1)
            assert not done
            assert await stores.events.read("rollout-1") == ()
        assert len(await waiting) == 1


async def test_two_stores_that_race_for_a_version_have_one_winner(store_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(store_url, now) as one, open_stores(store_url, now) as two:
        for version in range(10):
            both = [stores.events.append("rollout-1", version, [NewEvent("made", 1, {})]) for stores in (one, two)]
            outcomes = await asyncio.gather(*both, return_exceptions=True)
            (lost,) = [o for o in outcomes if isinstance(o, BaseException)]
            assert isinstance(lost, VersionConflict)
            assert (lost.expected, lost.actual) == (version, version + 1)
        assert len(await one.events.read("rollout-1")) == 10


async def test_a_reader_that_goes_on_never_skips_an_event_that_commits_late(
    postgres_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(postgres_url, now) as stores:
        await stores.events.append("before", 0, [NewEvent("made", 1, {})])
        async with stores.engine.connect() as slow:
            (late,) = seal("late", 0, GENESIS, [NewEvent("made", 1, {})], now())
            await slow.execute(insert(events), [{name: getattr(late, name) for name in Sealed.__slots__}])
            quick = asyncio.create_task(stores.events.append("quick", 0, [NewEvent("made", 1, {})]))
            done, _ = await asyncio.wait({quick}, timeout=0.2)
            assert not done, "an append overtook one whose position is lower and that is not committed"
            seen = [e.stream for e in await stores.events.read_all()]
            assert seen == ["before"]
            await slow.commit()
        (after,) = await quick
        rest = await stores.events.read_all(1)
    assert [e.stream for e in rest] == ["late", "quick"]
    assert rest[-1].position == after.position > rest[0].position


async def test_an_append_that_is_rolled_back_holds_nobody_up(postgres_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(postgres_url, now) as stores:
        async with stores.engine.connect() as slow:
            (never,) = seal("never", 0, GENESIS, [NewEvent("made", 1, {})], now())
            await slow.execute(insert(events), [{name: getattr(never, name) for name in Sealed.__slots__}])
            await slow.rollback()
        await stores.events.append("quick", 0, [NewEvent("made", 1, {})])
        assert await stores.events.streams() == ("quick",)


async def test_a_cancelled_append_leaves_the_store_usable(store_url: str, now: Callable[[], datetime]) -> None:
    async with open_stores(store_url, now) as stores:
        for turns in range(12):
            task = asyncio.create_task(stores.events.append(f"cancelled-{turns}", 0, [NewEvent("made", 1, {})]))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait({task})
            assert len(await stores.events.append(f"next-{turns}", 0, [NewEvent("made", 1, {})])) == 1
        found = await verify_history(stores.events)
        assert found.faults == ()
        assert found.events >= 12


@pytest.mark.parametrize(
    "trusted", [pytest.param(5.0, id="a-connection-just-used"), pytest.param(-1.0, id="one-that-lay-idle")]
)
async def test_a_server_that_ended_the_connection_is_met_by_a_new_one(
    postgres_url: str, now: Callable[[], datetime], monkeypatch: pytest.MonkeyPatch, trusted: float
) -> None:
    monkeypatch.setattr("state.store.database.IDLE_TRUSTED_S", trusted)
    async with open_stores(postgres_url, now) as stores, open_stores(postgres_url, now) as others:
        async with others.engine.connect() as connection:
            mine = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            await connection.execute(text(f"{mine} AND pid <> pg_backend_pid()"))
        assert len(await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})])) == 1


END_THE_BLOCKED = """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                     WHERE wait_event_type = 'Lock' AND datname = current_database()"""


async def test_an_append_whose_connection_is_lost_is_made_on_a_new_one(
    postgres_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(postgres_url, now) as stores, open_stores(postgres_url, now) as others:
        async with others.engine.connect() as slow:
            (held,) = seal("held", 0, GENESIS, [NewEvent("made", 1, {})], now())
            await slow.execute(insert(events), [{name: getattr(held, name) for name in Sealed.__slots__}])
            waiting = asyncio.create_task(stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})]))
            await asyncio.wait({waiting}, timeout=0.2)
            await slow.execute(text(END_THE_BLOCKED))
            done, _ = await asyncio.wait({waiting}, timeout=0.2)
            assert not done
            await slow.rollback()
        (made,) = await waiting
        assert await others.events.read_all() == (made,)


async def test_a_server_that_ends_the_connection_within_a_transaction_is_unavailable(
    postgres_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(postgres_url, now) as stores, open_stores(postgres_url, now) as others:
        async with others.engine.connect() as slow:
            (held,) = seal("held", 0, GENESIS, [NewEvent("made", 1, {})], now())
            await slow.execute(insert(events), [{name: getattr(held, name) for name in Sealed.__slots__}])
            waiting = asyncio.create_task(stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})] * 2))
            await asyncio.wait({waiting}, timeout=0.2)
            await slow.execute(text(END_THE_BLOCKED))
            with pytest.raises(StoreUnavailable, match=r"terminating connection|closed"):
                await waiting
        assert await stores.events.streams() == ()


async def test_upgrades_at_once_come_one_after_the_other(store_url: str) -> None:
    assert len(set(await asyncio.gather(*(upgrade(store_url) for _ in range(3))))) == 1


async def test_the_store_that_lost_a_race_goes_on_from_what_it_reads(
    store_url: str, now: Callable[[], datetime]
) -> None:
    """What a store remembers of a stream's head is of no use to it once another has written."""
    async with open_stores(store_url, now) as one, open_stores(store_url, now) as two:
        await one.events.append("rollout-1", 0, [NewEvent("made", 1, {})])
        await two.events.append("rollout-1", 1, [NewEvent("made", 1, {}), NewEvent("made", 1, {})])
        with pytest.raises(VersionConflict, match="is at version 3, not 1"):
            await one.events.append("rollout-1", 1, [NewEvent("made", 1, {})])
        with pytest.raises(VersionConflict, match="is at version 3, not 9"):
            await one.events.append("rollout-1", 9, [NewEvent("made", 1, {})])
        await one.events.append("rollout-1", len(await one.events.read("rollout-1", 1)) + 1, [NewEvent("made", 1, {})])
        assert [e.version for e in await two.events.read("rollout-1")] == [1, 2, 3, 4]
        assert [e.position for e in await two.events.read_all()] == sorted(
            e.position for e in await two.events.read_all()
        )


async def test_an_event_is_never_chained_onto_another_than_the_head(
    store_url: str, now: Callable[[], datetime]
) -> None:
    async with open_stores(store_url, now) as stores:
        (first,) = await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})])
        (right,) = seal("rollout-1", 1, first.digest, [NewEvent("made", 1, {})], now())
        (wrong,) = seal("rollout-1", 1, "f" * 64, [NewEvent("made", 1, {})], now())
        (early,) = seal("rollout-1", 2, first.digest, [NewEvent("made", 1, {})], now())
        async with Database(stores.engine).single_writing() as writer:
            assert await insert_single(writer, "f" * 64, wrong) is None
            assert await insert_single(writer, first.digest, early) is None
            position = await insert_single(writer, first.digest, right)
            assert await insert_single(writer, first.digest, right) is None
        assert [e.position for e in await stores.events.read("rollout-1")] == [first.position, position]


async def test_an_append_whose_answer_is_lost_is_found_and_not_made_twice(
    store_url: str, now: Callable[[], datetime], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def insert_and_lose(writer: AsyncConnection | SqliteThread, previous: str, event: Sealed) -> int | None:
        await insert_single(writer, previous, event)
        raise StoreUnavailable("the connection was lost after the commit")

    monkeypatch.setattr("state.store.sql.insert_single", insert_and_lose)
    async with open_stores(store_url, now) as stores:
        (made,) = await stores.events.append("rollout-1", 0, [NewEvent("made", 1, {})])
        assert await stores.events.read_all() == (made,)


TALKER = """
import asyncio, sys
from datetime import UTC, datetime
from state.store.connect import open_stores
from state.store.port import NewEvent

async def main(url):
    async with open_stores(url, lambda: datetime.now(UTC)) as stores:
        for number in range(100_000):
            (event,) = await stores.events.append("rollout-1", number, [NewEvent("made", 1, {"number": number})])
            print(event.version, flush=True)

asyncio.run(main(sys.argv[1]))
"""


async def test_what_a_killed_process_was_told_is_stored_is_stored(sqlite_url: str, now: Callable[[], datetime]) -> None:
    argv = (sys.executable, "-c", TALKER, sqlite_url)
    process = await asyncio.create_subprocess_exec(*argv, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    while int(await process.stdout.readline()) < 20:
        pass
    process.kill()
    told = 20 + len((await process.stdout.read()).splitlines())
    await process.wait()
    async with open_stores(sqlite_url, now) as stores:
        stored = len(await stores.events.read("rollout-1"))
        assert told <= stored <= told + 1
        await stores.events.append("rollout-1", stored, [NewEvent("made", 1, {})])
