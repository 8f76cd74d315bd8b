"""Sources and sinks.

Revision: 0004, after 0003.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "connectors",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("role", sa.String(8), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("members", sa.JSON(), nullable=False),
        sa.Column("wanted", sa.Boolean(), nullable=False),
        sa.Column("place", sa.Text()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_connectors"),
        sa.UniqueConstraint("role", "name", name="uq_connectors_role"),
    )


def downgrade() -> None:
    op.drop_table("connectors")
