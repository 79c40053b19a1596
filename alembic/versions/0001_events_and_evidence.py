"""Events and evidence, append-only by the database's own word."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
FIRST = sa.text("version = 1")

# BEFORE INSERT as well, on SQLite: INSERT OR REPLACE deletes the old row without asking a DELETE trigger
SQLITE = (
    """CREATE TRIGGER events_no_update BEFORE UPDATE ON events
       BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER events_no_delete BEFORE DELETE ON events
       BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER events_no_replace BEFORE INSERT ON events
       WHEN EXISTS (SELECT 1 FROM events
                    WHERE position = NEW.position OR (stream = NEW.stream AND version = NEW.version))
       BEGIN SELECT RAISE(ABORT, 'events are append-only'); END""",
    """CREATE TRIGGER evidence_no_update BEFORE UPDATE ON evidence
       BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END""",
    """CREATE TRIGGER evidence_no_delete BEFORE DELETE ON evidence
       BEGIN SELECT RAISE(ABORT, 'evidence is append-only'); END""",
    """CREATE TRIGGER evidence_no_replace BEFORE INSERT ON evidence
       WHEN EXISTS (SELECT 1 FROM evidence WHERE digest = NEW.digest)
       BEGIN SELECT RAISE(IGNORE); END""",
)

# The lock is taken before the statement draws a position, and released after its transaction can be seen: positions
# become visible in their order, so that a reader which goes on from the last one it saw misses none.
POSTGRESQL = (
    """CREATE FUNCTION interlock_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
         RAISE EXCEPTION '% are append-only', TG_TABLE_NAME USING ERRCODE = 'integrity_constraint_violation';
       END $$""",
    """CREATE FUNCTION interlock_append_in_order() RETURNS trigger LANGUAGE plpgsql AS $$
       BEGIN
         PERFORM pg_advisory_xact_lock(TG_RELID::bigint);
         RETURN NULL;
       END $$""",
    """CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON events
       FOR EACH STATEMENT EXECUTE FUNCTION interlock_append_only()""",
    """CREATE TRIGGER evidence_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON evidence
       FOR EACH STATEMENT EXECUTE FUNCTION interlock_append_only()""",
    """CREATE TRIGGER events_append_in_order BEFORE INSERT ON events
       FOR EACH STATEMENT EXECUTE FUNCTION interlock_append_in_order()""",
)


def upgrade() -> None:
    op.create_table(
        "events",
        sa.Column("position", BIG, autoincrement=True, nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("type", sa.Text(), nullable=False),
        sa.Column("schema_version", sa.Integer(), nullable=False),
        sa.Column("data", sa.Text(), nullable=False),
        sa.Column("metadata", sa.Text(), nullable=False),
        sa.Column("recorded_at", TIME, nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("position", name="pk_events"),
        sa.UniqueConstraint("stream", "version", name="uq_events_stream_version"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_first", "events", ["position"], sqlite_where=FIRST, postgresql_where=FIRST)
    op.create_table(
        "evidence",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("media_type", sa.Text(), nullable=False),
        sa.Column("bytes", sa.LargeBinary(), nullable=False),
        sa.Column("size", BIG, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_evidence"),
    )
    for statement in SQLITE if op.get_bind().dialect.name == "sqlite" else POSTGRESQL:
        op.execute(sa.text(statement))


def downgrade() -> None:
    raise NotImplementedError("history is not taken back: restore the database from its backup")
