"""Nobody changes history through the database, and whoever goes around it is found out."""

import re
import sqlite3
from collections.abc import Callable
from datetime import datetime

import pytest
from contract.store_fixtures import Postgres

from state.errors import EvidenceCorrupt, HistoryCorrupt
from state.store.connect import Stores, open_stores
from state.store.migrate import check
from state.store.port import NewEvent
from state.store.verification import verify_history

EVENTS = [NewEvent("made", 1, {"number": n, "text": "über"}, {"by": "test"}) for n in range(4)]

ATTEMPTS = {
    "an-event-changed": "UPDATE events SET data = '{}' WHERE version = 2",
    "an-event-changed-that-is-not-there": "UPDATE events SET data = '{}' WHERE version = 99",
    "an-event-deleted": "DELETE FROM events WHERE version = 2",
    "evidence-changed": "UPDATE evidence SET size = 1",
    "evidence-deleted": "DELETE FROM evidence",
}
SQLITE_ONLY = {
    "an-event-replaced": "INSERT OR REPLACE INTO events"
    " SELECT position, stream, version, 'other', schema_version, data, metadata, recorded_at, digest FROM events",
}
POSTGRES_ONLY = {
    "events-truncated": "TRUNCATE events",
    "evidence-truncated": "TRUNCATE evidence",
    "an-event-upserted": "INSERT INTO events SELECT * FROM events ON CONFLICT (position) DO UPDATE SET type = 'other'",
}


def statements(extra: dict[str, str]) -> pytest.MarkDecorator:
    known = {**ATTEMPTS, **extra}
    return pytest.mark.parametrize("statement", [pytest.param(sql, id=claim) for claim, sql in known.items()])


async def write(url: str, now: Callable[[], datetime]) -> str:
    async with open_stores(url, now) as stores:
        await stores.events.append("rollout-1", 0, EVENTS)
        await stores.events.append("rollout-2", 0, EVENTS)
        return (await stores.evidence.put(b"log line\n" * 99, "text/plain")).digest


async def untouched(url: str, now: Callable[[], datetime]) -> bool:
    async with open_stores(url, now) as stores:
        found = await verify_history(stores.events)
        return (found.streams, found.events, found.faults) == (2, 8, ())


@statements(SQLITE_ONLY)
async def test_sqlite_refuses(sqlite_url: str, now: Callable[[], datetime], statement: str) -> None:
    await write(sqlite_url, now)
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    refuses = "99" not in statement  # a row trigger has nothing to refuse where there is no row
    if refuses:
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    else:
        assert connection.execute(statement).rowcount == 0
    connection.close()
    assert await untouched(sqlite_url, now)


async def test_sqlite_ignores_evidence_put_in_the_place_of_evidence(
    sqlite_url: str, now: Callable[[], datetime]
) -> None:
    digest = await write(sqlite_url, now)
    connection = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("INSERT OR REPLACE INTO evidence VALUES (?, 'text/plain', x'00', 1)", (digest,))
    connection.close()
    async with open_stores(sqlite_url, now) as stores:
        assert await stores.evidence.get(digest) == b"log line\n" * 99


@statements(POSTGRES_ONLY)
async def test_postgresql_refuses(
    postgres_url: str, postgres: Postgres, now: Callable[[], datetime], statement: str
) -> None:
    await write(postgres_url, now)
    said = postgres.refusal(statement, postgres_url)
    assert re.search(r"(events|evidence) are append-only", said)
    assert await untouched(postgres_url, now)


SECOND = "WHERE stream = 'rollout-1' AND version = 2"
TAMPERINGS = {
    "a-digit-of-the-data": f"UPDATE events SET data = replace(data, '1', '7') {SECOND}",
    "a-space-in-the-data": f"UPDATE events SET data = data || ' ' {SECOND}",
    "the-type": f"UPDATE events SET type = 'other' {SECOND}",
    "the-schema-version": f"UPDATE events SET schema_version = 2 {SECOND}",
    "the-metadata": f"UPDATE events SET metadata = '[]' {SECOND}",
    "the-digest": f"UPDATE events SET digest = lower(hex(randomblob(32))) {SECOND}",
    "the-time": f"UPDATE events SET recorded_at = '2026-01-01T12:00:00.000009+00:00' {SECOND}",
    "the-time-for-something-else": f"UPDATE events SET recorded_at = 'yesterday' {SECOND}",
    "a-byte-that-is-no-utf8": f"UPDATE events SET data = CAST(x'7BFF7D' AS TEXT) {SECOND}",
    "bytes-for-text": f"UPDATE events SET data = x'7B7D' {SECOND}",
    "the-whole-event": f"DELETE FROM events {SECOND}",
    "its-stream": f"UPDATE events SET stream = 'rollout-3' {SECOND}",
}


@pytest.mark.parametrize("statement", [pytest.param(sql, id=claim) for claim, sql in TAMPERINGS.items()])
async def test_what_is_changed_around_the_triggers_is_found_and_named(
    sqlite_url: str, now: Callable[[], datetime], statement: str
) -> None:
    await write(sqlite_url, now)
    tamper(sqlite_url, statement)
    async with open_stores(sqlite_url, now) as stores:
        with pytest.raises(HistoryCorrupt, match="Event 2 of rollout-1 is not what was recorded"):
            await stores.events.read("rollout-1")
        found = await verify_history(stores.events, "rollout-")
        assert ("rollout-1", 2) in {(fault.stream, fault.version) for fault in found.faults}
        assert "rollout-2" not in {fault.stream for fault in found.faults}
        assert len(await stores.events.read("rollout-2")) == 4


async def test_a_read_that_goes_on_sees_that_the_event_before_is_gone(
    sqlite_url: str, now: Callable[[], datetime]
) -> None:
    await write(sqlite_url, now)
    tamper(sqlite_url, TAMPERINGS["the-whole-event"])
    async with open_stores(sqlite_url, now) as stores:
        with pytest.raises(HistoryCorrupt, match=r"Event 2 of rollout-1 .* it is missing, event 3 follows"):
            await stores.events.read("rollout-1", 2)


async def test_missing_triggers_are_named(sqlite_url: str) -> None:
    tamper(sqlite_url, "SELECT 1")
    assert await check(sqlite_url) == ("trigger events_no_update is missing", "trigger events_no_delete is missing")


@pytest.mark.parametrize(
    ("column", "said"),
    [
        pytest.param("bytes = x'00'", "cannot be decompressed", id="what-is-no-zstd"),
        pytest.param("bytes = substr(bytes, 1, length(bytes) - 2)", "cannot be decompressed", id="cut-off"),
        pytest.param("size = 7", "it holds 891 bytes, not 7", id="another-size"),
        pytest.param(
            "bytes = (SELECT bytes FROM evidence WHERE size = 892), size = 892", "its content gives", id="swapped"
        ),
    ],
)
async def test_evidence_that_is_not_what_its_name_says_is_found(
    sqlite_url: str, now: Callable[[], datetime], column: str, said: str
) -> None:
    digest = await write(sqlite_url, now)
    async with open_stores(sqlite_url, now) as stores:
        await stores.evidence.put(b"x" * 892, "text/plain")
        tamper(sqlite_url, "DROP TRIGGER evidence_no_update")
        tamper(sqlite_url, f"UPDATE evidence SET {column} WHERE digest = '{digest}'")
        with pytest.raises(EvidenceCorrupt, match=f"Evidence {digest[:12]} .*{said}"):
            await stores.evidence.get(digest)


def tamper(url: str, statement: str) -> None:
    """As somebody who owns the file: without the triggers, without this program."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"))
    with connection:
        connection.execute("DROP TRIGGER IF EXISTS events_no_update")
        connection.execute("DROP TRIGGER IF EXISTS events_no_delete")
        connection.execute(statement)
    connection.close()


async def test_dedupe_stores_one_row(stores: Stores) -> None:
    for _ in range(3):
        ref = await stores.evidence.put(b"the same", "text/plain")
    async with stores.engine.connect() as connection:
        found = (await connection.exec_driver_sql("SELECT digest, size FROM evidence")).all()
    assert [tuple(row) for row in found] == [(ref.digest, 8)]
