"""Read-only access to SQLite files: a writable connection might hide damage when it is closed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.parse import quote


def read_only(path: Path) -> sqlite3.Connection:
    """Open a read-only connection to a SQLite file and its write-ahead log; the caller closes it.

    Raises:
        sqlite3.DatabaseError: the file does not exist, or is no database.
    """
    url = f"file:{quote(str(path.absolute()))}?mode=ro"
    return sqlite3.connect(url, uri=True, isolation_level=None, timeout=30, check_same_thread=False)


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a read-only connection to a SQLite file and its write-ahead log for a ``with`` block.

    Raises:
        sqlite3.DatabaseError: the file does not exist, or is no database.
    """
    with closing(read_only(path)) as database:
        yield database


def faults_of(database: sqlite3.Connection, most: int = 1) -> list[str]:
    """Return at most ``most`` faults in the pages of a SQLite file; an empty list if there is none."""
    found = [
        str(row[0]).removeprefix("*** in database main ***\n")
        for row in database.execute(f"PRAGMA integrity_check({most:d})")
    ]
    return [] if found == ["ok"] else found
