"""The tables of the registry: queries, streams, saved texts, prefixes, tokens, connectors and jobs.

Revision: 0006, the first. Data folders of commit 30ff0e66 are at this revision and open as they are.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "queries",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("dialect", sa.String(16)),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_queries"),
        sa.UniqueConstraint("name", name="uq_queries_name"),
    )
    op.create_table(
        "dropped_queries",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("dropped_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_dropped_queries"),
    )
    op.create_table(
        "streams",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("iri", sa.Text(), nullable=False),
        sa.Column("lateness_ms", sa.BigInteger(), nullable=False),
        sa.Column("late", sa.String(16), nullable=False),
        sa.Column("idle_timeout_ms", sa.BigInteger()),
        sa.Column("retention_ms", sa.BigInteger()),
        sa.Column("timestamp_property", sa.Text()),
        sa.Column("stamping", sa.String(16)),
        sa.Column("quoted_asserted", sa.Boolean(), nullable=False),
        sa.Column("declared", sa.Boolean(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("mapping", sa.Text()),
        sa.Column("clock", sa.String(16), nullable=False, server_default="event"),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_streams"),
        sa.UniqueConstraint("name", name="uq_streams_name"),
        sa.UniqueConstraint("iri", name="uq_streams_iri"),
    )
    op.create_table(
        "stored_queries",
        sa.Column("name", sa.String(128), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("description", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("name", name="pk_stored_queries"),
    )
    op.create_table(
        "prefixes",
        sa.Column("prefix", sa.String(128), nullable=False),
        sa.Column("iri", sa.Text(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("prefix", name="pk_prefixes"),
    )
    op.create_table(
        "tokens",
        sa.Column("hash", sa.String(128), nullable=False),
        sa.Column("role", sa.String(16), nullable=False),
        sa.Column("label", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("hash", name="pk_tokens"),
    )
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
    op.create_table(
        "jobs",
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("id", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(32), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("request", sa.JSON(), nullable=False),
        sa.Column("progress", sa.JSON(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("updated_ms", sa.BigInteger(), nullable=False),
        sa.Column("digest", sa.BigInteger()),
        sa.PrimaryKeyConstraint("position", name="pk_jobs"),
        sa.UniqueConstraint("id", name="uq_jobs_id"),
    )


def downgrade() -> None:
    tables = "jobs connectors tokens prefixes stored_queries streams dropped_queries queries"
    for table in tables.split():
        op.drop_table(table)
