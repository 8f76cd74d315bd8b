"""A check sum for each row; rows from before get theirs when the registry is opened.

Revision: 0003, after 0002.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TABLES = ("queries", "dropped_queries", "streams", "stored_queries", "prefixes", "tokens", "jobs")


def upgrade() -> None:
    for table in TABLES:
        op.add_column(table, sa.Column("digest", sa.BigInteger()))


def downgrade() -> None:
    for table in TABLES:
        with op.batch_alter_table(table) as altered:
            altered.drop_column("digest")
