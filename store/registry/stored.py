"""Stored queries: SPARQL texts that users keep under a name."""

from __future__ import annotations

from dataclasses import asdict

from sqlalchemy import select

from ..errors import NotFoundError
from .models import StoredQueryRow
from .records import StoredQueryRecord
from .session import Database


class StoredQueries:
    """The part of the registry that keeps saved SPARQL texts."""

    _database: Database

    def put_stored_query(self, record: StoredQueryRecord) -> StoredQueryRecord:
        """Save a text under its name, in place of an older one."""
        with self._database.write() as session:
            session.merge(StoredQueryRow(**asdict(record)))
            return record

    def get_stored_query(self, name: str) -> StoredQueryRecord | None:
        """The saved text of that name, None when there is none."""
        with self._database.read() as session:
            row = session.get(StoredQueryRow, name)
            return None if row is None else _record(row)

    def list_stored_queries(self) -> list[StoredQueryRecord]:
        """All saved texts by name."""
        with self._database.read() as session:
            by_name = select(StoredQueryRow).order_by(StoredQueryRow.name)
            return [_record(row) for row in session.scalars(by_name)]

    def remove_stored_query(self, name: str) -> None:
        """Forget a saved text.

        Raises: NotFoundError when there is none.
        """
        with self._database.write() as session:
            row = session.get(StoredQueryRow, name)
            if row is None:
                raise NotFoundError(f"no query is saved as {name}", code="unknown-stored-query")
            session.delete(row)


def _record(row: StoredQueryRow) -> StoredQueryRecord:
    return StoredQueryRecord(row.name, row.text, row.description, row.created_ms)
