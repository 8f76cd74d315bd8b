"""The result log: events of every feed on disk, so that subscribers resume after restarts and crashes.

An event is written to the result log before a subscriber receives the event. Events in the result log are not
synced one by one: after a power failure, missing events are computed again from the durable input log. `sync`
makes all events of the result log durable before a checkpoint allows the input log to be trimmed. The result
log is one SQLite file in WAL mode. The column ``feed`` holds the number of a feed; a query that is deleted
and registered again under the same name has a feed with another number.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import DAMAGED, OlderFormatError, StoreFormatError, StoreUnwritableError
from ..folder import keep_private

log = logging.getLogger("quadrill.store")

EventRow = tuple[int, int, int | None, str, str]
"""A row of the result log: (feed number, position in the feed, event id, kind, data)."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    feed INTEGER NOT NULL, place INTEGER NOT NULL, id INTEGER, kind TEXT NOT NULL, data TEXT NOT NULL,
    digest INTEGER, PRIMARY KEY (feed, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feeds (feed INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""
_INSERT = "INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?)"


class ResultLog:
    """The result log's events by feed and position in the feed, used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)
            keep_private(path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            if "digest" not in [row[1] for row in self._db.execute("PRAGMA table_info(events)")]:
                self._db.close()
                raise OlderFormatError(f"the result log {path}")
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error) or "malformed" in str(error):
                raise _damaged(path, error) from error
            raise _unwritable(path, error) from error

    def append(self, rows: Sequence[EventRow], forget: Sequence[tuple[int, int]] = ()) -> None:
        """Write events to the result log, and delete those up to each (feed, position), in one transaction.

        Raises:
            StoreUnwritableError: the disk refuses to write the result log; no row was changed.
        """
        try:
            if len(rows) == 1 and not forget:
                # A single SQL statement needs no explicit transaction, which is cheapest for small pushes.
                self._db.execute(_INSERT, (*rows[0], check_sum(rows[0])))
                return
            summed = [(*row, check_sum(row)) for row in rows]
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, summed)
            self._db.executemany("DELETE FROM events WHERE feed = ? AND place <= ?", forget)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise _unwritable(self._path, error) from error

    def name(self, feed: int, name: str) -> None:
        """Store the name of the query that a feed number of the result log belongs to."""
        try:
            self._db.execute("INSERT OR REPLACE INTO feeds VALUES (?,?)", (feed, name))
        except sqlite3.Error as error:
            raise _unwritable(self._path, error) from error

    def events(self, feed: int) -> list[tuple[int, int | None, str, str]]:
        """Return (position, id, kind, data) of a feed's undamaged events in the result log, by position."""
        query = "SELECT feed, place, id, kind, data, digest FROM events WHERE feed = ? ORDER BY place"
        try:
            rows = self._db.execute(query, (feed,)).fetchall()
        except sqlite3.Error as error:
            raise _damaged(self._path, error) from error
        whole = [row[1:5] for row in rows if row[5] is None or row[5] == check_sum(row[:5])]
        if len(whole) < len(rows):
            log.error("%d events of the result log %s are damaged", len(rows) - len(whole), self._path)
        return whole

    def newest(self, name: str) -> tuple[int, int, int] | None:
        """Return (feed number, last position, last id) of a name's newest feed with events, or None."""
        query = (
            "SELECT f.feed, max(e.place), max(e.id) FROM feeds f JOIN events e ON e.feed = f.feed "
            "WHERE f.name = ? GROUP BY f.feed ORDER BY f.feed DESC LIMIT 1"
        )
        row = self._db.execute(query, (name,)).fetchone()
        return None if row is None else (row[0], row[1], row[2] or 0)

    def keep_only(self, feeds: Iterable[int]) -> None:
        """Delete all feeds except ``feeds`` from the result log, with their events."""
        kept = set(feeds)
        numbers = {row[0] for row in self._db.execute("SELECT feed FROM feeds")}
        for feed in numbers - kept:
            self.drop(feed)

    def drop(self, feed: int) -> None:
        """Delete a feed and its events from the result log."""
        try:
            self._db.execute("DELETE FROM events WHERE feed = ?", (feed,))
            self._db.execute("DELETE FROM feeds WHERE feed = ?", (feed,))
        except sqlite3.Error as error:
            raise _unwritable(self._path, error) from error

    def size(self) -> int:
        """Return the size of the result log's database and its write-ahead log in bytes."""
        files = (self._path, self._path.with_name(self._path.name + "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def sync(self) -> None:
        """Sync all written events of the result log to disk; any thread may call this method.

        Only SQLite's write-ahead log is synced, because SQLite syncs the main file before it overwrites the
        write-ahead log. Closing the write-ahead log's file releases no lock of SQLite's database.
        """
        try:
            with self._path.with_name(self._path.name + "-wal").open("rb") as log:
                os.fdatasync(log.fileno())
        except FileNotFoundError:
            return
        except OSError as error:
            raise StoreUnwritableError(
                f"the result log {self._path} cannot be synced: {error.strerror}",
                hint="Check permissions and free space",
            ) from error

    def close(self) -> None:
        """Close the database file of the result log."""
        self._db.close()


def check_sum(row: EventRow) -> int:
    """Return the check sum of an event's row in the result log."""
    feed, place, number, kind, data = row
    return zlib.crc32(f"{feed} {place} {number} {kind} {data}".encode())


def _damaged(path: Path, error: Exception) -> StoreFormatError:
    return StoreFormatError(f"the result log {path} is damaged: {error}", hint=DAMAGED)


def _unwritable(path: Path, error: sqlite3.Error) -> StoreUnwritableError:
    return StoreUnwritableError(
        f"the result log {path} cannot be written: {error}", hint="Check permissions and free space"
    )
