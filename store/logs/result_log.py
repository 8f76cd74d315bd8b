"""The result log: events of every feed on disk, so that subscribers resume after restarts and crashes.

An event is written to the result log before a subscriber receives the event. Events in the result log are not
synced one by one: after a power failure, missing events are computed again from the durable input log. `sync`
makes all events of the result log durable before a checkpoint allows the input log to be trimmed. The result
log is one SQLite file in WAL mode. The column ``feed`` holds the number of a feed; a query that is deleted
and registered again under the same name has a feed with another number. For feeds of shapes the log also has
the rows of the answer after the newest event, from which the next event after a crash is computed.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from ..errors import DAMAGED, OlderFormatError, StoreFormatError, StoreUnwritableError
from ..folder import keep_private

log = logging.getLogger("quadrill.store")

EventRow = tuple[int, int, int | None, str, str]
"""A row of the result log: (feed number, position in the feed, event id, kind, data)."""
AnswerChange = tuple[int, str, int]
"""A change of an answer: (feed number, row of the answer as text, how many more times it has the row)."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS events (
    feed INTEGER NOT NULL, place INTEGER NOT NULL, id INTEGER, kind TEXT NOT NULL, data TEXT NOT NULL,
    digest INTEGER, PRIMARY KEY (feed, place)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS feeds (feed INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
    feed INTEGER NOT NULL, row TEXT NOT NULL, times INTEGER NOT NULL, PRIMARY KEY (feed, row)
) WITHOUT ROWID;
"""
_INSERT = "INSERT OR REPLACE INTO events VALUES (?,?,?,?,?,?)"
_CHANGE = "INSERT INTO answers VALUES (?,?,?) ON CONFLICT DO UPDATE SET times = times + excluded.times"


class ResultLog:
    """The result log's events by feed and position in the feed, used by one thread at a time."""

    def __init__(self, path: Path | None) -> None:
        """Open or create the log in a file; None keeps it in memory.

        Raises:
            StoreUnwritableError: the file cannot be written.
            StoreFormatError: the file is damaged.
        """
        self._path = Path("memory") if path is None else path
        try:
            place = ":memory:" if path is None else path
            self._db = sqlite3.connect(place, isolation_level=None, check_same_thread=False, timeout=30)
            if path is not None:
                keep_private(path)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.executescript(_SCHEMA)
            if "digest" not in [row[1] for row in self._db.execute("PRAGMA table_info(events)")]:
                self._db.close()
                raise OlderFormatError(f"the result log {path}")
        except sqlite3.DatabaseError as error:
            if "not a database" in str(error) or "malformed" in str(error):
                raise _damaged(self._path, error) from error
            raise _unwritable(self._path, error) from error

    def append(
        self,
        rows: Sequence[EventRow],
        forget: Sequence[tuple[int, int]] = (),
        answers: Sequence[AnswerChange] = (),
    ) -> None:
        """Write events and changes of answers, and delete events up to each (feed, position).

        All of it is one transaction.

        Raises:
            StoreUnwritableError: the disk refuses to write the result log; no row was changed.
        """
        try:
            if len(rows) == 1 and not forget and not answers:
                # A single SQL statement needs no explicit transaction, which is cheapest for small pushes.
                self._db.execute(_INSERT, (*rows[0], check_sum(rows[0])))
                return
            summed = [(*row, check_sum(row)) for row in rows]
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany(_INSERT, summed)
            self._db.executemany("DELETE FROM events WHERE feed = ? AND place <= ?", forget)
            self._db.executemany(_CHANGE, answers)
            removed = [(feed, row) for feed, row, times in answers if times < 0]
            self._db.executemany("DELETE FROM answers WHERE feed = ? AND row = ? AND times <= 0", removed)
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

    def answer(self, feed: int) -> Counter[str]:
        """Return the rows of a feed's answer after the newest event, with the number of times of each.

        Raises:
            StoreFormatError: the file is damaged.
        """
        try:
            return Counter(dict(self._db.execute("SELECT row, times FROM answers WHERE feed = ?", (feed,))))
        except sqlite3.Error as error:
            raise _damaged(self._path, error) from error

    def number(self, name: str) -> int | None:
        """Return the greatest number of a feed with this name; None if there is none."""
        found: int | None = self._db.execute(
            "SELECT max(feed) FROM feeds WHERE name = ?", (name,)
        ).fetchone()[0]
        return found

    def next_number(self) -> int:
        """Return a number that no feed has, greater than those of all feeds."""
        found: int = self._db.execute("SELECT coalesce(max(feed), 0) + 1 FROM feeds").fetchone()[0]
        return found

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
        self.empty(feed)
        try:
            self._db.execute("DELETE FROM feeds WHERE feed = ?", (feed,))
        except sqlite3.Error as error:
            raise _unwritable(self._path, error) from error

    def empty(self, feed: int) -> None:
        """Delete the events and the answer of a feed, whose name and number stay."""
        try:
            self._db.execute("DELETE FROM events WHERE feed = ?", (feed,))
            self._db.execute("DELETE FROM answers WHERE feed = ?", (feed,))
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
