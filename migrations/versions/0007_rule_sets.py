"""The table of rule sets.

Revision: 0007, after 0006.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "rule_sets",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("definition", sa.JSON(), nullable=False),
        sa.Column("following", sa.JSON()),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_rule_sets"),
        sa.UniqueConstraint("name", name="uq_rule_sets_name"),
    )


def downgrade() -> None:
    op.drop_table("rule_sets")
