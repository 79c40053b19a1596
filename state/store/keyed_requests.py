"""Requests under an idempotency key: one row for each, claimed by an insert, so that of two at once one is first."""

from datetime import datetime, timedelta

from sqlalchemy import delete, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncEngine

from state.model import Value
from state.store.database import Database
from state.store.tables import keyed_requests as table

_CLAIM = {
    "sqlite": sqlite.insert(table).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(table).on_conflict_do_nothing(),
}


class KeyedRequest(Value):
    """`rollout` is the id that a rollout begun by the request has; `status` and `answer` (JSON text) are None until
    it is answered."""

    token: str
    key: str
    fingerprint: str
    rollout: str
    status: int | None = None
    answer: str | None = None
    made_at: datetime


class KeyedRequests:
    """Keyed requests in the event store's database."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._database = Database(engine)

    async def claim(self, wanted: KeyedRequest, lifetime: timedelta) -> tuple[KeyedRequest, bool]:
        """The request that has the key, and whether it is this one; those older than `lifetime` are forgotten."""
        async with self._database.writing() as connection:
            await connection.execute(delete(table).where(table.c.made_at < wanted.made_at - lifetime))
            claimed = await connection.execute(_CLAIM[connection.dialect.name], wanted.model_dump())
            found = await connection.execute(
                select(table).where(table.c.token == wanted.token, table.c.key == wanted.key)
            )
            return KeyedRequest.model_validate(dict(found.mappings().one())), claimed.rowcount == 1

    async def find(self, token: str, key: str) -> KeyedRequest | None:
        async with self._database.reading() as connection:
            found = await connection.execute(select(table).where(table.c.token == token, table.c.key == key))
            row = found.mappings().first()
        return KeyedRequest.model_validate(dict(row)) if row else None

    async def answer(self, request: KeyedRequest, status: int, answer: str) -> None:
        """Keep what was answered; the first answer stays."""
        own = (table.c.token == request.token, table.c.key == request.key, table.c.status.is_(None))
        async with self._database.writing() as connection:
            await connection.execute(update(table).where(*own).values(status=status, answer=answer))

    async def forget(self, request: KeyedRequest) -> None:
        """Free the key of a request that began nothing."""
        own = (table.c.token == request.token, table.c.key == request.key, table.c.status.is_(None))
        async with self._database.writing() as connection:
            await connection.execute(delete(table).where(*own))
