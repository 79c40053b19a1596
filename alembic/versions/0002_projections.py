"""Projections: services, rollouts and acceptance as tables that the events can always be folded into again."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

BIG = sa.BigInteger().with_variant(sa.Integer, "sqlite")
TIME = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "projections",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("position", BIG, nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_projections"),
    )
    op.create_table(
        "services",
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(64)),
        sa.Column("revision_since", TIME),
        sa.Column("updated_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("service", name="pk_services"),
    )
    op.create_table(
        "rollouts",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("rollout", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("purpose", sa.Text(), nullable=False),
        sa.Column("revision", sa.String(64), nullable=False),
        sa.Column("actor", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("action", sa.Text()),
        sa.Column("verdict", sa.Text()),
        sa.Column("error_code", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("summary", sa.Text()),
        sa.Column("exit_code", sa.Integer()),
        sa.Column("dark_s", sa.Float()),
        sa.Column("engine_version", sa.Text()),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("requested_at", TIME, nullable=False),
        sa.Column("updated_at", TIME, nullable=False),
        sa.Column("concluded_at", TIME),
        sa.PrimaryKeyConstraint("stream", name="pk_rollouts"),
    )
    op.create_index("ix_rollouts_service_requested_at", "rollouts", ["service", "requested_at"])
    op.create_table(
        "acceptance",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("side", sa.Text(), nullable=False),
        sa.Column("round", sa.Integer(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("accept_length", sa.Float(), nullable=False),
        sa.Column("sample", sa.Integer(), nullable=False),
        sa.Column("judged_at", TIME, nullable=False),
        sa.PrimaryKeyConstraint("stream", "side", "round", name="pk_acceptance"),
    )
    op.create_index("ix_acceptance_service_judged_at", "acceptance", ["service", "judged_at"])


def downgrade() -> None:
    for table in ("acceptance", "rollouts", "services", "projections"):
        op.drop_table(table)
