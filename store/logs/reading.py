"""Looks at a SQLite file without writing to it: closing the last other connection would tidy damage away."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote


def read_only(path: Path) -> sqlite3.Connection:
    """A connection that reads a file and the write-ahead log beside it, and leaves both as they are.

    Raises:
        sqlite3.DatabaseError: the file is gone, or no database.
    """
    url = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(url, uri=True, isolation_level=None, timeout=30, check_same_thread=False)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that reads a file and the write-ahead log beside it, and leaves both as they are.

    Raises:
        sqlite3.DatabaseError: the file is gone, or no database.
    """
    with closing(read_only(path)) as database:
        yield database


def faults_of(database: sqlite3.Connection, most: int = 1) -> list[str]:
    """What is wrong with the pages of a file; nothing when they are sound."""
    found = [
        str(row[0]).removeprefix("*** in database main ***\n")
        for row in database.execute(f"PRAGMA integrity_check({most:d})")
    ]
    return [] if found == ["ok"] else found
