"""Integrity checks of a registry's SQLite file, because SQLite does not detect lost or altered rows.

SQLite ignores its write-ahead log from a damaged frame on, so that registered queries would vanish silently.
The registry's file therefore counts its changes (``user_version``), a mark file next to it has the durable
count, rows have check sums, and all pages are checked. The registry on a PostgreSQL server relies on the
server's own checks.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Table, create_engine, select
from sqlalchemy.exc import DatabaseError, IntegrityError

from ..errors import DAMAGED, StoreFormatError
from ..logs.marks import LogMark
from ..logs.reading import faults_of, read_only, reading
from .models import METADATA
from .session import Database, digest_of, with_digest


def require_intact(path: Path, mark: LogMark) -> None:
    """Check a registry's file before its use; a file that never existed is intact.

    Raises:
        StoreFormatError: pages of the file are damaged, or the file lacks durable changes.
    """
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
            return  # opening the database later reports a clearer error
        raise _damaged(path, str(error)) from error
    if changes < mark.last:
        raise _damaged(
            path,
            f"it has {changes} changes, {mark.last} were durable: the file or its write-ahead log is "
            "damaged, gone, or of another time",
        )
    for fault in faults:
        raise _damaged(path, fault)


def rows_of(path: Path) -> tuple[dict[str, int], list[str]]:
    """Count the rows of each table in a registry's file, and list the rows with wrong check sums."""
    counts: dict[str, int] = {}
    faults: list[str] = []

    engine = create_engine("sqlite://", creator=lambda: read_only(path))
    with closing(engine.connect()) as connection:
        try:
            for table, key, actual, stored in _rows(path, connection):
                counts[table.name] = counts.get(table.name, 0) + 1
                if stored is not None and stored != actual:
                    faults.append(f"a row of the table {table.name} is not what was written ({key})")
        except StoreFormatError as error:
            faults.append(error.message)
        except DatabaseError as error:
            faults.append(str(error.orig))
    engine.dispose()
    return counts, faults


def salvage(path: Path, database: Database) -> tuple[int, int]:
    """Copy all intact rows of a damaged registry file; return the numbers of copied and of lost rows.

    Of the rows that SQLite cannot read, at most one for each table is counted as lost.
    """
    kept = lost = 0
    source = create_engine("sqlite://", creator=lambda: read_only(path))
    with closing(source.connect()) as connection, database.write() as target:
        for table in METADATA.sorted_tables:
            rows: Iterator[Any] = iter(())
            with suppress(DatabaseError):
                rows = iter(connection.execute(select(table)).mappings())
            while True:
                try:
                    values = {str(name): value for name, value in next(rows).items()}
                    if values["digest"] not in (None, digest_of(table, values)):
                        raise ValueError("a row is not what was written")
                    with target.begin_nested():
                        target.execute(table.insert().values(with_digest(table, values)))
                    kept += 1
                except StopIteration:
                    break
                except (ValueError, TypeError, IntegrityError):
                    lost += 1
                except DatabaseError:
                    lost += 1
                    break
    source.dispose()
    return kept, lost


def require_rows(database: Database) -> None:
    """Check every row's check sum in a SQLite file; add check sums to rows without one after a migration.

    Raises:
        StoreFormatError: a row of the registry differs from its check sum.
    """
    if database.path is None:
        return
    with database.write() as connection:
        for table, key, actual, stored in _rows(database.path, connection):
            if stored is None:
                row = table.primary_key.columns[0] == key
                connection.execute(table.update().where(row).values(digest=actual))
            elif stored != actual:
                fault = f"a row of the table {table.name} is not what was written ({key})"
                raise _damaged(database.path, fault)


def _rows(path: Path, connection: Connection) -> Iterator[tuple[Table, Any, int, int | None]]:
    """Yield for each row of a registry its table, its key, its computed check sum, and the stored one."""
    for table in METADATA.sorted_tables:
        try:
            for row in connection.execute(select(table)).mappings().all():
                values = {str(name): value for name, value in row.items()}
                key = values[table.primary_key.columns[0].key]
                yield table, key, digest_of(table, values), values["digest"]
        except (ValueError, TypeError) as error:
            raise _damaged(path, f"the table {table.name} cannot be read: {error}") from error


def _damaged(path: Path, fault: str) -> StoreFormatError:
    return StoreFormatError(f"the registry {path} is damaged: {fault}", hint=DAMAGED)
