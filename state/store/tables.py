"""The tables of the store; `alembic/versions` holds how they came to be, and a test holds the two together."""

from datetime import datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Float,
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
from state.store.milestones import MILESTONE

REVISIONS = ("0001", "0002", "0003", "0004", "0005", "0006")
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
ONLY_MILESTONES = text(MILESTONE)


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
    Index(
        "ix_events_first_stream",
        "stream",
        "position",
        postgresql_ops={"stream": "text_pattern_ops"},
        sqlite_where=ONLY_FIRST,
        postgresql_where=ONLY_FIRST,
    ),
    Index(
        "ix_events_milestones",
        "stream",
        "version",
        "type",
        sqlite_where=ONLY_MILESTONES,
        postgresql_where=ONLY_MILESTONES,
    ),
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

projections = Table(
    "projections",
    metadata,
    Column("name", Text, primary_key=True),
    Column("position", POSITION, nullable=False),
)
"""How far each projection has taken in the events."""

services = Table(
    "services",
    metadata,
    Column("service", Text, primary_key=True),
    Column("stream", Text, nullable=False),
    Column("rollout", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("revision", String(64)),
    Column("revision_since", UtcTime),
    Column("updated_at", UtcTime, nullable=False),
)
"""What each service stands at: its newest rollout, how that stands or ended, the revision last proven, since when."""

rollouts = Table(
    "rollouts",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("rollout", Text, nullable=False),
    Column("service", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("revision", String(64), nullable=False),
    Column("actor", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("action", Text),
    Column("verdict", Text),
    Column("error_code", Text),
    Column("error", Text),
    Column("summary", Text),
    Column("exit_code", Integer),
    Column("dark_s", Float),
    Column("engine_version", Text),
    Column("version", Integer, nullable=False),
    Column("requested_at", UtcTime, nullable=False),
    Column("updated_at", UtcTime, nullable=False),
    Column("concluded_at", UtcTime),
    Column("quarantined", Text),
    Index("ix_rollouts_service_requested_at", "service", "requested_at"),
    Index("ix_rollouts_requested_at", "requested_at"),
)
"""Each rollout as a line. `state` is `requested`, `planned`, `running`, `holding` (it asks a person), or the ending;
`summary` is the question, then the ending's sentence; `error` is the first failure;
`quarantined` are devices that nobody has cleared since, as `ADDRESS on HOST, ...`."""

acceptance = Table(
    "acceptance",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("side", Text, primary_key=True),
    Column("round", Integer, primary_key=True),
    Column("service", Text, nullable=False),
    Column("metric", Text, nullable=False),
    Column("accept_length", Float, nullable=False),
    Column("sample", Integer, nullable=False),
    Column("judged_at", UtcTime, nullable=False),
    Index("ix_acceptance_service_judged_at", "service", "judged_at"),
)
"""The mean accept length at each judgement that knew one: tokens for each target step, bonus included."""

figures = Table(
    "figures",
    metadata,
    Column("stream", Text, primary_key=True),
    Column("metric", Text, primary_key=True),
    Column("service", Text, nullable=False),
    Column("engine", Text, nullable=False),
    Column("engine_version", Text),
    Column("model", Text),
    Column("concurrency", Integer, nullable=False),
    Column("context_length", Integer),
    Column("unit", Text, nullable=False),
    Column("value", Float),
    Column("sample", Integer),
    Column("baseline", Float),
    Column("baseline_sample", Integer),
    Column("judged_at", UtcTime),
    Index("ix_figures_service_metric_judged_at", "service", "metric", "judged_at"),
)
"""What each rollout measured of its new side, and of the old one before: means of samples, null until they are judged.
`context_length` is the one asked for, null for the model's own."""

tokens = Table(
    "tokens",
    metadata,
    Column("id", String(16), primary_key=True),
    Column("name", Text, nullable=False),
    Column("digest", String(64), nullable=False),
    Column("scopes", Text, nullable=False),
    Column("created_at", UtcTime, nullable=False),
    Column("expires_at", UtcTime),
    Column("revoked_at", UtcTime),
    Column("last_used_at", UtcTime),
    UniqueConstraint("name"),
)
"""Tokens of the HTTP API: never the secret, only its SHA-256. A name is never given twice, since events name it."""

keyed_requests = Table(
    "keyed_requests",
    metadata,
    Column("token", String(16), primary_key=True),
    Column("key", Text, primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("rollout", Text, nullable=False),
    Column("status", Integer),
    Column("answer", Text),
    Column("made_at", UtcTime, nullable=False),
    Index("ix_keyed_requests_made_at", "made_at"),
)
"""What each token asked for under an idempotency key: a fingerprint of the request, the id that a rollout of it gets,
and the answer once there is one."""
