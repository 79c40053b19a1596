"""Projections: tables that are folds of the events, brought up to date, thrown away and built again.

They are for showing; a decision reads the stream itself.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Table, delete, insert, literal_column, select, text, tuple_
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


@dataclass(frozen=True, slots=True)
class Seen:
    """An event as a fold sees it; `subject` is the request that its stream begins with."""

    recorded: RecordedEvent
    event: Event
    subject: RolloutRequested


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
                yield Seen(one, typed(one), subject)


class Batch(NamedTuple):
    """Some events in order, and the position of the last that was read, be it among them or not."""

    history: Sequence[Seen]
    end: int


async def catch_up(engine: AsyncEngine, kept: Sequence[Projection]) -> int:
    """Fold the events since the last time into the tables; returns the position they now stand at."""
    async with Database(engine).writing() as connection:
        await _lock(connection)
        position = await _position(connection, kept)
        if position == 0:
            await _clear(connection, kept)
        return await _advance(connection, kept, position)


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
        return await _advance(connection, kept, position)


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


async def _advance(connection: AsyncConnection, kept: Sequence[Projection], position: int) -> int:
    async for batch in _batches(connection, position):
        for projection in kept:
            await _fold_into(connection, projection, batch.history)
        position = batch.end
    await _stand_at(connection, kept, position)
    return position


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
    while batch := await _read(connection, after, end):
        await _learn(connection, subjects, batch)
        after = batch[-1].position
        yield Batch(list(subjects.see(batch)), after)


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
