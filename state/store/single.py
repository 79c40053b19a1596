"""The common append, one event, as one statement that is its own transaction: one round trip, one durable write.

Through SQLAlchemy's own execution the same takes some twenty hops to the driver's thread on SQLite, and four round
trips to PostgreSQL: measured on SQLite, a quarter of the driver's own rate. So the statement goes to the driver: on
PostgreSQL over a connection of its own, on SQLite in a thread of its own.
"""

import sqlite3
from collections.abc import Awaitable, Mapping
from functools import partial
from typing import Any

from state.store.chain import Sealed, utc_text
from state.store.port import GENESIS
from state.store.sqlite_thread import SqliteThread

_COLUMNS = "stream, version, type, schema_version, data, metadata, recorded_at, digest"

_SQLITE_FIRST = f"INSERT INTO events ({_COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)"
_HEAD = "SELECT ?2 FROM events WHERE stream = ?1 AND version = ?2 - 1 AND digest = ?9"
_SQLITE_NEXT = _SQLITE_FIRST.replace("?2", f"({_HEAD})")
"""Without the event that the new one's digest hangs on there is no version, which the column refuses. An `INSERT ...
SELECT` from the table itself would go over a table made for it: a third of the statement's time."""

_POSTGRESQL = f"""
    INSERT INTO events ({_COLUMNS})
    SELECT $1::text, $2::integer, $3::text, $4::integer, $5::text, $6::text, $7::timestamptz, $8::text
    WHERE $9::text = '{GENESIS}' OR EXISTS (
        SELECT 1 FROM events AS head WHERE head.stream = $1 AND head.version = $2 - 1 AND head.digest = $9)
    ON CONFLICT DO NOTHING RETURNING position"""


def insert_single(writer: Any, previous: str, event: Sealed) -> Awaitable[int | None]:
    """The position of `event`, durable; None if the stream's head is not the event with digest `previous`. `writer` is
    `Database.single_writing`'s. On SQLite it has begun once this returns."""
    names = (event.stream, event.version, event.type, event.schema_version, event.data, event.metadata)
    if isinstance(writer, SqliteThread):
        values = (*names, utc_text(event.recorded_at), event.digest)
        return writer.begin(partial(_sqlite, values, previous))
    position: Awaitable[int | None] = writer.fetchval(_POSTGRESQL, *names, event.recorded_at, event.digest, previous)
    return position


def _sqlite(values: tuple[Any, ...], previous: str, connection: sqlite3.Connection) -> int | None:
    try:
        if previous == GENESIS:
            return connection.execute(_SQLITE_FIRST, values).lastrowid
        return connection.execute(_SQLITE_NEXT, (*values, previous)).lastrowid
    except sqlite3.IntegrityError:  # there is no such head, or, as the trigger says, an event in this one's place
        return None


_SQLITE_EVIDENCE = """INSERT INTO evidence (digest, media_type, bytes, size)
    VALUES (:digest, :media_type, :bytes, :size) ON CONFLICT DO NOTHING"""
"""The same bytes may be stored by another process at the same instant: one of the two does nothing."""


async def insert_evidence(writer: SqliteThread, row: Mapping[str, Any]) -> None:
    """Durable; nothing is done where there is such a row."""
    await writer.run(partial(_sqlite_evidence, row))


def _sqlite_evidence(row: Mapping[str, Any], connection: sqlite3.Connection) -> None:
    connection.execute(_SQLITE_EVIDENCE, row).close()
