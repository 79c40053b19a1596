"""Rollouts name the devices that they quarantined and nobody has cleared."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("rollouts", sa.Column("quarantined", sa.Text()))


def downgrade() -> None:
    op.drop_column("rollouts", "quarantined")
