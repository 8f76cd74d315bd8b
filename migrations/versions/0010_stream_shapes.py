"""The shapes of streams.

Revision: 0010, after 0009.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_SIZES = {"shapes": 128, "on_violation": 16}
_NO_CHECK_SUMS = "UPDATE streams SET digest = NULL"
"""A check sum covers all columns of its row; the start computes missing ones."""


def upgrade() -> None:
    for name, size in _SIZES.items():
        op.add_column("streams", sa.Column(name, sa.String(size)))
    op.execute(_NO_CHECK_SUMS)


def downgrade() -> None:
    with op.batch_alter_table("streams") as streams:
        for name in _SIZES:
            streams.drop_column(name)
    op.execute(_NO_CHECK_SUMS)
