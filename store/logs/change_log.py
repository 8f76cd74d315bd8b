"""The change log: every commit becomes durable in the log before the quad store applies it.

    commit -> change log (fsync) -> apply to the quads -> now and then: flush the quads, checkpoint the log

A commit is in the change log before any reader sees the commit. The quad store (RocksDB without sync)
survives a killed process but may lose its newest commits in a power failure. Opening the store therefore
applies every commit after the checkpoint again, in order; a commit that the quad store already has changes
nothing (`committer`). The change log is one SQLite file in WAL mode, and ``synchronous=FULL`` costs one fsync
per group of commits. A group of commits usually writes only the rows of its commits; sizes and quad counts of
graphs follow from the rows and are written less often. Commits that recovery may need are never deleted from
the change log.

SQLite treats a damaged end of its write-ahead log as never written, and does not verify the values in its
pages. A file next to the change log therefore marks the newest durable version (`marks`), and each row has a
check sum.
"""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import chain
from pathlib import Path
from types import MappingProxyType

from ..changes.commit import Commit, graph_key
from ..changes.counts import counts_after, counts_of_keys
from ..errors import GoneError, StoreError
from ..folder import keep_private
from .change_faults import (
    EARLIEST,
    PARTED,
    behind,
    damaged,
    facts_of,
    gone,
    log_error,
    missing,
    parted_of,
    require_sound,
    stored_facts,
    sum_of,
)
from .change_rows import COLUMNS, check_sum, commit_of, row_of
from .history import Retention
from .marks import LogMark
from .pinned_files import copy_database
from .reading import reading
from .room import make_room

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE commits (
    version INTEGER PRIMARY KEY,
    at_ms INTEGER NOT NULL,
    exact INTEGER NOT NULL,
    cause TEXT,
    graphs TEXT NOT NULL,
    names TEXT,
    added BLOB,
    removed BLOB,
    bytes INTEGER NOT NULL,
    digest INTEGER
);
CREATE TABLE counts (graph TEXT PRIMARY KEY, quads INTEGER NOT NULL, digest INTEGER) WITHOUT ROWID;
INSERT INTO meta VALUES ('version', 0), ('checkpoint', 0), ('bytes', 0), ('bulk', 0);
"""


class SqliteChangeLog:
    """The change log of a store folder, on disk."""

    on_disk = True

    def __init__(self, path: Path, *, durable: bool, retention: Retention) -> None:
        self._path = path
        self._retention = retention
        self._durable = durable
        # Each reader of the change log has a separate connection, because WAL mode allows reads during a
        # write.
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._readers_lock = threading.Lock()
        self._marked: tuple[int, str] | None = None
        # The time of the oldest commit in the log in milliseconds; None if unknown.
        self._oldest_ms: int | None = None
        # Quad counts of graphs that changed since the counts were last written to the file.
        self._due: dict[str, int | None] = {}
        with ExitStack() as undo:
            self._mark = LogMark(LogMark.mark_path(path))
            undo.callback(self._mark.close)
            new = not path.exists()
            try:
                if new and self._mark.last:
                    raise behind(path, 0, self._mark.last)
                if not new:
                    with reading(path) as db:
                        require_sound(db, path, self._mark.last)
                self._db = self._connect()
                undo.callback(self._db.close)
                if new:
                    self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
                self._meta = self._opened()
                if durable:
                    make_room(path)
                (earliest,) = self._db.execute("SELECT min(version) FROM commits").fetchone()
            except (sqlite3.Error, LookupError, ValueError, TypeError) as error:
                raise log_error(path, error) from error
            self._earliest = self.version + 1 if earliest is None else int(earliest)
            self.parted: Mapping[int, int] = parted_of(self._meta)
            # No commit exists between the last version of one epoch and the first version of the next epoch.
            following = {first: before + 1 for before, first in self.parted.items()}
            self._earliest = following.get(self._earliest, self._earliest)
            # After a killed process the stored quad counts lack the newest commits, so these commits are
            # added.
            behind_them = self.after(stored_facts(self._db)["version"], listed=False)
            counts = counts_after(counts_of_keys(self.counts()), behind_them)
            self._due = {graph_key(name): count for name, count in counts.items()}
            undo.pop_all()

    def _opened(self) -> dict[str, int]:
        """Return the facts in the change log's table ``meta``; a new log first gets a random identity."""
        meta = facts_of(self._db)
        if "check" not in meta:
            # The identity is a random number for this history; files derived from the dataset refer to it.
            self._meta = {"identity": secrets.randbits(62), **meta}
            with self._changing(identity=self._meta["identity"], earliest=0):
                pass
            return self._meta
        return {name: value for name, value in meta.items() if name != "check"}

    @property
    def version(self) -> int:
        """The version of the newest commit; see `ChangeLog.version`."""
        return self._meta["version"]

    @property
    def checkpoint(self) -> int:
        """The version up to which the quads on disk are flushed; see `ChangeLog.checkpoint`."""
        return self._meta["checkpoint"]

    @property
    def bulk_pending(self) -> bool:
        """True while a bulk load has begun and not ended; see `ChangeLog.bulk_pending`."""
        return bool(self._meta["bulk"])

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        keep_private(self._path)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
        return db

    # --- writing ------------------------------------------------------------------------------

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """Make commits durable together in the change log; see `ChangeLog.append`."""
        rows = [row_of(commit) for commit in commits]
        size = self._meta["bytes"] + sum(int(str(row[-2])) for row in rows)
        earliest = self._meta[EARLIEST] or commits[0].version
        facts = {"version": commits[-1].version, "bytes": size, "bulk": 0, EARLIEST: earliest}
        follows = not self.bulk_pending and earliest == self._meta[EARLIEST]
        if follows:
            try:
                _insert(self._db, rows)
            except sqlite3.Error as error:
                raise log_error(self._path, error) from error
            self._meta |= facts
            self._due |= counts
        else:
            with self._changing(counts, **facts) as db:
                _insert(db, rows)
        if self._durable:
            self._mark.note(self.version)

    def begin_bulk(self) -> None:
        """Record in the change log that a bulk load begins; see `ChangeLog.begin_bulk`."""
        with self._changing(bulk=1):
            pass

    def end_bulk(self) -> None:
        """Record in the change log that a bulk load changed nothing; see `ChangeLog.end_bulk`."""
        with self._changing(bulk=0):
            pass

    def mark_checkpoint(self, version: int) -> None:
        """Record up to which version the quads on disk are flushed; see `ChangeLog.mark_checkpoint`."""
        with self._changing(checkpoint=version):
            pass

    def trim(self, now_ms: int) -> None:
        """Delete old commits from the change log by the retention limits; see `ChangeLog.trim`."""
        oldest = now_ms - self._retention.max_age_ms
        kept = self._meta["bytes"]
        if kept <= self._retention.max_bytes and not self._has_older(oldest):
            return
        last = None
        query = (
            "SELECT version, at_ms, bytes FROM commits WHERE version <= ? AND version < ? ORDER BY version"
        )
        for version, at_ms, size in self._db.execute(query, (self.checkpoint, self.version)):
            if kept <= self._retention.max_bytes and at_ms >= oldest:
                break
            kept, last = kept - size, version
        if last is None:
            return
        # The earliest readable version changes before the rows are deleted, so that concurrent readers do not
        # request deleted rows.
        before, self._earliest = self._earliest, last + 1
        try:
            with self._changing(bytes=kept, earliest=self.parted.get(last, last + 1)) as db:
                db.execute("DELETE FROM commits WHERE version <= ?", (last,))
            self._oldest_ms = None
        except StoreError:
            self._earliest = before
            raise

    def backup(self, target: Path) -> None:
        """Copy the change log's database to the file ``target``; see `ChangeLog.backup`."""
        copy_database(self._db, target)

    def begin_epoch(self, version: int) -> None:
        """Begin a new epoch of versions, after a copy of the folder; see `ChangeLog.begin_epoch`."""
        before, first = self.version, max(version, self.version + 1)
        with self._changing(**{f"{PARTED}{before}": first}):
            pass
        self.parted = {**self.parted, before: first}

    def close(self) -> None:
        """Close the change log's idle database connections; a connection in use is closed after its read."""
        self._db.close()
        with self._readers_lock:
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._readers.clear()
        # Closing SQLite's last connection moves the write-ahead log to the main file and syncs that file, so
        # the newest version is durable for every sync setting.
        self._mark.note(self.version)
        self._mark.close()

    def _has_older(self, at_ms: int) -> bool:
        if self._oldest_ms is None:
            row = self._db.execute("SELECT at_ms FROM commits ORDER BY version LIMIT 1").fetchone()
            self._oldest_ms = None if row is None else row[0]
        return self._oldest_ms is not None and self._oldest_ms < at_ms

    @contextmanager
    def _changing(
        self, counts: Mapping[str, int | None] = MappingProxyType({}), /, **facts: int
    ) -> Iterator[sqlite3.Connection]:
        """Execute the block as one SQL transaction that also stores metadata and quad counts of graphs."""
        meta = {**self._meta, **facts}
        document = {**meta, "check": sum_of(meta)}
        try:
            self._db.execute("BEGIN IMMEDIATE")
            yield self._db
            self._write_counts({**self._due, **counts})
            self._db.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", list(document.items()))
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise log_error(self._path, error) from error
        self._meta, self._due = meta, {}

    def _write_counts(self, counts: Mapping[str, int | None]) -> None:
        gone = [(graph,) for graph, count in counts.items() if count is None]
        kept = [
            (graph, count, check_sum((graph, count))) for graph, count in counts.items() if count is not None
        ]
        self._db.executemany("DELETE FROM counts WHERE graph = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?, ?)", kept)

    def _roll_back(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the caller raises the error that caused the SQL rollback

    # --- reading ------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """Return the number of quads of each graph; see `ChangeLog.counts`."""
        counts = {}
        for graph, quads, digest in self._db.execute("SELECT graph, quads, digest FROM counts"):
            if digest is not None and digest != check_sum((graph, quads)):
                raise damaged(self._path, f"the number of quads of {graph} is wrong")
            counts[graph] = quads
        for graph, due in self._due.items():
            if due is None:
                counts.pop(graph, None)
            else:
                counts[graph] = due
        return counts

    def after(self, version: int, limit: int | None = None, *, listed: bool = True) -> Iterator[Commit]:
        """Return the commits after ``version``, oldest first; see `ChangeLog.after`.

        Commits are read from the log in pages; no SQL transaction stays open between pages.
        """
        return self._pages(version, limit, listed=listed) if self._reaches(version) else iter(())

    def mark(self, version: int) -> str | None:
        """Return a hash of the store's history up to ``version``; see `ChangeLog.mark`.

        The mark of a version is a hash of the change log's identity and of the stored commit with its time
        and quads. If two copies of a data folder diverge, for instance after a restore, their first different
        commits have different marks.
        """
        known = self._marked
        if known is not None and known[0] == version:
            return known[1]
        rows = self._page(version - 1, 1)
        if not rows or rows[0][0] != version:
            return None
        digest = hashlib.sha256(str(self._meta["identity"]).encode())
        for value in rows[0][:-1]:
            digest.update(b"|" + (value if isinstance(value, bytes) else str(value).encode()))
        # Callers ask for the mark of the same commit repeatedly, and hashing a large commit is slow.
        self._marked = version, digest.hexdigest()
        return self._marked[1]

    def _reaches(self, version: int) -> bool:
        if version > self.version:
            raise GoneError(
                f"version {version} is ahead of the store, which is at {self.version}",
                earliest=self._earliest - 1,
                hint="the store was restored from a backup; read the dataset again",
            )
        if version < self._earliest - 1:
            raise gone(version, self._earliest)
        return version < self.version

    def _pages(self, version: int, limit: int | None, *, listed: bool) -> Iterator[Commit]:
        left, until = limit, self.version
        while left is None or left > 0:
            page = 200 if left is None else min(200, left)
            rows = self._page(version, page)
            for row in rows:
                if row[0] not in (version + 1, self.parted.get(version)):
                    raise missing(self._path, version, self._earliest, self.parted)
                version = int(str(row[0]))
                if row[-1] is not None and row[-1] != check_sum(row[:-1]):
                    raise damaged(self._path, f"the check sum of version {version} is wrong")
                yield commit_of(row[:-1], listed=listed)
            if len(rows) < page:
                if version < until:
                    raise missing(self._path, version, self._earliest, self.parted)
                return
            left = None if left is None else left - len(rows)

    def _page(self, version: int, count: int) -> list[tuple[object, ...]]:
        with self._readers_lock:
            if self._closed:
                raise StoreError("the store is closed")
            reader = self._readers.pop() if self._readers else self._connect()
        try:
            return reader.execute(
                f"SELECT {COLUMNS}, digest FROM commits WHERE version > ? ORDER BY version LIMIT ?",
                (version, count),
            ).fetchall()
        except sqlite3.Error as error:
            raise log_error(self._path, error) from error
        finally:
            with self._readers_lock:
                if self._closed:
                    reader.close()
                else:
                    self._readers.append(reader)


def _insert(db: sqlite3.Connection, rows: list[tuple[object, ...]]) -> None:
    """Insert commits into the change log by one SQL statement, a transaction of its own if none is open."""
    values = ",".join(["(?,?,?,?,?,?,?,?,?,?)"] * len(rows))
    db.execute(f"INSERT INTO commits VALUES {values}", [*chain.from_iterable(rows)])
