"""The one door to the stores: check that the database is there and at the right schema, then hand both out."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from state.errors import StoreOutdated
from state.store.database import Database, create_engine, place_of, revision_of
from state.store.sql import SqlEventStore, SqlEvidenceStore
from state.store.tables import REVISIONS


class Stores(NamedTuple):
    events: SqlEventStore
    evidence: SqlEvidenceStore
    engine: AsyncEngine


@asynccontextmanager
async def open_stores(url: str, now: Callable[[], datetime]) -> AsyncIterator[Stores]:
    """Both stores of the database at `url` (`sqlite:///…` or `postgresql://…`), closed when the block ends.

    Raises StoreUnavailable, and StoreOutdated unless `interlock db upgrade` has prepared it for this program.
    """
    engine = create_engine(url)
    try:
        await _check_schema(engine)
        yield Stores(SqlEventStore(engine, now), SqlEvidenceStore(engine), engine)
    finally:
        await engine.dispose()


async def _check_schema(engine: AsyncEngine) -> None:
    found = ""
    if not _file_is_missing(engine.url):  # connecting would create it
        async with Database(engine).reading() as connection:
            found = await connection.run_sync(revision_of)
    if found != REVISIONS[-1]:
        raise StoreOutdated(place_of(engine.url), found, REVISIONS)


def _file_is_missing(url: URL) -> bool:
    return url.get_backend_name() == "sqlite" and not Path(url.database or "").exists()
