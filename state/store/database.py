"""Engines for the two databases: how they begin, who may write, and what their errors mean here."""

import sqlite3
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from time import monotonic
from typing import Any

from sqlalchemy import Connection, Engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util import await_only

from state.errors import UsageInvalid
from state.redaction import redact
from state.store.postgres_lines import PostgresLines
from state.store.sqlite_thread import SqliteThread, any_text, rows_of
from state.store.tables import VERSION_TABLE
from state.store.translation import place_of as place_of
from state.store.translation import translated as translated
from state.store.turns import Turns

BUSY_TIMEOUT_S = 30.0
"""How long a writer waits for another process's transaction on the same SQLite file."""

CONNECT_TIMEOUT_S = 10.0
IDLE_TRUSTED_S = 5.0
"""For how long an idle connection to PostgreSQL is taken to be alive without being asked."""

_DRIVERS = {"sqlite": "sqlite+aiosqlite", "postgresql": "postgresql+asyncpg", "postgres": "postgresql+asyncpg"}
_SQLITE_PRAGMAS = ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL")


def store_url(url: str) -> URL:
    """`url` with the async driver that the store uses; raises UsageInvalid for another database, or none."""
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError) as error:  # ValueError: a port that is no number
        raise UsageInvalid(f"`{redact(url)}` is no database URL", hint=_EXAMPLES) from error
    driver = _DRIVERS.get(parsed.get_backend_name())
    if driver is None:
        raise UsageInvalid(f"interlock cannot keep its history in {parsed.get_backend_name()}", hint=_EXAMPLES)
    if driver == _DRIVERS["sqlite"] and parsed.database in (None, "", ":memory:"):
        raise UsageInvalid("An SQLite store needs a file", hint=_EXAMPLES)
    query = {"ssl" if name == "sslmode" else name: value for name, value in parsed.query.items()}  # asyncpg's word
    return parsed.set(drivername=driver, query=query)


_EXAMPLES = "for example sqlite:////var/lib/interlock/store.db or postgresql://interlock@db.example/interlock"


def create_engine(url: str) -> AsyncEngine:
    """An engine whose connections keep the store's promises; nothing is connected yet."""
    parsed = store_url(url)
    # every transaction here ends in a block; a second rollback by the pool would cost a round trip each time
    options: dict[str, Any] = {
        "execution_options": {"turns": Turns()},
        "pool_reset_on_return": None,
    }
    if parsed.get_backend_name() == "sqlite":
        threads = {
            name: SqliteThread(f"interlock-{name}", partial(_connected, parsed)) for name in ("writer", "reader")
        }
        options["execution_options"] |= threads
        engine = create_async_engine(parsed, connect_args={"timeout": BUSY_TIMEOUT_S}, **options)
        for thread in threads.values():
            event.listen(engine.sync_engine, "engine_disposed", partial(_close, thread))
        event.listen(engine.sync_engine, "do_connect", _open_first)
        event.listen(engine.sync_engine, "connect", _prepare_sqlite)
        event.listen(engine.sync_engine, "begin", _begin_sqlite)
        return engine
    timeouts = {"timeout": CONNECT_TIMEOUT_S, "command_timeout": BUSY_TIMEOUT_S}
    lines = PostgresLines(_line_options(parsed) | timeouts, IDLE_TRUSTED_S)
    options["execution_options"]["lines"] = lines
    engine = create_async_engine(parsed, connect_args=timeouts, **options)
    event.listen(engine.sync_engine, "engine_disposed", lambda _engine: await_only(lines.close()))
    _discard_the_dead(engine.sync_engine)
    return engine


def _line_options(url: URL) -> dict[str, Any]:
    """What the URL says, as the driver's own words: without those that SQLAlchemy keeps to itself."""
    _, options = url.get_dialect()().create_connect_args(url)
    return {name: value for name, value in options.items() if not name.startswith(("prepared_statement_", "async_"))}


def _close(thread: SqliteThread, _engine: Engine) -> None:
    thread.close()


def _connected(url: URL) -> sqlite3.Connection:
    uri = url.query.get("uri") == "true"
    connection = sqlite3.connect(url.database or "", timeout=BUSY_TIMEOUT_S, isolation_level=None, uri=uri)
    for pragma in _SQLITE_PRAGMAS:
        connection.execute(pragma)
    return connection


def _discard_the_dead(engine: Engine) -> None:
    """Hand out no connection that the server has closed, and ask one that lay idle.

    SQLAlchemy's own way, a question before every use, was measured to halve the rate of appends.
    """

    def rest(_: object, record: ConnectionPoolEntry) -> None:
        record.info["idle_since"] = monotonic()

    def take(connection: Any, record: ConnectionPoolEntry, _: object) -> None:
        idle = monotonic() - record.info.get("idle_since", monotonic())
        if connection.driver_connection.is_closed() or (idle > IDLE_TRUSTED_S and not _answers(engine, connection)):
            raise DisconnectionError

    event.listen(engine, "checkin", rest)
    event.listen(engine, "checkout", take)


def _answers(engine: Engine, connection: Any) -> bool:
    try:
        return engine.dialect.do_ping(connection)
    except (DisconnectionError, engine.dialect.loaded_dbapi.Error, OSError):
        return False


def _open_first(_dialect: object, _record: object, words: Sequence[Any], options: Mapping[str, Any]) -> None:
    """A file that cannot be opened is found here. aiosqlite tells it too, but leaves a thread behind that may outlive
    the event loop, and then dies with a traceback."""
    sqlite3.connect(words[0], uri=bool(options.get("uri"))).close()


def _prepare_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # the driver begins nothing by itself; `_begin_sqlite` does
    connection.driver_connection.text_factory = any_text  # a broken byte must reach the digest check
    cursor = connection.cursor()
    for pragma in _SQLITE_PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: Connection) -> None:
    connection.exec_driver_sql(connection.get_execution_options().get("sqlite_begin", "BEGIN"))


def revision_of(connection: Connection) -> str:
    """The store's schema revision, "" for a database without one."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return ""
    return connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}")) or ""


class Database:
    """One engine, with a way to read and a way to write.

    Writers of one process wait for their turns in it, so that none of them polls for SQLite's lock; those of several
    processes queue in the database (SQLite: BEGIN IMMEDIATE; PostgreSQL: the advisory lock that a trigger takes).
    """

    def __init__(self, engine: AsyncEngine) -> None:
        self._reader = engine
        self._writer = engine.execution_options(sqlite_begin="BEGIN IMMEDIATE")
        options = engine.sync_engine.get_execution_options()
        self._turns: Turns = options.get("turns") or Turns()
        self._single: SqliteThread | None = options.get("writer")
        self._selecting: SqliteThread | None = options.get("reader")
        lines: Any = options.get("lines")  # there are none where there are threads
        self._lines: PostgresLines = lines
        self.place = place_of(engine.url)

    @property
    def has_thread(self) -> bool:
        """Whether single statements are run by a thread of their own: on SQLite."""
        return self._single is not None

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncConnection]:
        """A consistent view; raises StoreUnavailable and StoreOutdated."""
        with translated(self._reader.url):
            async with self._reader.begin() as connection:
                yield connection

    async def select(self, statement: Mapping[str, str], *values: Any) -> Sequence[Sequence[Any]]:
        """The rows of one statement, a consistent view by itself, which is given by dialect, with its values by number
        (`?1`, `$1`); raises as `reading`."""
        with translated(self._reader.url):
            if self._selecting is not None:
                return await self._selecting.run(partial(rows_of, statement["sqlite"], values))
            return await self._lines.fetch(statement["postgresql"], *values)

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncConnection]:
        """A transaction, durable once the block has ended; raises as `reading`, and leaves IntegrityError alone."""
        async with self._turns.alone():
            with translated(self._writer.url):
                async with self._writer.begin() as connection:
                    yield connection

    def single_writing(self) -> AbstractAsyncContextManager[Any]:
        """Who runs one statement that is its own transaction, a `SqliteThread` or an `asyncpg.Connection`; raises as
        `reading`."""
        if self._single is not None:
            return ThreadWriting(self._single, self._turns, self._writer.url)
        return LineWriting(self._lines, self._turns, self._writer.url)


class LineWriting:
    """`Database.single_writing` on PostgreSQL. A class, as `ThreadWriting`."""

    __slots__ = ("_line", "_lines", "_turns", "_url")

    def __init__(self, lines: PostgresLines, turns: Turns, url: URL) -> None:
        self._lines, self._turns, self._url = lines, turns, url

    async def __aenter__(self) -> Any:
        await self._turns.begin_single()
        try:
            self._line = await self._lines.take()
        except BaseException as error:
            self._turns.end_single()
            with translated(self._url):
                raise error
        return self._line

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._lines.give_back(self._line, error)
        self._turns.end_single()
        if error is not None:
            with translated(self._url):
                raise error


class ThreadWriting:
    """`Database.single_writing` on SQLite. A class, for three generators one in another took a sixth of the time in
    which an append does not wait for the disk."""

    __slots__ = ("_thread", "_turns", "_url")

    def __init__(self, thread: SqliteThread, turns: Turns, url: URL) -> None:
        self._thread, self._turns, self._url = thread, turns, url

    async def __aenter__(self) -> SqliteThread:
        await self._turns.begin_single()
        return self._thread

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._turns.end_single()
        if error is not None:
            with translated(self._url):
                raise error
