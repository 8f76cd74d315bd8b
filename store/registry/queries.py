"""Registered continuous queries, and the tombstones of those that were dropped."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import cast

from sqlalchemy import Connection, Table, bindparam, delete, insert, select

from ..errors import ConflictError
from .models import DroppedQueryRow, QueryRow
from .records import QueryRecord
from .session import digest_of
from .tables import KeyFault, RecordTable

# Statements on the tables: many queries may be registered at a time, and mapped objects cost more.
_QUERIES, _DROPPED = cast(Table, QueryRow.__table__), cast(Table, DroppedQueryRow.__table__)
_IS_TAKEN = select(_QUERIES.c.position).where(_QUERIES.c.name == bindparam("of"))
_FORGET = delete(_QUERIES).where(_QUERIES.c.name == bindparam("of"))
_TAKE_TOMBSTONE = delete(_DROPPED).where(_DROPPED.c.name == bindparam("of"))
_INSERT = insert(_QUERIES)


class QueryRecords(RecordTable[QueryRecord]):
    """Continuous queries in the order of registration, and the tombstones of dropped ones."""

    row, record = QueryRow, QueryRecord
    unknown = KeyFault("no query named {} is registered", code="unknown-query")
    taken = KeyFault("a query named {} is registered already", code="query-exists")

    def add(self, record: QueryRecord) -> QueryRecord:
        """Keep a new query and forget its name's tombstone.

        Raises: ConflictError when the name is taken.
        """
        with self._database.statements() as connection:
            if connection.execute(_IS_TAKEN, {"of": record.name}).first() is not None:
                raise ConflictError(self.taken.text.format(record.name), code=self.taken.code)
            return _insert(connection, record)

    def put(self, record: QueryRecord) -> QueryRecord:
        """Keep a query in place of the one with its name, if any, and forget its name's tombstone."""
        with self._database.statements() as connection:
            connection.execute(_FORGET, {"of": record.name})
            return _insert(connection, record)

    def remove(self, *key: str) -> None:
        """Forget a query; a tombstone says that there was one.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            session.delete(self._found(session, key))
            session.merge(_tombstone(*key))

    def retract(self, name: str, *, dropped: bool) -> None:
        """Undo `add`, if it has been done: forget a query, with a tombstone only if ``dropped``."""
        with self._database.write() as session:
            row = self._find(session, (name,))
            if row is not None:
                session.delete(row)
            if dropped:
                session.merge(_tombstone(name))

    def was_dropped(self, name: str) -> bool:
        """True when a query of that name was dropped and the name has not been taken again."""
        with self._database.read() as session:
            return session.get(DroppedQueryRow, name) is not None


def _tombstone(name: str) -> DroppedQueryRow:
    return DroppedQueryRow(name=name, dropped_ms=time.time_ns() // 1_000_000)


def _insert(connection: Connection, record: QueryRecord) -> QueryRecord:
    connection.execute(_TAKE_TOMBSTONE, {"of": record.name})
    values = asdict(record)
    connection.execute(_INSERT, values | {"digest": digest_of(_QUERIES, values)})
    return record
