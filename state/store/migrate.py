"""Bringing a store's schema to what this program needs, from a checkout or from an installed wheel."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from sqlalchemy import Connection, text

from state.errors import StoreOutdated, StoreUnavailable
from state.store.database import Database, create_engine, place_of, revision_of, store_url
from state.store.tables import REVISIONS, TRIGGERS, VERSION_TABLE, metadata

T = TypeVar("T")

_MIGRATION_LOCK = 0x696C6B
"""One number for every migration of a PostgreSQL database: two upgrades at once come one after the other."""

_TRIGGER_NAMES = {
    "sqlite": "SELECT name FROM sqlite_master WHERE type = 'trigger'",
    "postgresql": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal AND tgenabled <> 'D'",
}


def scripts(here: Path) -> Path:
    """The folder of migrations for this module at `here`: inside the wheel, else beside the checkout's rooms."""
    packaged = here.parents[1] / "_migrations"
    return packaged if packaged.is_dir() else here.parents[2] / "alembic"


async def upgrade(url: str) -> str:
    """Bring the store to the newest schema, creating an SQLite file (0600) that is missing; returns the revision.

    Any number of processes may do so at once. Raises StoreUnavailable, and StoreOutdated if the store is newer.
    """
    try:
        _create_file(url)
    except OSError as error:
        raise StoreUnavailable(str(error)) from error
    return await _connected(url, _upgrade)


async def current(url: str) -> str:
    """The store's schema revision, "" if there is none; raises StoreUnavailable."""
    return await _connected(url, revision_of)


async def check(url: str) -> tuple[str, ...]:
    """What this program's tables and triggers and the store's differ in: a line each, none if they agree.

    Raises StoreUnavailable, and StoreOutdated unless the store is at the newest schema.
    """
    return await _connected(url, _differences)


async def _connected(url: str, work: Callable[[Connection], T]) -> T:
    engine = create_engine(url)
    try:
        async with Database(engine).writing() as connection:
            return await connection.run_sync(work)
    finally:
        await engine.dispose()


def _upgrade(connection: Connection) -> str:
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({_MIGRATION_LOCK})"))
    found = revision_of(connection)
    if found and found not in REVISIONS:
        raise StoreOutdated(place_of(connection.engine.url), found, REVISIONS)
    command.upgrade(_config(connection), "head")
    return revision_of(connection)


def _config(connection: Connection) -> Config:
    config = Config()
    config.set_main_option("script_location", str(scripts(Path(__file__))).replace("%", "%%"))
    config.attributes["connection"] = connection
    return config


def _differences(connection: Connection) -> tuple[str, ...]:
    found = revision_of(connection)
    if found != REVISIONS[-1]:
        raise StoreOutdated(place_of(connection.engine.url), found, REVISIONS)
    options = {"compare_type": True, "compare_server_default": True, "version_table": VERSION_TABLE}
    tables = compare_metadata(MigrationContext.configure(connection, opts=options), metadata)
    names = set(connection.scalars(text(_TRIGGER_NAMES[connection.dialect.name])))
    missing = [name for name in TRIGGERS[connection.dialect.name] if name not in names]
    return (*(repr(difference) for difference in tables), *(f"trigger {name} is missing" for name in missing))


def _create_file(url: str) -> None:
    parsed = store_url(url)
    if parsed.get_backend_name() == "sqlite":
        path = Path(parsed.database or "")
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)  # its -wal and -shm files take the same mode
