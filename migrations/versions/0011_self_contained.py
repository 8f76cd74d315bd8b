"""The promise of a stream that each solution of a block over it comes from one element.

Revision: 0011, after 0010.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_NO_CHECK_SUMS = "UPDATE streams SET digest = NULL"
"""A check sum covers all columns of its row; the start computes missing ones."""


def upgrade() -> None:
    column = sa.Column("self_contained", sa.Boolean(), nullable=False, server_default=sa.false())
    with op.batch_alter_table("streams") as streams:
        streams.add_column(column)
    with op.batch_alter_table("streams") as streams:
        streams.alter_column("self_contained", server_default=None)
    op.execute(_NO_CHECK_SUMS)


def downgrade() -> None:
    with op.batch_alter_table("streams") as streams:
        streams.drop_column("self_contained")
    op.execute(_NO_CHECK_SUMS)
