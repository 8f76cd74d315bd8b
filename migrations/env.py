"""Alembic's entry: runs on the connection that the registry hands over, inside its transaction."""

from __future__ import annotations

from alembic import context

from quadrill.store.registry.models import METADATA

connection = context.config.attributes.get("connection")
if connection is None or context.is_offline_mode():
    raise RuntimeError("migrations run through the registry: start the server or call `quadrill migrate`")
# render_as_batch: SQLite cannot alter most of a table, so a migration there copies it.
context.configure(connection=connection, target_metadata=METADATA, render_as_batch=True)
with context.begin_transaction():
    context.run_migrations()
