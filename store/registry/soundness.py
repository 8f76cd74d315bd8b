"""Is the SQLite file of a registry what it was? SQLite itself looks neither into values nor back in time.

A write-ahead log with a damaged frame is taken for one that ends before it, so that queries would be gone
without a word. The number of changes is therefore kept in the file (``user_version``) and marked beside it,
rows have check sums, and the pages are looked through. A PostgreSQL server has all this itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, select

from ..errors import StoreFormatError
from ..logs.reading import faults_of, reading
from ..logs.segments import DAMAGED
from .models import Base
from .session import Database, digest_of


def require_sound(database: Database) -> None:
    """Look at the file of a registry before it is used; there need not be one.

    Raises:
        StoreFormatError: its pages are damaged, or it lacks changes that were durable.
    """
    path, mark = database.path, database.mark
    if path is None or mark is None:
        return
    if not path.exists():
        if mark.last:
            raise _damaged(path, f"it is gone, {mark.last} changes of it were durable")
        return
    try:
        with reading(path) as file:
            (changes,) = file.execute("PRAGMA user_version").fetchone()
            faults = faults_of(file)
    except sqlite3.DatabaseError as error:
        if "locked" in str(error) or "not a database" in str(error):
            return  # whoever opens it next tells that better
        raise _damaged(path, str(error)) from error
    if changes < mark.last:
        raise _damaged(
            path,
            f"it has {changes} changes, {mark.last} were durable: the file or its write-ahead log is "
            "damaged, gone, or of another time",
        )
    for fault in faults:
        raise _damaged(path, fault)


def require_rows(database: Database) -> None:
    """Compare every row of a file with its check sum; rows of earlier releases get theirs.

    Raises:
        StoreFormatError: one differs.
    """
    if database.path is None:
        return
    with database.statements() as connection:
        for table, key, digest, kept in _rows(database.path, connection):
            if kept is None:
                row = table.primary_key.columns[0] == key
                connection.execute(table.update().where(row).values(digest=digest))
            elif kept != digest:
                what = f"a row of the table {table.name} is not what was written ({key})"
                raise _damaged(database.path, what)


def _rows(path: Path, connection: Connection) -> Iterator[tuple[Table, Any, int, int | None]]:
    """Each row's table and key, the check sum that it should have and the one that it has."""
    for table in Base.metadata.sorted_tables:
        try:
            for row in connection.execute(select(table)).mappings().all():
                values = {str(name): value for name, value in row.items()}
                key = values[table.primary_key.columns[0].key]
                yield table, key, digest_of(table, values), values["digest"]
        except (ValueError, TypeError) as error:
            raise _damaged(path, f"the table {table.name} cannot be read: {error}") from error


def _damaged(path: Path, what: str) -> StoreFormatError:
    return StoreFormatError(f"the registry {path} is damaged: {what}", hint=DAMAGED)
