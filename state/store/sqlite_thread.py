"""A thread with a connection of its own, for what is asked of an SQLite file most: appends of one event, a stream.

Through the pool they take twice as long and more: a connection is checked out, a transaction begun and ended, each a
way to the driver's thread and back. In the event loop's own thread an append would take a quarter less still, but a
disk that hangs would then hold up what renews the hosts' timers.
"""

import asyncio
import os
import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Thread
from typing import Any, TypeVar

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], Any]
Job = tuple[Work, "asyncio.Future[Any]"]


class Jobs:
    """A queue whose consumer is woken through a pipe. To write into one lets go of the interpreter, so that the thread
    runs at once: from `SimpleQueue` it is woken first to find the interpreter held, and then once more."""

    def __init__(self) -> None:
        self._waiting: deque[Job | None] = deque()
        self._out, self._in = os.pipe()
        os.set_blocking(self._in, False)

    def put(self, job: Job | None) -> None:
        self._waiting.append(job)
        with suppress(BlockingIOError):  # full of wake-ups that are still to be read
            os.write(self._in, b"\0")

    def get(self) -> Job | None:
        """The next one; waits for it."""
        while not self._waiting:
            os.read(self._out, 4096)
        return self._waiting.popleft()

    def close(self) -> None:
        os.close(self._out)
        os.close(self._in)


class SqliteThread:
    """Begins with the first work and ends with `close`; may begin anew after that."""

    def __init__(self, name: str, connect: Callable[[], sqlite3.Connection]) -> None:
        """`connect` is called in the thread, and gives a connection in autocommit mode."""
        self._name, self._connect = name, connect
        self._jobs: Jobs | None = None
        self._thread: Thread | None = None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """What `work` returns, or raises, with the connection; raises sqlite3.Error where there is none. Who is
        cancelled while it waits does not know whether it was done."""
        return await self.begin(work)

    def begin(self, work: Callable[[sqlite3.Connection], T]) -> "asyncio.Future[T]":
        """`run` that has begun, for who has something else to do meanwhile."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._begun().put((work, future))
        return future

    def close(self) -> None:
        """Wait for what was begun, and close the connection."""
        jobs, thread, self._jobs, self._thread = self._jobs, self._thread, None, None
        if jobs is not None and thread is not None:
            jobs.put(None)
            thread.join()
            jobs.close()

    def _begun(self) -> Jobs:
        if self._jobs is None:
            self._jobs = Jobs()
            self._thread = Thread(target=self._work, args=(self._jobs,), name=self._name, daemon=True)
            self._thread.start()
        return self._jobs

    def _work(self, jobs: Jobs) -> None:
        connection: sqlite3.Connection | None = None
        while (job := jobs.get()) is not None:
            work, future = job
            try:
                connection = connection or self._connect()
                _tell(future, _succeed, work(connection))
            except Exception as error:  # noqa: BLE001  # whatever it is, it is who waits that it is raised to
                _tell(future, _fail, error)
            del job, work, future
        if connection is not None:
            connection.close()


def _tell(future: "asyncio.Future[Any]", how: Callable[["asyncio.Future[Any]", Any], None], what: Any) -> None:
    loop = future.get_loop()
    if not loop.is_closed():
        loop.call_soon_threadsafe(how, future, what)


def _succeed(future: "asyncio.Future[Any]", found: Any) -> None:
    if not future.done():
        future.set_result(found)


def _fail(future: "asyncio.Future[Any]", error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def rows_of(statement: str, values: Sequence[Any], connection: sqlite3.Connection) -> list[tuple[Any, ...]]:
    """All rows. Text that is no UTF-8 comes with surrogates for its bytes, since it must reach the digest check;
    only where there is any is the reader in Python used, which takes as long as the rest of reading a row."""
    try:
        return connection.execute(statement, values).fetchall()
    except sqlite3.OperationalError as error:
        if "UTF-8" not in str(error):
            raise
    connection.text_factory = any_text
    try:
        return connection.execute(statement, values).fetchall()
    finally:
        connection.text_factory = str


def any_text(raw: bytes) -> str:
    return str(raw, "utf-8", "surrogateescape")
