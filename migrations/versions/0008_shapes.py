"""The table of shapes.

Revision: 0008, after 0007.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "shapes",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("former", sa.Text()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_shapes"),
        sa.UniqueConstraint("name", name="uq_shapes_name"),
    )


def downgrade() -> None:
    op.drop_table("shapes")
