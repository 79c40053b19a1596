"""Stores of every earlier schema, full of data of their time, brought to the newest: nothing lost, nothing changed."""

import asyncio
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from contract.store_fixtures import Postgres
from sqlalchemy import Connection, Integer, LargeBinary, MetaData, Table, insert, select
from sqlalchemy.types import Float

from state.store.connect import Stores, open_stores
from state.store.database import create_engine
from state.store.export import import_lines, refs_in
from state.store.memory import MemoryEventStore, MemoryEvidenceStore
from state.store.migrate import check, upgrade
from state.store.projections import Subjects, catch_up, differences, rows
from state.store.read_models import PROJECTIONS
from state.store.sql import SqlEventStore, SqlEvidenceStore
from state.store.tables import REVISIONS, VERSION_TABLE, UtcTime, metadata
from state.store.verification import verify_history

ROOT = Path(__file__).parents[2]
HISTORIES = sorted((ROOT / "tests/histories").glob("*.jsonl"))
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
Rows = list[dict[str, Any]]


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without a table."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'store.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"e{time.monotonic_ns()}"
    server.sql(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.sql(f"DROP DATABASE {name} WITH (FORCE)")


async def migrated_to(url: str, revision: str) -> None:
    argv = [sys.executable, "-W", "error", "-m", "alembic", "upgrade", revision]
    environment = {**os.environ, "INTERLOCK_DATABASE_URL": url}
    process = await asyncio.create_subprocess_exec(*argv, cwd=ROOT, env=environment)
    assert await process.wait() == 0


class Known:
    """The recorded histories in memory, and the tables for showing that they give."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.events, self.evidence = MemoryEventStore(now), MemoryEvidenceStore()

    async def load(self) -> None:
        for path in HISTORIES:
            await import_lines(self.events, path.read_text(encoding="utf-8").splitlines(), self.evidence)

    async def evidence_in(self, stores: Stores) -> int:
        """How many pieces of the histories' evidence the store has, each as it was."""
        refs = {ref.digest for event in await self.events.read_all(limit=10_000) for ref in refs_in(event.data)}
        for digest in refs:
            assert await stores.evidence.get(digest) == await self.evidence.get(digest)
        return len(refs)

    async def tables(self) -> Mapping[str, Rows]:
        recorded, subjects = await self.events.read_all(limit=10_000), Subjects()
        for one in recorded:
            if one.version == 1:
                subjects.learn(one)
        history = list(subjects.see(recorded))
        folded = {p.name: [dict(row) for row in p.fold(history).values()] for p in PROJECTIONS}
        at = [{"name": name, "position": recorded[-1].position} for name in folded]
        return {**folded, "projections": at}


def filled(connection: Connection, known: Mapping[str, Rows]) -> dict[str, Rows]:
    """Fill each table that there is now; what each holds then. A table that no projection fills gets a made-up row."""
    found = MetaData()
    found.reflect(connection)
    there = {name: table for name, table in found.tables.items() if name not in (VERSION_TABLE, "events", "evidence")}
    for name, table in there.items():
        typed = metadata.tables.get(name, table)
        columns = {column.name for column in table.columns}
        some = known.get(name, [made_up(table)])
        if name == "projections":
            some = [row for row in some if row["name"] in there]
        connection.execute(insert(typed), [{n: v for n, v in row.items() if n in columns} for row in some])
    return {name: held(connection, table) for name, table in there.items()}


def made_up(table: Table) -> dict[str, Any]:
    return {column.name: _value(metadata.tables[table.name].c[column.name].type) for column in table.columns}


def _value(kind: Any) -> Any:
    if isinstance(kind, UtcTime):
        return NOON
    if isinstance(kind, LargeBinary):
        return b"\x00kept"
    return 7 if isinstance(kind, Integer | Float) else "kept"


def held(connection: Connection, table: Table) -> Rows:
    """The rows as they lie there, by the columns that `table` has."""
    found = connection.execute(select(table).order_by(*table.primary_key))
    return [dict(row) for row in found.mappings()]


async def put_in(url: str, known: Known) -> dict[str, Rows]:
    """The histories and their evidence through the store's own doors, whatever the schema; the rest as rows."""
    engine, tables = create_engine(url), await known.tables()
    events, evidence = SqlEventStore(engine, lambda: NOON), SqlEvidenceStore(engine)
    for path in HISTORIES:
        await import_lines(events, path.read_text(encoding="utf-8").splitlines(), evidence)
    async with engine.begin() as connection:
        kept = await connection.run_sync(filled, tables)
    await engine.dispose()
    return kept


@pytest.mark.parametrize("older", REVISIONS[:-1])
async def test_a_store_of_then_is_whole_after_the_upgrade(
    empty_url: str, older: str, now: Callable[[], datetime]
) -> None:
    known = Known(now)
    await known.load()
    await migrated_to(empty_url, older)
    kept = await put_in(empty_url, known)
    assert await upgrade(empty_url) == REVISIONS[-1]
    assert await check(empty_url) == ()
    async with open_stores(empty_url, now) as stores:
        assert (await verify_history(stores.events)).faults == ()
        for stream in await known.events.streams():
            assert [e.digest for e in await stores.events.read(stream)] == [
                e.digest for e in await known.events.read(stream)
            ]
        assert await known.evidence_in(stores) > 0
        assert await unchanged(stores, kept) == []
        await catch_up(stores.engine, PROJECTIONS)
        assert await differences(stores.engine, PROJECTIONS) == ()
        assert {p.name: len(await rows(stores.engine, p.table)) for p in PROJECTIONS} == {
            name: len(found) for name, found in (await known.tables()).items() if name != "projections"
        }


async def unchanged(stores: Stores, kept: Mapping[str, Rows]) -> list[str]:
    """The tables in which a row of then is missing or has another value in a column of then."""
    different = []
    async with stores.engine.connect() as connection:
        for name, before in kept.items():
            table = await connection.run_sync(lambda c, name=name: Table(name, MetaData(), autoload_with=c))
            after = await connection.run_sync(held, table)
            columns = before[0].keys() if before else ()
            if [{n: row[n] for n in columns} for row in after] != before:
                different.append(name)
    return different
