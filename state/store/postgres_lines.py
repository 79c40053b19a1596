"""Connections to PostgreSQL of the driver's own, for what is asked of it most: appends of one event, a stream.

Through SQLAlchemy each of those takes its way through a pool, an adapted connection and greenlets, and was measured to
take twice as long as the statement itself. Everything else goes through SQLAlchemy's pool.
"""

import asyncio
from collections.abc import Mapping, Sequence
from time import monotonic
from typing import Any

MOST = 8
"""Lines at once; who needs one more waits. The pool beside them has as many again."""

CLOSING_S = 2.0
"""How long a server is waited for that does not say goodbye."""


class PostgresLines:
    """Opened when they are needed, kept until `close`; each is in nobody else's hands while it is used."""

    def __init__(self, options: Mapping[str, Any], trusted_s: float) -> None:
        """`options` are `asyncpg.connect`'s; a line that lay idle for longer than `trusted_s` is asked before use."""
        self._options, self._trusted_s = dict(options), trusted_s
        self._idle: list[tuple[Any, float]] = []
        self._free = asyncio.Semaphore(MOST)

    def line(self) -> "Line":
        """`take` and `give_back` around a block."""
        return Line(self)

    async def take(self) -> Any:
        """An `asyncpg.Connection` outside of a transaction, for `give_back`; raises asyncpg's errors, OSError and
        TimeoutError."""
        import asyncpg  # type: ignore[import-untyped]  # it ships no types; imported here, for SQLite starts without it

        await self._free.acquire()
        try:
            return self._fresh() or await self._alive() or await asyncpg.connect(**self._options)
        except BaseException:
            self._free.release()
            raise

    def give_back(self, connection: Any, error: BaseException | None) -> None:
        """With what its statement raised. One whose statement was not answered to its end is not used again: whatever
        it says next is not an answer to who has it next."""
        import asyncpg

        try:
            if error is not None and not isinstance(error, asyncpg.PostgresError):
                connection.terminate()
            elif not connection.is_closed():
                self._idle.append((connection, monotonic()))
        finally:
            self._free.release()

    async def fetch(self, statement: str, *values: Any) -> Sequence[Sequence[Any]]:
        """The rows of a statement that only reads; asked again over a new line, where the server ended the one before,
        as one that was started anew has ended all of them."""
        import asyncpg

        ended = (asyncpg.AdminShutdownError, asyncpg.CrashShutdownError, asyncpg.IdleSessionTimeoutError)
        lost = (asyncpg.InterfaceError, asyncpg.InternalClientError, asyncpg.PostgresConnectionError, ConnectionError)
        try:
            return await self._fetched(statement, values)
        except (*ended, *lost):
            idle, self._idle = self._idle, []
            for connection, _ in idle:
                connection.terminate()
            return await self._fetched(statement, values)

    async def _fetched(self, statement: str, values: Sequence[Any]) -> Sequence[Sequence[Any]]:
        async with self.line() as line:
            rows: Sequence[Sequence[Any]] = await line.fetch(statement, *values)
            return rows

    async def close(self) -> None:
        """Close those that nobody uses."""
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            await connection.close(timeout=CLOSING_S)

    def _fresh(self) -> Any | None:
        """One that answered a moment ago."""
        if self._idle and monotonic() - self._idle[-1][1] <= self._trusted_s:
            connection, _ = self._idle.pop()
            return None if connection.is_closed() else connection
        return None

    async def _alive(self) -> Any | None:
        while self._idle:
            connection, since = self._idle.pop()
            if not connection.is_closed() and (monotonic() - since <= self._trusted_s or await _answers(connection)):
                return connection
        return None


class Line:
    """One line, for a block."""

    __slots__ = ("_connection", "_lines")

    def __init__(self, lines: PostgresLines) -> None:
        self._lines = lines

    async def __aenter__(self) -> Any:
        self._connection = await self._lines.take()
        return self._connection

    async def __aexit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._lines.give_back(self._connection, error)


async def _answers(connection: Any) -> bool:
    import asyncpg

    try:
        await connection.fetchval("SELECT 1")
    except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError):
        connection.terminate()
        return False
    except asyncio.CancelledError:
        connection.terminate()
        raise
    return True
