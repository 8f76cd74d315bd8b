"""The table definitions of the registry; ``migrations/versions`` creates the tables.

A change of a registry table's definition needs a new migration: a test compares definitions and migrations.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

# Constraints of the registry's tables have names, so that a later migration can alter them on every database.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}
METADATA = MetaData(naming_convention=NAMING)


def _table(name: str, *columns: Column[Any] | UniqueConstraint) -> Table:
    """Define a registry table with a column for each row's check sum, which is NULL after a migration."""
    return Table(name, METADATA, *columns, Column("digest", BigInteger))


def _filled(name: str, kind: Any, *, unique: bool | None = None) -> Column[Any]:
    return Column(name, kind, nullable=False, unique=unique)


def _position() -> Column[Any]:
    """Define the column that numbers rows in the order of insertion."""
    return Column("position", Integer, primary_key=True)


QUERIES = _table(
    "queries",
    _position(),
    _filled("name", String(128), unique=True),
    _filled("text", Text),
    Column("dialect", String(16)),
    _filled("options", JSON),
    _filled("state", String(16)),
    Column("error", Text),
    _filled("created_ms", BigInteger),
)

DROPPED_QUERIES = _table(
    "dropped_queries",
    Column("name", String(128), primary_key=True),
    _filled("dropped_ms", BigInteger),
)
"""Tombstones: the feed of a dropped query answers HTTP 204 until a new query takes its name."""

STREAMS = _table(
    "streams",
    _position(),
    _filled("name", String(128), unique=True),
    _filled("iri", Text, unique=True),
    _filled("lateness_ms", BigInteger),
    _filled("late", String(16)),
    Column("idle_timeout_ms", BigInteger),
    Column("retention_ms", BigInteger),
    Column("timestamp_property", Text),
    Column("stamping", String(16)),
    _filled("quoted_asserted", Boolean),
    Column("mapping", Text),
    _filled("clock", String(16)),
    _filled("declared", Boolean),
    _filled("created_ms", BigInteger),
    Column("shapes", String(128)),
    Column("on_violation", String(16)),
    _filled("self_contained", Boolean),
)

CONNECTORS = _table(
    "connectors",
    _position(),
    _filled("role", String(8)),
    _filled("name", String(128)),
    _filled("members", JSON),
    _filled("wanted", Boolean),
    Column("place", Text),
    _filled("created_ms", BigInteger),
    UniqueConstraint("role", "name", name="uq_connectors_role"),
)

STORED_QUERIES = _table(
    "stored_queries",
    Column("name", String(128), primary_key=True),
    _filled("text", Text),
    _filled("description", Text),
    _filled("created_ms", BigInteger),
)

PREFIXES = _table(
    "prefixes",
    Column("prefix", String(128), primary_key=True),
    _filled("iri", Text),
)

TOKENS = _table(
    "tokens",
    Column("hash", String(128), primary_key=True),
    _filled("role", String(16)),
    _filled("label", Text),
    _filled("created_ms", BigInteger),
)

JOBS = _table(
    "jobs",
    _position(),
    _filled("id", String(64), unique=True),
    _filled("kind", String(32)),
    _filled("state", String(16)),
    _filled("request", JSON),
    _filled("progress", JSON),
    Column("error", Text),
    _filled("created_ms", BigInteger),
    _filled("updated_ms", BigInteger),
)

RULE_SETS = _table(
    "rule_sets",
    _position(),
    _filled("name", String(128), unique=True),
    _filled("definition", JSON),
    Column("following", JSON(none_as_null=True)),
    _filled("state", String(16)),
    Column("error", Text),
    _filled("created_ms", BigInteger),
)

SHAPES = _table(
    "shapes",
    _position(),
    _filled("name", String(128), unique=True),
    _filled("definition", JSON),
    Column("former", Text),
    _filled("state", String(16)),
    Column("error", Text),
    _filled("created_ms", BigInteger),
)

REFLECTED_OWNERS = _table(
    "reflected_owners",
    _position(),
    _filled("graph", Text, unique=True),
    _filled("changing", Boolean),
)
