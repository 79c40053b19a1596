"""Projections: tables that are folds of the events, brought up to date, thrown away and built again.

They are for showing; a decision reads the stream itself.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Table, delete, func, insert, literal_column, select, text, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from state.events import Event, RolloutRequested
from state.events import decode as typed
from state.store.database import Database
from state.store.decoding import decode
from state.store.port import RecordedEvent
from state.store.sql import READ_ALL, STORED
from state.store.tables import events
from state.store.tables import projections as checkpoints

Row = Mapping[str, Any]
Key = tuple[Any, ...]
BATCH = 1000
_NEWEST = select(func.max(events.c.position))


@dataclass(frozen=True)
class Seen:
    """An event as a fold sees it; `subject` is the request that its stream begins with."""

    recorded: RecordedEvent
    subject: RolloutRequested

    @cached_property
    def event(self) -> Event:
        """Raises HistoryCorrupt. Plans and judgements are large, and most folds pass over most events."""
        return typed(self.recorded)


@dataclass(frozen=True, slots=True)
class Projection:
    """A table as the fold of the events whose types are in `types`.

    `keys` gives the primary keys of the rows that an event is about, `apply` such a row after it (None: there is none).
    Both are pure, and `apply` is total.
    """

    table: Table
    types: frozenset[str]
    keys: Callable[[Seen], Iterable[Key]]
    apply: Callable[[Row | None, Seen, Key], Row | None]

    @property
    def name(self) -> str:
        return self.table.name

    @property
    def key_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.table.primary_key)

    def fold(self, history: Iterable[Seen], rows: Mapping[Key, Row] | None = None) -> dict[Key, Row]:
        """`rows` by their keys after the events of `history`."""
        folded = dict(rows or {})
        for seen in history:
            if seen.recorded.type in self.types:
                for key in self.keys(seen):
                    if (row := self.apply(folded.get(key), seen, key)) is not None:
                        folded[key] = row
        return folded


@dataclass(slots=True)
class Subjects:
    """Which request each stream begins with; streams that begin with anything else are about no rollout."""

    known: dict[str, RolloutRequested | None] = field(default_factory=dict)

    def learn(self, first: RecordedEvent) -> None:
        event = typed(first) if first.type == RolloutRequested.wire else None
        self.known[first.stream] = event if isinstance(event, RolloutRequested) else None

    def see(self, recorded: Iterable[RecordedEvent]) -> Iterator[Seen]:
        """The events about rollouts; the first events of all the streams must have been learnt."""
        for one in recorded:
            subject = self.known.get(one.stream)
            if subject is not None:
                yield Seen(one, subject)

    def keep(self, streams: Set[str]) -> None:
        """Forget all others: a large store has more requests than memory should hold."""
        self.known = {stream: subject for stream, subject in self.known.items() if stream in streams}


class Batch(NamedTuple):
    """Some events in order, and the position of the last that was read, be it among them or not."""

    history: Sequence[Seen]
    end: int


async def catch_up(engine: AsyncEngine, kept: Sequence[Projection]) -> int:
    """Fold the events since the last time into the tables; returns the position they now stand at.

    Each batch is a transaction of its own, so that no writer waits for long; where nothing is new, nothing is written.
    """
    database, subjects = Database(engine), Subjects()
    async with database.reading() as connection:
        position = await _position(connection, kept)
        if position and position == await connection.scalar(_NEWEST):
            return position
    while True:
        async with database.writing() as connection:
            await _lock(connection)
            position = await _position(connection, kept)
            if position == 0:
                await _clear(connection, kept)
            batch = await _batch(connection, subjects, position)
            if batch is None:
                return position
            await _take_in(connection, kept, batch)


async def rebuild(engine: AsyncEngine, kept: Sequence[Projection]) -> int:
    """Fold every event again, and put the result in the place of what the tables held; returns their position.

    The long part, the fold, holds up no writer.
    """
    async with Database(engine).reading() as connection:
        folded, position = await _refold(connection, kept)
    async with Database(engine).writing() as connection:
        await _lock(connection)
        await _clear(connection, kept)
        for projection in kept:
            await _insert(connection, projection, folded[projection.name].values())
        await _stand_at(connection, kept, position)
    return await catch_up(engine, kept)


async def differences(engine: AsyncEngine, kept: Sequence[Projection]) -> tuple[str, ...]:
    """A sentence for each row that a rebuild would change; none if the tables are what the events say."""
    async with Database(engine).reading() as connection:
        await _hold_view(connection)
        folded, _ = await _refold(connection, kept, await _position(connection, kept))
        stored = {projection.name: await _stored(connection, projection) for projection in kept}
    return tuple(said for name, built in folded.items() for said in _compare(name, built, stored[name]))


async def rows(engine: AsyncEngine, table: Table, **equal: Any) -> tuple[dict[str, Any], ...]:
    """The rows of a projection's table whose columns are `equal`, in the order of the primary key."""
    wanted = [table.c[name] == value for name, value in equal.items()]
    async with Database(engine).reading() as connection:
        found = await connection.execute(select(table).where(*wanted).order_by(*table.primary_key))
        return tuple(dict(row) for row in found.mappings())


async def _take_in(connection: AsyncConnection, kept: Sequence[Projection], batch: Batch) -> None:
    for projection in kept:
        await _fold_into(connection, projection, batch.history)
    await _stand_at(connection, kept, batch.end)


async def _fold_into(connection: AsyncConnection, projection: Projection, history: Sequence[Seen]) -> None:
    touched = {key for seen in history if seen.recorded.type in projection.types for key in projection.keys(seen)}
    if touched:
        built = projection.fold(history, await _stored(connection, projection, touched))
        await connection.execute(delete(projection.table).where(_key_in(projection, touched)))
        await _insert(connection, projection, built.values())


async def _refold(
    connection: AsyncConnection, kept: Sequence[Projection], end: int | None = None
) -> tuple[dict[str, dict[Key, Row]], int]:
    folded: dict[str, dict[Key, Row]] = {projection.name: {} for projection in kept}
    position = 0
    async for batch in _batches(connection, 0, end):
        for projection in kept:
            folded[projection.name] = projection.fold(batch.history, folded[projection.name])
        position = batch.end
    return folded, position


async def _batches(connection: AsyncConnection, after: int, end: int | None = None) -> AsyncIterator[Batch]:
    """The events after one position, up to and with another."""
    subjects = Subjects()
    while batch := await _batch(connection, subjects, after, end):
        yield batch
        after = batch.end


async def _batch(connection: AsyncConnection, subjects: Subjects, after: int, end: int | None = None) -> Batch | None:
    """The next events, None if there are none; `subjects` are taken over from batch to batch."""
    found = await _read(connection, after, end)
    if not found:
        return None
    subjects.keep({one.stream for one in found})
    await _learn(connection, subjects, found)
    return Batch(list(subjects.see(found)), found[-1].position)


async def _read(connection: AsyncConnection, after: int, end: int | None) -> list[RecordedEvent]:
    found = await connection.execute(READ_ALL, {"after": after, "at_most": BATCH})
    return [decode(row) for row in found if end is None or row.position <= end]


async def _learn(connection: AsyncConnection, subjects: Subjects, batch: Sequence[RecordedEvent]) -> None:
    for one in batch:
        if one.version == 1:
            subjects.learn(one)
    unknown = {one.stream for one in batch} - set(subjects.known)
    if unknown:
        firsts = STORED.where(literal_column("version = 1"), events.c.stream.in_(unknown))
        for row in await connection.execute(firsts):
            subjects.learn(decode(row))


async def _stored(
    connection: AsyncConnection, projection: Projection, keys: Iterable[Key] | None = None
) -> dict[Key, Row]:
    wanted = select(projection.table)
    found = await connection.execute(wanted if keys is None else wanted.where(_key_in(projection, keys)))
    return {tuple(row[name] for name in projection.key_columns): dict(row) for row in found.mappings()}


async def _insert(connection: AsyncConnection, projection: Projection, built: Iterable[Row]) -> None:
    if values := [dict(row) for row in built]:
        await connection.execute(insert(projection.table), values)


def _key_in(projection: Projection, keys: Iterable[Key]) -> ColumnElement[bool]:
    return tuple_(*projection.table.primary_key).in_(list(keys))


async def _position(connection: AsyncConnection, kept: Sequence[Projection]) -> int:
    """Where they stand together; 0, which has all folded again, if one is new."""
    names = [projection.name for projection in kept]
    found = (await connection.scalars(select(checkpoints.c.position).where(checkpoints.c.name.in_(names)))).all()
    return min(found) if len(found) == len(names) and len(set(found)) == 1 else 0


async def _clear(connection: AsyncConnection, kept: Sequence[Projection]) -> None:
    for projection in kept:
        await connection.execute(delete(projection.table))


async def _stand_at(connection: AsyncConnection, kept: Sequence[Projection], position: int) -> None:
    names = [projection.name for projection in kept]
    await connection.execute(delete(checkpoints).where(checkpoints.c.name.in_(names)))
    await connection.execute(insert(checkpoints), [{"name": name, "position": position} for name in names])


async def _lock(connection: AsyncConnection) -> None:
    """One fold at a time. SQLite has let in one writer already."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text(f"LOCK TABLE {checkpoints.name} IN EXCLUSIVE MODE"))


async def _hold_view(connection: AsyncConnection) -> None:
    """Every statement of this transaction sees the same moment, as SQLite's do anyway."""
    if connection.dialect.name == "postgresql":
        await connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


def _compare(name: str, built: Mapping[Key, Row], stored: Mapping[Key, Row]) -> Iterator[str]:
    for key in sorted({*built, *stored}):
        shown = f"{name} {'/'.join(map(str, key))}"
        if key not in stored:
            yield f"{shown}: the events say there is one, the table has none"
        elif key not in built:
            yield f"{shown}: the table has one that no event speaks of"
        else:
            yield from (
                f"{shown}: {column} is {stored[key][column]!r}, the events say {value!r}"
                for column, value in built[key].items()
                if stored[key][column] != value
            )
