"""The table of the owned graphs that rule sets leave out of their default input.

Revision: 0009, after 0008.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "reflected_owners",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("graph", sa.Text(), nullable=False),
        sa.Column("changing", sa.Boolean(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_reflected_owners"),
        sa.UniqueConstraint("graph", name="uq_reflected_owners_graph"),
    )


def downgrade() -> None:
    op.drop_table("reflected_owners")
