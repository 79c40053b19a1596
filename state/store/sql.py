"""The stores over SQLAlchemy: SQLite and PostgreSQL."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import TextClause, bindparam, insert, select, text, type_coerce
from sqlalchemy.dialects import postgresql
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine
from sqlalchemy.types import NullType

from state.errors import NotFound, StoreUnavailable, VersionConflict
from state.store.chain import Sealed, seal, sealed_again
from state.store.database import Database
from state.store.decoding import decode, decode_chain
from state.store.evidence import pack, unpack
from state.store.milestones import STREAMS, unfinished
from state.store.port import GENESIS, EvidenceRef, NewEvent, RecordedEvent
from state.store.single import insert_evidence, insert_single
from state.store.sqlite_thread import SqliteThread
from state.store.tables import events, evidence

HEADS_KEPT = 1024
"""Of how many streams the last digest is remembered: those that are being written to."""

LAST_CHARACTER = "\U0010ffff"
"""Above every other, and in no name: it cannot be printed."""

_HEAD = (
    select(events.c.version, events.c.digest)
    .where(events.c.stream == bindparam("stream"))
    .order_by(events.c.version.desc())
    .limit(1)
)
_POSITION = select(events.c.position).where(
    events.c.stream == bindparam("stream"), events.c.digest == bindparam("digest")
)
_INSERT = insert(events).returning(events.c.position, sort_by_parameter_order=True)
# the time as it is stored: what is not a time must reach the digest check, not fail in a converter
STORED = select(*(type_coerce(c, NullType()).label(c.name) if c.name == "recorded_at" else c for c in events.c))
_COLUMNS = [column.name for column in events.c]
_VERSION, _DIGEST = _COLUMNS.index("version"), _COLUMNS.index("digest")


def _reading(where: str) -> Mapping[str, str]:
    """For `Database.select`: the events of stream 1 for which more is so, in their order."""
    text = f"SELECT {', '.join(_COLUMNS)} FROM events WHERE stream = #1 AND {where} ORDER BY version"
    return {"sqlite": text.replace("#", "?"), "postgresql": text.replace("#", "$")}


_READ = _reading("version >= #2")
_READ_LAST = _reading("version >= (SELECT max(version) FROM events WHERE stream = #1) - #2")
READ_ALL = STORED.where(events.c.position > bindparam("after")).order_by(events.c.position).limit(bindparam("at_most"))
_BETWEEN = {
    "sqlite": "stream >= :begin AND stream < :end",
    "postgresql": "stream ~>=~ :begin AND stream ~<~ :end",  # by bytes, as its index is
}
_STREAMS = {
    dialect: text(f"SELECT stream FROM events WHERE version = 1 AND {between} ORDER BY position")
    for dialect, between in _BETWEEN.items()
}
_UNFINISHED = {
    "sqlite": text(unfinished(_BETWEEN["sqlite"], "INDEXED BY {}".format)),
    "postgresql": text(unfinished(_BETWEEN["postgresql"], lambda _: "")),
}
_KNOWN_EVIDENCE = select(evidence.c.size).where(evidence.c.digest == bindparam("digest"))
_READ_EVIDENCE = {
    "sqlite": "SELECT bytes, size FROM evidence WHERE digest = ?1",
    "postgresql": "SELECT bytes, size FROM evidence WHERE digest = $1",
}
_INSERT_EVIDENCE = postgresql.insert(evidence).on_conflict_do_nothing()


class SqlEventStore:
    """An EventStore in a database that `interlock db upgrade` has prepared. `now` gives the aware time of recording."""

    def __init__(self, engine: AsyncEngine, now: Callable[[], datetime]) -> None:
        self._database = Database(engine)
        self._now = now
        self._heads: dict[tuple[str, int], str] = {}

    async def append(self, stream: str, expected_version: int, events: Sequence[NewEvent]) -> tuple[RecordedEvent, ...]:
        """See the port. After StoreUnavailable the events may be stored or not: read the stream to know."""
        recorded = await self._append_single(stream, expected_version, events) if len(events) == 1 else None
        if recorded is None:
            recorded = await self._write(
                stream, expected_version, lambda digest: seal(stream, expected_version, digest, events, self._now())
            )
        self._remember(recorded)
        return recorded

    async def restore(self, events: Sequence[RecordedEvent]) -> tuple[RecordedEvent, ...]:
        sealed = sealed_again(events)
        return await self._write(sealed[0].stream, 0, lambda _: sealed) if sealed else ()

    async def _append_single(
        self, stream: str, expected_version: int, events: Sequence[NewEvent]
    ) -> tuple[RecordedEvent, ...] | None:
        """None if the head is not known, or is another: the long way finds out which, and says so.

        A connection that is lost meanwhile leaves open whether the event was stored; a new one can tell.
        """
        previous = GENESIS if expected_version == 0 else self._heads.get((stream, expected_version))
        if previous is None:
            return None
        sealed, contents = None, None
        try:
            async with self._database.single_writing() as connection:
                (sealed,) = seal(stream, expected_version, previous, events, self._now())
                inserting = insert_single(connection, previous, sealed)
                contents = sealed.contents()  # while the disk is waited for
                position = await inserting
        except StoreUnavailable:
            if sealed is None:
                raise
            position = await self._position_of(sealed)
        return None if position is None else (sealed.recorded(position, contents),)

    async def _position_of(self, sealed: Sealed) -> int | None:
        async with self._database.reading() as connection:
            return await connection.scalar(_POSITION, {"stream": sealed.stream, "digest": sealed.digest})

    def _remember(self, recorded: Sequence[RecordedEvent]) -> None:
        """The digest of a stream's last event; what is recorded never changes, so this cannot grow stale."""
        if recorded:
            head = recorded[-1]
            self._heads.pop((head.stream, head.version - len(recorded)), None)
            self._heads[head.stream, head.version] = head.digest
            if len(self._heads) > HEADS_KEPT:
                del self._heads[next(iter(self._heads))]

    async def _write(
        self, stream: str, expected_version: int, sealing: Callable[[str], Sequence[Sealed]]
    ) -> tuple[RecordedEvent, ...]:
        try:
            async with self._database.writing() as connection:
                version, digest = await _head(connection, stream)
                if version != expected_version:
                    raise VersionConflict(stream, expected_version, version)
                sealed = sealing(digest)
                positions = await _insert(connection, sealed)
        except IntegrityError as error:  # on PostgreSQL, somebody committed between our two statements
            raise VersionConflict(stream, expected_version, await self._version(stream)) from error
        return tuple(event.recorded(position) for position, event in zip(positions, sealed, strict=True))

    async def read(self, stream: str, after_version: int = 0) -> tuple[RecordedEvent, ...]:
        # one event more at the front: the chain hangs on its digest
        first = max(0, after_version)
        rows = await self._database.select(_READ, stream, first)
        read = _decode_from(stream, rows, first)
        self._remember(read)
        return read

    async def read_last(self, stream: str, count: int) -> tuple[RecordedEvent, ...]:
        rows = await self._database.select(_READ_LAST, stream, count)
        read = _decode_from(stream, rows, max(0, rows[-1][_VERSION] - count) if rows else 0)
        self._remember(read)
        return read

    async def read_all(self, after_position: int = 0, limit: int = 1000) -> tuple[RecordedEvent, ...]:
        async with self._database.reading() as connection:
            rows = (await connection.execute(READ_ALL, {"after": after_position, "at_most": limit})).all()
        return tuple(decode(row) for row in rows)

    async def streams(self, prefix: str = "") -> tuple[str, ...]:
        return await self._named(_STREAMS, prefix)

    async def unfinished(self) -> tuple[str, ...]:
        return await self._named(_UNFINISHED, STREAMS)

    async def _named(self, statements: Mapping[str, TextClause], prefix: str) -> tuple[str, ...]:
        async with self._database.reading() as connection:
            bounds = {"begin": prefix, "end": prefix + LAST_CHARACTER}
            return tuple((await connection.execute(statements[connection.dialect.name], bounds)).scalars())

    async def _version(self, stream: str) -> int:
        async with self._database.reading() as connection:
            return (await _head(connection, stream))[0]


class SqlEvidenceStore:
    """An EvidenceStore in the same database. Redaction and compression run in a thread, not in the event loop."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._database = Database(engine)

    async def put(self, data: bytes, media_type: str) -> EvidenceRef:
        packed = await asyncio.to_thread(pack, data, media_type)
        ref = packed.ref
        row = {"digest": ref.digest, "media_type": media_type, "bytes": packed.zstd, "size": ref.size}
        if self._database.has_thread:
            async with self._database.single_writing() as writer:
                assert isinstance(writer, SqliteThread)  # it has one
                await insert_evidence(writer, row)
            return ref
        async with self._database.writing() as connection:
            if (await connection.execute(_KNOWN_EVIDENCE, {"digest": ref.digest})).first() is None:
                # the same bytes may be stored by another process at the same instant: one of the two does nothing
                await connection.execute(_INSERT_EVIDENCE, row)
        return ref

    async def get(self, digest: str) -> bytes:
        rows = await self._database.select(_READ_EVIDENCE, digest)
        if not rows:
            raise NotFound("evidence", digest)
        packed, size = rows[0]
        return await asyncio.to_thread(unpack, digest, packed, size)


def _decode_from(stream: str, rows: Sequence[Sequence[Any]], first: int) -> tuple[RecordedEvent, ...]:
    if first == 0 or not rows:
        return decode_chain(stream, rows, GENESIS, first)
    anchor, *rest = rows
    if anchor[_VERSION] != first:
        return decode_chain(stream, rows, GENESIS, first - 1)  # raises: the event before is missing
    return decode_chain(stream, rest, anchor[_DIGEST], first)


async def _head(connection: AsyncConnection, stream: str) -> tuple[int, str]:
    row = (await connection.execute(_HEAD, {"stream": stream})).first()
    return (row.version, row.digest) if row else (0, GENESIS)


async def _insert(connection: AsyncConnection, sealed: Sequence[Sealed]) -> Sequence[int]:
    if not sealed:
        return ()
    positions = await connection.scalars(_INSERT, [_row(event) for event in sealed])
    return list(positions)


def _row(event: Sealed) -> dict[str, Any]:
    return {name: getattr(event, name) for name in Sealed.__slots__}
