"""Indexes for stores of millions of events: streams by name, the rollouts that have not ended, the newest ones."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

FIRST = sa.text("version = 1")
MILESTONES = sa.text(
    "(type IN ('lease-released', 'rollout-concluded', 'rollout-resumed')"
    """ OR substr(data, 1, 17) = '{"action":"lease:')"""
)


def upgrade() -> None:
    op.create_index(
        "ix_events_first_stream",
        "events",
        ["stream", "position"],
        postgresql_ops={"stream": "text_pattern_ops"},  # prefixes are compared by bytes, whatever the collation
        sqlite_where=FIRST,
        postgresql_where=FIRST,
    )
    op.drop_index("ix_events_first", table_name="events")
    op.create_index(
        "ix_events_milestones",
        "events",
        ["stream", "version", "type"],
        sqlite_where=MILESTONES,
        postgresql_where=MILESTONES,
    )
    op.create_index("ix_rollouts_requested_at", "rollouts", ["requested_at"])


def downgrade() -> None:
    raise NotImplementedError("history is not taken back: restore the database from its backup")
