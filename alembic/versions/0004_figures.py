"""Figures that rollouts measured, by engine, version, model, concurrency and context length."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

TIME = sa.String(32).with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")


def upgrade() -> None:
    op.create_table(
        "figures",
        sa.Column("stream", sa.Text(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("engine", sa.Text(), nullable=False),
        sa.Column("engine_version", sa.Text()),
        sa.Column("model", sa.Text()),
        sa.Column("concurrency", sa.Integer(), nullable=False),
        sa.Column("context_length", sa.Integer()),
        sa.Column("unit", sa.Text(), nullable=False),
        sa.Column("value", sa.Float()),
        sa.Column("sample", sa.Integer()),
        sa.Column("baseline", sa.Float()),
        sa.Column("baseline_sample", sa.Integer()),
        sa.Column("judged_at", TIME),
        sa.PrimaryKeyConstraint("stream", "metric", name="pk_figures"),
    )
    op.create_index("ix_figures_service_metric_judged_at", "figures", ["service", "metric", "judged_at"])


def downgrade() -> None:
    op.drop_table("figures")
