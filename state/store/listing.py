"""Pages of the rollouts table, and where the history ends: what is asked for often, and must stay cheap."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncEngine

from state.store.database import Database
from state.store.tables import events, rollouts


class After(NamedTuple):
    """The last line of a page: the next one begins after it."""

    requested_at: datetime
    stream: str


async def last_position(engine: AsyncEngine) -> int:
    """The position of the newest event, 0 if there is none. Raises StoreUnavailable, StoreOutdated."""
    async with Database(engine).reading() as connection:
        return await connection.scalar(select(func.max(events.c.position))) or 0


async def measures(engine: AsyncEngine) -> tuple[Mapping[str, Any], ...]:
    """Of every rollout what is counted and measured: a few columns, since there may be very many rows."""
    names = ("service", "purpose", "state", "requested_at", "concluded_at", "dark_s")
    wanted = select(*(rollouts.c[name] for name in names))
    async with Database(engine).reading() as connection:
        return tuple(dict(zip(names, row, strict=True)) for row in await connection.execute(wanted))


async def rollout_page(
    engine: AsyncEngine, limit: int | None, after: After | None = None, **equal: str | None
) -> tuple[Mapping[str, Any], ...]:
    """Rollouts, newest first, at most `limit`, whose columns are `equal` (None: any), `after` another one."""
    wanted = select(rollouts).where(*[rollouts.c[name] == v for name, v in equal.items() if v is not None])
    order = tuple_(rollouts.c.requested_at, rollouts.c.stream)
    if after is not None:
        wanted = wanted.where(order < tuple_(*_bound(after)))
    wanted = wanted.order_by(rollouts.c.requested_at.desc(), rollouts.c.stream.desc()).limit(limit)
    async with Database(engine).reading() as connection:
        return tuple(dict(row) for row in (await connection.execute(wanted)).mappings())


def _bound(after: After) -> tuple[Any, Any]:
    at = bindparam("after_at", after.requested_at, rollouts.c.requested_at.type)
    return at, bindparam("after_stream", after.stream, rollouts.c.stream.type)
