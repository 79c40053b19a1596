"""Engines for the two databases: how they begin, who may write, and what their errors mean here."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import Connection, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from state.errors import StoreOutdated, StoreUnavailable, UsageInvalid
from state.store.tables import REVISIONS, VERSION_TABLE

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another process's transaction on the same SQLite file."""

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_SQLITE_PRAGMAS = (
    "PRAGMA journal_mode=WAL",
    "PRAGMA synchronous=FULL",
    "PRAGMA foreign_keys=ON",
    "PRAGMA recursive_triggers=ON",
)
_NO_TABLE = ("no such table", "UndefinedTableError")


def store_url(url: str) -> URL:
    """`url` with the async driver that the store uses; raises UsageInvalid for another database, or none."""
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise UsageInvalid(f"`{url}` is no database URL", hint=_EXAMPLES) from error
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise UsageInvalid(f"interlock cannot keep its history in {parsed.get_backend_name()}", hint=_EXAMPLES)
    if driver == _DRIVERS["sqlite"] and parsed.database in (None, "", ":memory:"):
        raise UsageInvalid("An SQLite store needs a file", hint=_EXAMPLES)
    return parsed.set(drivername=driver)


_EXAMPLES = "for example sqlite:////var/lib/interlock/store.db or postgresql://interlock@db.example/interlock"


def place_of(url: URL) -> str:
    """The database as a person knows it: a file's path, or the URL without its password."""
    return url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


def create_engine(url: str) -> AsyncEngine:
    """An engine whose connections keep the store's promises; nothing is connected yet."""
    parsed = store_url(url)
    options: dict[str, Any] = {"execution_options": {"write_lock": asyncio.Lock()}}
    if parsed.get_backend_name() == "sqlite":
        engine = create_async_engine(parsed, connect_args={"timeout": BUSY_TIMEOUT_S}, **options)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    return create_async_engine(
        parsed, pool_pre_ping=True, connect_args={"timeout": 10, "command_timeout": BUSY_TIMEOUT_S}, **options
    )


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; `_begin_sqlite` does
    connection.driver_connection.text_factory = _text  # a broken byte must reach the digest check
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogateescape")


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def revision_of(connection: Connection) -> str:
    """The store's schema revision, "" for a database without one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return ""
    return connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) or ""


class Database:
    """One engine, with a way to read and a way to write.

    Writers of one process queue for a lock of the process, so that none of them polls for SQLite's; those of several
    processes queue in the database (SQLite: BEGIN IMMEDIATE; PostgreSQL: the advisory lock that a trigger takes).
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._reader = engine
        self._writer = engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
        self._lock: asyncio.Lock = engine.sync_engine.get_execution_options().get("write_lock") or asyncio.Lock()
        self.place = place_of(engine.url)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A consistent view; raises StoreUnavailable and StoreOutdated."""
        with translated(self._reader.url):
            async with self._reader.begin() as connection:
                yield connection

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, durable once the block has ended; raises as `reading`, and leaves IntegrityError alone."""
        async with self._lock:
            with translated(self._writer.url):
                async with self._writer.begin() as connection:
                    yield connection


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn a driver's errors into the store's own, narrowest first."""
    try:
        yield
    except (IntegrityError, DataError):
        raise
    except DBAPIError as error:
        if any(sign in str(error.orig) for sign in _NO_TABLE):
            raise StoreOutdated(place_of(url), "", REVISIONS) from error
        if isinstance(error, ProgrammingError):
            raise
        raise StoreUnavailable(_said(error.orig)) from error
    except SQLAlchemyError as error:
        raise StoreUnavailable(_said(error)) from error
    except _driver_errors(url) as error:
        raise StoreUnavailable(_said(error)) from error


def _driver_errors(url: URL) -> tuple[type[Exception], ...]:
    """What comes past SQLAlchemy while a driver connects, or gives up waiting."""
    if url.get_backend_name() == "sqlite":
        return (OSError,)
    import asyncpg  # type: ignore[import-untyped]  # it ships no types; imported here, for SQLite starts without it

    return (OSError, asyncpg.PostgresError, asyncpg.InterfaceError)


def _said(error: BaseException | None) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
