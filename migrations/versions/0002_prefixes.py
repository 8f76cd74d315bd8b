"""Prefixes that answers are written with.

Revision: 0002, after 0001.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "prefixes",
        sa.Column("prefix", sa.String(128), nullable=False),
        sa.Column("iri", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("prefix", name="pk_prefixes"),
    )


def downgrade() -> None:
    op.drop_table("prefixes")
