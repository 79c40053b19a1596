"""Tokens of the HTTP API, and the requests that were made under an idempotency key."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

TIME = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "tokens",
        sa.Column("id", sa.String(16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("scopes", sa.Text(), nullable=False),
        sa.Column("created_at", TIME, nullable=False),
        sa.Column("expires_at", TIME),
        sa.Column("revoked_at", TIME),
        sa.Column("last_used_at", TIME),
        sa.PrimaryKeyConstraint("id", name="pk_tokens"),
        sa.UniqueConstraint("name", name="uq_tokens_name"),
    )
    op.create_table(
        "keyed_requests",
        sa.Column("token", sa.String(16), nullable=False),
        sa.Column("key", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.String(64), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("status", sa.Integer()),
        sa.Column("answer", sa.Text()),
        sa.Column("made_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("token", "key", name="pk_keyed_requests"),
    )
    op.create_index("ix_keyed_requests_made_at", "keyed_requests", ["made_at"])


def downgrade() -> None:
    op.drop_table("keyed_requests")
    op.drop_table("tokens")
