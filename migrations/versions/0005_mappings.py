"""The mapping of a stream. Check sums are over all columns: those of streams are made anew at the next start.

Revision: 0005, after 0004.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("streams", sa.Column("mapping", sa.Text()))
    op.execute("UPDATE streams SET digest = NULL")


def downgrade() -> None:
    with op.batch_alter_table("streams") as altered:
        altered.drop_column("mapping")
    op.execute("UPDATE streams SET digest = NULL")
