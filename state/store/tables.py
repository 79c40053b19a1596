"""The tables of the store; `alembic/versions` holds how they came to be, and a test holds the two together."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
    text,
)
from sqlalchemy.types import TypeEngine

from state.store.chain import utc_text

REVISIONS = ("0001",)
"""Every schema revision in order; the last is the one this program works with."""

VERSION_TABLE = "interlock_version"
"""Not alembic's own name for it: another program's migrations may live in the same PostgreSQL database."""

TRIGGERS = {
    "sqlite": (
        "events_no_update",
        "events_no_delete",
        "events_no_replace",
        "evidence_no_update",
        "evidence_no_delete",
        "evidence_no_replace",
    ),
    "postgresql": ("events_append_only", "evidence_append_only", "events_append_in_order"),
}
"""What keeps the tables append-only and in order, by dialect; made by the migrations."""

POSITION = BigInteger().with_variant(Integer, "sqlite")
"""SQLite gives rising numbers by itself to a column declared INTEGER PRIMARY KEY, and to no other."""

ONLY_FIRST = text("version = 1")


class UtcTime(TypeDecorator[datetime]):
    """An aware time: `timestamptz` on PostgreSQL, ISO 8601 text in UTC with microseconds on SQLite."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(String(32) if dialect.name == "sqlite" else DateTime(timezone=True))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:
        return utc_text(value) if value is not None and dialect.name == "sqlite" else value

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:
        return datetime.fromisoformat(value) if isinstance(value, str) else value


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

events = Table(
    "events",
    metadata,
    Column("position", POSITION, primary_key=True, autoincrement=True),
    Column("stream", Text, nullable=False),
    Column("version", Integer, nullable=False),
    Column("type", Text, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("data", Text, nullable=False),
    Column("metadata", Text, nullable=False),
    Column("recorded_at", UtcTime, nullable=False),
    Column("digest", String(64), nullable=False),
    UniqueConstraint("stream", "version"),
    Index("ix_events_first", "position", sqlite_where=ONLY_FIRST, postgresql_where=ONLY_FIRST),
    sqlite_autoincrement=True,
)
"""`data` and `metadata` are canonical JSON as text: `jsonb` would rewrite numbers and refuse what JSON allows."""

evidence = Table(
    "evidence",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("media_type", Text, nullable=False),
    Column("bytes", LargeBinary, nullable=False),
    Column("size", POSITION, nullable=False),
)
"""`bytes` is one zstd frame; `digest` and `size` are of what is in it."""
