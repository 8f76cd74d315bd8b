"""Registered continuous queries, and the tombstones of those that were dropped."""

from __future__ import annotations

import time

from sqlalchemy import Connection, bindparam, delete, insert, select

from .models import DROPPED_QUERIES, QUERIES
from .records import QueryRecord
from .session import with_digest
from .tables import KeyFault, RecordTable

_HAS_NAME = DROPPED_QUERIES.c.name == bindparam("of_name")
_TOMBSTONE, _INSERT_TOMBSTONE = select(DROPPED_QUERIES.c.name).where(_HAS_NAME), insert(DROPPED_QUERIES)
_TAKE_TOMBSTONE = delete(DROPPED_QUERIES).where(_HAS_NAME)


class QueryRecords(RecordTable[QueryRecord]):
    """Continuous queries in the order of registration, and the tombstones of dropped ones.

    A query that is written forgets the tombstone of its name.
    """

    table, record = QUERIES, QueryRecord
    unknown = KeyFault("no query named {} is registered", code="unknown-query")
    taken = KeyFault("a query named {} is registered already", code="query-exists")

    def put(self, record: QueryRecord) -> QueryRecord:
        """Keep a query as the newest one, in place of the one with its name, if any."""
        with self._database.write() as connection:
            connection.execute(self._delete, self._named((record.name,)))
            self._write_new(connection, record)
        return record

    def retract(self, name: str, *, dropped: bool) -> None:
        """Undo `add`, if it has been done: forget a query, with a tombstone only if ``dropped``."""
        with self._database.write() as connection:
            connection.execute(self._delete, self._named((name,)))
            if dropped:
                _bury(connection, name)

    def was_dropped(self, name: str) -> bool:
        """True when a query of that name was dropped and the name has not been taken again."""
        with self._database.read() as connection:
            return connection.execute(_TOMBSTONE, {"of_name": name}).first() is not None

    def _remove(self, connection: Connection, key: tuple[str, ...]) -> None:
        super()._remove(connection, key)
        _bury(connection, *key)

    def _write_new(self, connection: Connection, record: QueryRecord) -> None:
        connection.execute(_TAKE_TOMBSTONE, {"of_name": record.name})
        super()._write_new(connection, record)


def _bury(connection: Connection, name: str) -> None:
    """Write the tombstone of a query, in place of an older one."""
    connection.execute(_TAKE_TOMBSTONE, {"of_name": name})
    values = {"name": name, "dropped_ms": time.time_ns() // 1_000_000}
    connection.execute(_INSERT_TOMBSTONE, with_digest(DROPPED_QUERIES, values))
