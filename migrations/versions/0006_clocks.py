"""The clock of a stream. Check sums are over all columns: those of streams are made anew at the next start.

Revision: 0006, after 0005.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("streams", sa.Column("clock", sa.String(16), nullable=False, server_default="event"))
    op.execute("UPDATE streams SET digest = NULL")


def downgrade() -> None:
    with op.batch_alter_table("streams") as altered:
        altered.drop_column("clock")
    op.execute("UPDATE streams SET digest = NULL")
