"""The common append, one event, as one statement that is its own transaction: one round trip, one durable write.

Through SQLAlchemy's own execution the same takes some twenty hops to the driver's thread on SQLite, and four round
trips to PostgreSQL: measured on SQLite, a quarter of the driver's own rate. So the statement goes to the driver: on
PostgreSQL over a connection of the same pool, on SQLite in a thread of its own.
"""

import sqlite3
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from state.store.chain import Sealed, utc_text
from state.store.port import GENESIS
from state.store.sqlite_thread import SqliteThread

_COLUMNS = "stream, version, type, schema_version, data, metadata, recorded_at, digest"
_HEAD = "head.stream = {stream} AND head.version = {version} - 1 AND head.digest = {previous}"


def _statement(values: str, stream: str, version: str, previous: str) -> str:
    """Inserts nothing unless the event before is the one that the new one's digest hangs on."""
    head = _HEAD.format(stream=stream, version=version, previous=previous)
    onto = f"{previous} = '{GENESIS}' OR EXISTS (SELECT 1 FROM events AS head WHERE {head})"
    return f"INSERT INTO events ({_COLUMNS}) SELECT {values} WHERE {onto} ON CONFLICT DO NOTHING RETURNING position"


_SQLITE = _statement(":1, :2, :3, :4, :5, :6, :7, :8", ":1", ":2", ":9")
_POSTGRESQL = _statement(
    "$1::text, $2::integer, $3::text, $4::integer, $5::text, $6::text, $7::timestamptz, $8::text",
    "$1::text",
    "$2::integer",
    "$9::text",
)


async def insert_single(writer: AsyncConnection | SqliteThread, previous: str, event: Sealed) -> int | None:
    """The position of `event`, durable; None if the stream's head is not the event with digest `previous`."""
    names = (event.stream, event.version, event.type, event.schema_version, event.data, event.metadata)
    if isinstance(writer, SqliteThread):
        values = (*names, utc_text(event.recorded_at), event.digest, previous)
        return await writer.run(partial(_sqlite, values))
    driver: Any = (await writer.get_raw_connection()).driver_connection
    return await _postgresql(driver, (*names, event.recorded_at, event.digest, previous))


def _sqlite(values: tuple[Any, ...], connection: sqlite3.Connection) -> int | None:
    try:
        rows = connection.execute(_SQLITE, {str(n): value for n, value in enumerate(values, 1)}).fetchall()
    except sqlite3.IntegrityError:  # said by the trigger that lets nothing be replaced
        return None
    return int(rows[0][0]) if rows else None


async def _postgresql(driver: Any, values: tuple[Any, ...]) -> int | None:
    position = await driver.fetchval(_POSTGRESQL, *values)
    return int(position) if position is not None else None
