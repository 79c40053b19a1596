"""Copies of an SQLite store: taken while it is written to, and put where no store is yet.

PostgreSQL has programs of its own for both (docs/guides/backup.md).
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from state.errors import Refused, StoreOutdated, StoreUnavailable, UsageInvalid
from state.store import migrate
from state.store.connect import open_stores
from state.store.database import BUSY_TIMEOUT_S, place_of, store_url
from state.store.tables import REVISIONS, VERSION_TABLE
from state.store.verification import verify_history


@dataclass(frozen=True, slots=True)
class Copied:
    """What is in a copy; `size` of the file in bytes."""

    schema: str
    events: int
    size: int


@dataclass(frozen=True, slots=True)
class Restored:
    """`unfinished` are the streams of rollouts that had not ended when the backup was made."""

    schema: str
    streams: int
    events: int
    unfinished: tuple[str, ...]


async def back_up(url: str, path: Path) -> Copied:
    """Copy the store at `url` to `path`, whole and as it is at one moment, while others go on writing to it.

    Raises UsageInvalid for a store that is no SQLite file, or a place that cannot be written; Refused if `path` is
    there already; StoreOutdated if there is no store yet; StoreUnavailable for one that is damaged.
    """
    source = _file_of(url)
    return await asyncio.to_thread(_back_up, source, path)


async def restore(url: str, path: Path, now: Callable[[], datetime]) -> Restored:
    """Make the store at `url` from a backup, brought to this program's schema, every digest checked before it is there.

    Raises UsageInvalid as `back_up`; Refused if there is a store already; StoreOutdated for a newer one or for a file
    without one; StoreUnavailable for a damaged one; HistoryCorrupt for a history that is not as it was recorded.
    """
    target = _file_of(url)
    with _placed(target) as part:
        await asyncio.to_thread(_copy, path, part)
        await migrate.upgrade(f"sqlite:///{part}")
        async with open_stores(f"sqlite:///{part}", now) as stores:
            checked = await verify_history(stores.events)
            for fault in checked.faults:
                raise fault
            unfinished = await stores.events.unfinished()
        await asyncio.to_thread(_settle, part)
    return Restored(REVISIONS[-1], checked.streams, checked.events, unfinished)


def _file_of(url: str) -> Path:
    parsed = store_url(url)
    if parsed.get_backend_name() != "sqlite":
        raise UsageInvalid(
            f"{place_of(parsed)} is backed up and restored by PostgreSQL's own programs",
            hint="pg_dump --format=custom and pg_restore: see docs/guides/backup.md",
        )
    return Path(parsed.database or "")


def _back_up(source: Path, path: Path) -> Copied:
    with _placed(path) as part:
        _copy(source, part)
        with _said(part), closing(sqlite3.connect(part)) as copy:
            (schema,) = copy.execute(f"SELECT version_num FROM {VERSION_TABLE}").fetchone()
            (events,) = copy.execute("SELECT count(*) FROM events").fetchone()
        _settle(part)
    return Copied(schema, events, path.stat().st_size)


@contextmanager
def _placed(path: Path) -> Iterator[Path]:
    """A private file beside `path`, which takes its place at the end, unless something is there already."""
    part = path.with_name(f".{path.name}.part")
    try:
        if path.exists():
            raise _taken(path)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _remove(part)
        part.touch(mode=0o600)
        try:
            yield part
            os.link(part, path)  # a rename would take the place of what came meanwhile
            _to_disk(path.parent)
        finally:
            _remove(part)
    except FileExistsError as error:
        raise _taken(path) from error
    except OSError as error:
        raise UsageInvalid(
            f"Cannot write {path}: {error.strerror}", hint="name a file in a folder of your own"
        ) from error


def _taken(path: Path) -> Refused:
    return Refused(f"{path} is there already, and nothing was written", hint="name another file, or move it away first")


def _remove(part: Path) -> None:
    for name in (part, *(part.with_name(part.name + suffix) for suffix in ("-wal", "-shm", "-journal"))):
        name.unlink(missing_ok=True)


def _copy(source: Path, part: Path) -> None:
    """All pages in one step: writers go on in the log beside it, and what they commit meanwhile is not in the copy."""
    if not source.exists():
        raise StoreOutdated(str(source), "", REVISIONS)
    with _said(source), closing(_connected(source)) as stored, closing(sqlite3.connect(part)) as copy:
        stored.backup(copy)
        found = copy.execute("PRAGMA quick_check(1)").fetchone()
        if found != ("ok",):
            raise StoreUnavailable(f"{source} is damaged: {found[0]}", hint="restore a backup of before")
        tables = {name for (name,) in copy.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        if not {VERSION_TABLE, "events"} <= tables:
            raise StoreOutdated(str(source), "", REVISIONS)


def _connected(source: Path) -> sqlite3.Connection:
    return sqlite3.connect(source.absolute().as_uri() + "?mode=ro", uri=True, timeout=BUSY_TIMEOUT_S)


@contextmanager
def _said(place: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.Error as error:
        raise StoreUnavailable(f"{place}: {error}", hint="name an SQLite store, and see that it can be read") from error


def _settle(part: Path) -> None:
    """One file on disk, without a log beside it."""
    with _said(part), closing(sqlite3.connect(part)) as copy:
        copy.execute("PRAGMA journal_mode=DELETE")
    _to_disk(part)


def _to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
