"""Registered continuous queries, and the tombstones of those that were dropped."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any, cast

from sqlalchemy import Connection, Table, bindparam, delete, insert, select
from sqlalchemy.orm import Session

from ..errors import ConflictError, NotFoundError
from .models import DroppedQueryRow, QueryRow
from .records import QueryRecord
from .session import Database, digest_of

# Statements on the tables: many queries may be registered at a time, and mapped objects cost more.
_QUERIES, _DROPPED = cast(Table, QueryRow.__table__), cast(Table, DroppedQueryRow.__table__)
_IS_TAKEN = select(_QUERIES.c.position).where(_QUERIES.c.name == bindparam("of"))
_FORGET = delete(_QUERIES).where(_QUERIES.c.name == bindparam("of"))
_TAKE_TOMBSTONE = delete(_DROPPED).where(_DROPPED.c.name == bindparam("of"))
_INSERT = insert(_QUERIES)


class Queries:
    """The part of the registry that keeps continuous queries."""

    _database: Database

    def add_query(self, record: QueryRecord) -> QueryRecord:
        """Keep a new query and forget its name's tombstone.

        Raises: ConflictError when the name is taken.
        """
        with self._database.statements() as connection:
            if connection.execute(_IS_TAKEN, {"of": record.name}).first() is not None:
                raise ConflictError(f"a query named {record.name} is registered already", code="query-exists")
            return _insert(connection, record)

    def replace_query(self, record: QueryRecord) -> QueryRecord:
        """Keep a query in place of the one with its name, if any; in one transaction."""
        with self._database.statements() as connection:
            connection.execute(_FORGET, {"of": record.name})
            return _insert(connection, record)

    def get_query(self, name: str) -> QueryRecord | None:
        """The query of that name, None when there is none."""
        with self._database.read() as session:
            row = _find(session, name)
            return None if row is None else _record(row)

    def list_queries(self) -> list[QueryRecord]:
        """All queries in the order of their registration."""
        with self._database.read() as session:
            return [_record(row) for row in session.scalars(select(QueryRow).order_by(QueryRow.position))]

    def update_query(self, name: str, **fields: Any) -> QueryRecord:
        """Change some fields (not the name) of a query; gives the new record.

        Raises:
            NotFoundError: no such query.
            TypeError: a field that a record does not have.
        """
        with self._database.write() as session:
            row = _find(session, name)
            if row is None:
                raise _unknown(name)
            changed = replace(_record(row), **fields)
            for field, value in asdict(changed).items():
                setattr(row, field, value)
            return changed

    def remove_query(self, name: str) -> None:
        """Forget a query; a tombstone says that there was one.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = _find(session, name)
            if row is None:
                raise _unknown(name)
            session.delete(row)
            session.merge(DroppedQueryRow(name=name, dropped_ms=time.time_ns() // 1_000_000))

    def retract_query(self, name: str, *, dropped: bool) -> None:
        """Undo `add_query`, if it has been done: forget a query, with a tombstone only if ``dropped``."""
        with self._database.write() as session:
            row = _find(session, name)
            if row is not None:
                session.delete(row)
            if dropped:
                session.merge(DroppedQueryRow(name=name, dropped_ms=time.time_ns() // 1_000_000))

    def was_dropped(self, name: str) -> bool:
        """True when a query of that name was dropped and the name has not been taken again."""
        with self._database.read() as session:
            return session.get(DroppedQueryRow, name) is not None


def _insert(connection: Connection, record: QueryRecord) -> QueryRecord:
    connection.execute(_TAKE_TOMBSTONE, {"of": record.name})
    values = asdict(record)
    connection.execute(_INSERT, values | {"digest": digest_of(_QUERIES, values)})
    return record


def _find(session: Session, name: str) -> QueryRow | None:
    return session.scalars(select(QueryRow).where(QueryRow.name == name)).one_or_none()


def _record(row: QueryRow) -> QueryRecord:
    return QueryRecord(
        name=row.name,
        text=row.text,
        dialect=row.dialect,
        options=row.options,
        state=row.state,  # type: ignore[arg-type]  # only add and update write it, from a QueryState
        error=row.error,
        created_ms=row.created_ms,
    )


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"no query named {name} is registered", code="unknown-query")
