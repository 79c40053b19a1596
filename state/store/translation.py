"""What the errors of the databases and of their drivers mean here."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.engine import URL
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError, SQLAlchemyError

from state.errors import StoreOutdated, StoreUnavailable
from state.store.tables import REVISIONS

_NO_TABLE = ("no such table", "UndefinedTableError")
_DISK_FULL = ("database or disk is full", "No space left on device")
"""SQLite's words for SQLITE_FULL, and the kernel's for ENOSPC, which PostgreSQL passes on."""


def place_of(url: URL) -> str:
    """The database as a person knows it: a file's path, or the URL without its password."""
    return url.database or "" if url.get_backend_name() == "sqlite" else url.render_as_string(hide_password=True)


@contextmanager
def translated(url: URL) -> Iterator[None]:
    """Turn a driver's errors into the store's own, narrowest first."""
    try:
        yield
    except (IntegrityError, DataError):
        raise
    except DBAPIError as error:
        if isinstance(error, ProgrammingError) and not _lacks_table(error.orig):
            raise
        raise _meaning(error.orig or error, url) from error
    except _foreign_errors(url) as error:
        raise _meaning(error, url) from error


def _meaning(error: BaseException, url: URL) -> StoreOutdated | StoreUnavailable:
    if _lacks_table(error):
        return StoreOutdated(place_of(url), "", REVISIONS)
    if any(sign in str(error) for sign in _DISK_FULL):
        return StoreUnavailable(_said(error), hint=f"free space on the disk of {place_of(url)}")
    return StoreUnavailable(_said(error))


def _lacks_table(error: BaseException | None) -> bool:
    text = f"{type(error).__name__}: {error}"
    return any(sign in text for sign in _NO_TABLE)


def _foreign_errors(url: URL) -> tuple[type[Exception], ...]:
    """SQLAlchemy's own, and what comes past it: while a driver connects, gives up waiting, or is used directly."""
    if url.get_backend_name() == "sqlite":
        return (SQLAlchemyError, OSError, sqlite3.Error)
    import asyncpg  # type: ignore[import-untyped]  # it ships no types; imported here, for SQLite starts without it

    return (SQLAlchemyError, OSError, asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError)


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
