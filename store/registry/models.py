"""The tables of the registry as SQLAlchemy mappings; ``migrations/versions`` makes them.

A change here needs a new migration: a test compares the two.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import JSON, BigInteger, Boolean, Integer, MetaData, String, Text, UniqueConstraint
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

# Constraints have names, so that a later migration can alter them on every database.
NAMING = {
    "ix": "ix_%(table_name)s_%(column_0_name)s",
    "uq": "uq_%(table_name)s_%(column_0_name)s",
    "ck": "ck_%(table_name)s_%(constraint_name)s",
    "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
    "pk": "pk_%(table_name)s",
}


class Base(DeclarativeBase):
    """The declarative root: holds the metadata that migrations compare with.

    Attributes:
        digest: the row's check sum (`soundness`); None in a row that a migration has just changed.
    """

    metadata = MetaData(naming_convention=NAMING)

    digest: Mapped[int | None] = mapped_column(BigInteger, sort_order=99)


class QueryRow(Base):
    """A registered continuous query; ``position`` keeps the order of registration."""

    __tablename__ = "queries"

    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    text: Mapped[str] = mapped_column(Text)
    dialect: Mapped[str | None] = mapped_column(String(16))
    options: Mapped[dict[str, Any]] = mapped_column(JSON)
    state: Mapped[str] = mapped_column(String(16))
    error: Mapped[str | None] = mapped_column(Text)
    created_ms: Mapped[int] = mapped_column(BigInteger)


class DroppedQueryRow(Base):
    """The tombstone of a dropped query: its feed answers 204 until the name is taken again."""

    __tablename__ = "dropped_queries"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    dropped_ms: Mapped[int] = mapped_column(BigInteger)


class StreamRow(Base):
    """A stream and its settings; ``position`` keeps the order of declaration."""

    __tablename__ = "streams"

    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    name: Mapped[str] = mapped_column(String(128), unique=True)
    iri: Mapped[str] = mapped_column(Text, unique=True)
    lateness_ms: Mapped[int] = mapped_column(BigInteger)
    late: Mapped[str] = mapped_column(String(16))
    idle_timeout_ms: Mapped[int | None] = mapped_column(BigInteger)
    retention_ms: Mapped[int | None] = mapped_column(BigInteger)
    timestamp_property: Mapped[str | None] = mapped_column(Text)
    stamping: Mapped[str | None] = mapped_column(String(16))
    quoted_asserted: Mapped[bool] = mapped_column(Boolean)
    mapping: Mapped[str | None] = mapped_column(Text)
    clock: Mapped[str] = mapped_column(String(16))
    declared: Mapped[bool] = mapped_column(Boolean)
    created_ms: Mapped[int] = mapped_column(BigInteger)


class ConnectorRow(Base):
    """A source or a sink; ``position`` keeps the order, ``place`` is where a sink is in its feed."""

    __tablename__ = "connectors"
    __table_args__ = (UniqueConstraint("role", "name", name="uq_connectors_role"),)

    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    role: Mapped[str] = mapped_column(String(8))
    name: Mapped[str] = mapped_column(String(128))
    members: Mapped[dict[str, Any]] = mapped_column(JSON)
    wanted: Mapped[bool] = mapped_column(Boolean)
    place: Mapped[str | None] = mapped_column(Text)
    created_ms: Mapped[int] = mapped_column(BigInteger)


class StoredQueryRow(Base):
    """A saved SPARQL text."""

    __tablename__ = "stored_queries"

    name: Mapped[str] = mapped_column(String(128), primary_key=True)
    text: Mapped[str] = mapped_column(Text)
    description: Mapped[str] = mapped_column(Text)
    created_ms: Mapped[int] = mapped_column(BigInteger)


class PrefixRow(Base):
    """A prefix that answers are written with."""

    __tablename__ = "prefixes"

    prefix: Mapped[str] = mapped_column(String(128), primary_key=True)
    iri: Mapped[str] = mapped_column(Text)


class TokenRow(Base):
    """A bearer token, by its hash."""

    __tablename__ = "tokens"

    hash: Mapped[str] = mapped_column(String(128), primary_key=True)
    role: Mapped[str] = mapped_column(String(16))
    label: Mapped[str] = mapped_column(Text)
    created_ms: Mapped[int] = mapped_column(BigInteger)


class JobRow(Base):
    """A long-running piece of work."""

    __tablename__ = "jobs"

    position: Mapped[int] = mapped_column(Integer, primary_key=True)
    id: Mapped[str] = mapped_column(String(64), unique=True)
    kind: Mapped[str] = mapped_column(String(32))
    state: Mapped[str] = mapped_column(String(16))
    request: Mapped[dict[str, Any]] = mapped_column(JSON)
    progress: Mapped[dict[str, Any]] = mapped_column(JSON)
    error: Mapped[str | None] = mapped_column(Text)
    created_ms: Mapped[int] = mapped_column(BigInteger)
    updated_ms: Mapped[int] = mapped_column(BigInteger)
