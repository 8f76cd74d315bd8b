"""A disk cache of byte strings that can be computed again, used for the rows of static parts.

The disk cache of byte strings is one SQLite file in WAL mode. An item consists of a key, a JSON object with
facts, and blobs with one check sum per blob; an item is written atomically. The cache file may be deleted
while the server is stopped. A damaged cache file is replaced by an empty one, with a warning in the server's
log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import sqlite3
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..documents.release import release_of
from ..errors import StoreFormatError
from ..folder import keep_private

log = logging.getLogger("quadrill.store")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS items (
    key TEXT PRIMARY KEY, facts TEXT NOT NULL, parts INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS parts (
    key TEXT NOT NULL, place INTEGER NOT NULL, digest BLOB NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (key, place)
);
"""
_LEVEL = 1


class BlobStore:
    """A disk cache of items (facts and byte strings) by key, safe to use from several threads.

    Only `read` raises an error for a damaged cache file; no method raises an error for a full disk, because
    callers can compute missing items again.
    """

    def __init__(self, path: Path, reached: Callable[[str], None] = lambda point: None) -> None:
        """Open or create the cache file; a file that is no SQLite database is replaced.

        Args:
            path: the path of the cache file.
            reached: receives the name of each write step; used by tests that simulate crashes.
        """
        self._path = path
        self._reached = reached
        self._lock = threading.Lock()
        self._db: sqlite3.Connection | None = None
        try:
            self._db = self._opened()
        except sqlite3.DatabaseError as error:
            self._replace(error)

    def _opened(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        keep_private(self._path)
        try:
            db.execute("PRAGMA journal_mode=WAL")
            db.execute("PRAGMA synchronous=NORMAL")
            db.executescript(_SCHEMA)
        except BaseException:
            db.close()
            raise
        return db

    def _replace(self, error: sqlite3.Error) -> None:
        """Replace a damaged cache file by an empty one; if the replacement fails, disable the cache."""
        log.warning("%s is damaged and replaced by an empty file: %s", self._path, error)
        db, self._db = self._db, None
        try:
            if db is not None:
                db.close()
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self._path}{suffix}").unlink(missing_ok=True)
            self._db = self._opened()
        except (OSError, sqlite3.Error) as again:
            log.warning("%s cannot be written, static parts are not kept: %s", self._path, again)

    @property
    def size(self) -> int:
        """The size in bytes of the cache file and of its write-ahead log."""
        size = 0
        for suffix in ("", "-wal"):
            try:
                size += Path(f"{self._path}{suffix}").stat().st_size
            except OSError:
                continue
        return size

    def facts(self, key: str) -> dict[str, Any] | None:
        """Return the JSON facts of the cached item with this key; None if the item does not exist."""
        with self._lock:
            if self._db is None:
                return None
            try:
                row = self._db.execute("SELECT facts FROM items WHERE key = ?", (key,)).fetchone()
                return None if row is None else dict(json.loads(row[0]))
            except (sqlite3.DatabaseError, ValueError) as error:
                self._replace(sqlite3.DatabaseError(str(error)))
                return None

    def read(self, key: str) -> list[bytes]:
        """Return the byte strings of the cached item with this key, in the order of writing.

        Raises:
            StoreFormatError: the item does not exist, or the cache file or a blob is damaged or missing.
        """
        with self._lock:
            if self._db is None:
                raise StoreFormatError(f"{self._path} cannot be read")
            try:
                count = self._db.execute("SELECT parts FROM items WHERE key = ?", (key,)).fetchone()
                query = "SELECT place, digest, data FROM parts WHERE key = ? ORDER BY place"
                rows = self._db.execute(query, (key,)).fetchall()
            except sqlite3.DatabaseError as error:
                raise StoreFormatError(f"{self._path} is damaged: {error}") from error
        if count is None or [row[0] for row in rows] != list(range(count[0])):
            raise StoreFormatError(f"{self._path} lacks a part of an item")
        found = []
        for _, digest, data in rows:
            if not isinstance(data, bytes) or _digest(data) != digest:
                raise StoreFormatError(f"{self._path} is damaged: a check sum is wrong")
            found.append(zlib.decompress(data))
        return found

    def write(self, key: str, facts: Mapping[str, Any], blobs: Iterable[bytes]) -> bool:
        """Write or replace the cached item with this key; return False if the write failed."""
        # Blobs are compressed before the cache's lock is taken, because compression takes time.
        rows = []
        for place, blob in enumerate(blobs):
            data = zlib.compress(blob, _LEVEL)
            rows.append((key, place, _digest(data), data))
        with self._lock:
            return self._change(
                ("DELETE FROM parts WHERE key = ?", [(key,)]),
                ("INSERT INTO parts VALUES (?,?,?,?)", rows),
                ("INSERT OR REPLACE INTO items VALUES (?,?,?)", [(key, json.dumps(facts), len(rows))]),
            )

    def note(self, facts: Mapping[str, Mapping[str, Any]]) -> bool:
        """Replace the JSON facts of existing items, given by key; return False if the write failed."""
        rows = [(json.dumps(each), key) for key, each in facts.items()]
        with self._lock:
            return not rows or self._change(("UPDATE items SET facts = ? WHERE key = ?", rows))

    def keep_only(self, keys: Collection[str]) -> None:
        """Delete every cached item whose key is not in ``keys``."""
        with self._lock:
            if self._db is None:
                return
            try:
                there = [key for (key,) in self._db.execute("SELECT key FROM items")]
            except sqlite3.DatabaseError as error:
                self._replace(error)
                return
            self._forget([key for key in there if key not in keys])

    def forget(self, key: str) -> None:
        """Delete the item with this key from the cache."""
        with self._lock:
            self._forget([key])

    def close(self) -> None:
        """Close the cache file; later writes store nothing."""
        with self._lock:
            db, self._db = self._db, None
            if db is not None:
                db.close()

    def _forget(self, keys: Iterable[str]) -> None:
        rows = [(key,) for key in keys]
        if rows:
            self._change(("DELETE FROM parts WHERE key = ?", rows), ("DELETE FROM items WHERE key = ?", rows))

    def _change(self, *steps: tuple[str, list[Any]]) -> bool:
        """Execute SQL statements on the cache file in one transaction; return False on an error.

        The caller holds the cache's lock.
        """
        if self._db is None:
            return False
        try:
            self._db.execute("BEGIN IMMEDIATE")
            for statement, rows in steps:
                self._db.executemany(statement, rows)
                self._reached("within-shelf")
            self._db.execute("COMMIT")
        except sqlite3.OperationalError as error:
            # The disk is full or the cache's database is locked; the existing items remain valid.
            log.warning("%s cannot be written: %s", self._path, error)
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            return False
        except sqlite3.DatabaseError as error:
            self._replace(error)
            return False
        return True


def key_of(text: str) -> str:
    """Return a cache key: a hash of a text and of the releases of this program and of Oxigraph."""
    releases = f"{release_of()} {release_of('pyoxigraph')}"
    return hashlib.sha256(f"{releases} {text}".encode()).hexdigest()


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=16).digest()
