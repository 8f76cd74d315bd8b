"""The change log: every commit, durable before it is made in the quad store.

    log (fsync)  ->  apply to the quads  ->  now and then: flush the quads, checkpoint the log

A commit is in the log before any reader sees it. The quad store (RocksDB, not synced) survives a killed
process but may lose its newest commits with the power; opening makes every commit after the checkpoint once
more, in order, which changes nothing where it had been made (`store.recovery`). One SQLite file in WAL mode;
``synchronous=FULL`` is one fsync per group of commits. Nothing is trimmed that recovery may need.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import sqlite3
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pyoxigraph import BlankNode, NamedNode, Quad, RdfFormat, parse, serialize

from ..changes.commit import Commit, GraphChange, graph_key, graph_of_key
from ..errors import GoneError, StoreError, StoreFormatError, StoreUnwritableError


@dataclass(frozen=True, slots=True)
class Retention:
    """The limits on the history that the change log keeps; the newest commit always stays.

    Attributes:
        max_bytes: of stored change sets.
        max_age_ms: since the commit.
    """

    max_bytes: int = 256 * 1024 * 1024
    max_age_ms: int = 7 * 24 * 3600 * 1000


class ChangeLog(Protocol):
    """The change log as the store uses it, on disk or in memory.

    Methods are called under the writer lock, `after` from any thread.
    """

    on_disk: bool
    """True when commits survive the process; the quads must then be flushed before a checkpoint is noted."""

    version: int
    """The version of the newest commit; it never goes back."""

    bulk_pending: bool
    """True when a bulk load was begun and not ended: the stored counts may be wrong."""

    @property
    def checkpoint(self) -> int:
        """The quads on disk hold every commit up to this version for certain."""
        ...

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """Make the commits durable together, with the new quad count of each graph they touch (None: gone).

        Raises:
            StoreUnwritableError: nothing was logged.
        """
        ...

    def after(self, version: int, limit: int | None = None) -> Iterator[Commit]:
        """The commits after ``version``, oldest first.

        Raises:
            GoneError: history does not reach back so far.
        """
        ...

    def trim(self, now_ms: int) -> None:
        """Forget what is beyond retention; commits that recovery may need stay."""
        ...

    def mark_checkpoint(self, version: int) -> None:
        """Note that the quads on disk hold every commit up to ``version`` for certain."""
        ...

    def begin_bulk(self) -> None:
        """Note that a bulk load begins; should it be cut off, opening counts the quads anew."""
        ...

    def end_bulk(self) -> None:
        """Note that a bulk load ended without a change."""
        ...

    def counts(self) -> dict[str, int]:
        """The stored quad count of each listed graph."""
        ...

    def replace_counts(self, counts: Mapping[str, int]) -> None:
        """Store counts taken anew."""
        ...

    def mark(self, version: int) -> str | None:
        """Names this history up to a version; None when the commit of that version is not in the log."""
        ...

    def backup(self, target: Path) -> None:
        """Write a copy of the log as it is now."""
        ...

    def close(self) -> None:
        """Close; the log is not used afterwards."""
        ...


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
    bytes INTEGER NOT NULL
);
CREATE TABLE counts (graph TEXT PRIMARY KEY, quads INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO meta VALUES ('version', 0), ('checkpoint', 0), ('bytes', 0), ('bulk', 0);
"""
_COMPRESS_FROM = 512


class SqliteChangeLog:
    """The durable log of a store folder."""

    on_disk = True

    def __init__(self, path: Path, *, durable: bool, retention: Retention) -> None:
        self._path = path
        self._retention = retention
        self._durable = durable
        # Readers use connections of their own: WAL lets them read beside the writer.
        self._readers: list[sqlite3.Connection] = []
        self._closed = False
        self._readers_lock = threading.Lock()
        new = not path.exists()
        try:
            self._db = self._connect()
            if new:
                self._db.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
            # Which history this is: what else is kept of a dataset names it.
            identity = secrets.randbits(62)
            self._db.execute("INSERT OR IGNORE INTO meta VALUES ('identity', ?)", (identity,))
            meta = dict(self._db.execute("SELECT name, value FROM meta").fetchall())
            self.version = int(meta["version"])
            self._identity = int(meta["identity"])
            self.checkpoint = int(meta["checkpoint"])
            self.bulk_pending = bool(meta["bulk"])
            self._bytes = int(meta["bytes"])
            row = self._db.execute("SELECT min(version) FROM commits").fetchone()
            self._earliest = int(row[0]) if row[0] is not None else self.version + 1
        except (sqlite3.Error, KeyError) as error:
            raise _log_error(path, error) from error

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False, timeout=30)
        db.execute("PRAGMA journal_mode=WAL")
        db.execute(f"PRAGMA synchronous={'FULL' if self._durable else 'NORMAL'}")
        return db

    # --- writing ------------------------------------------------------------------------------

    def append(self, commits: Sequence[Commit], counts: Mapping[str, int | None]) -> None:
        """See `ChangeLog.append`."""
        rows = [_row(commit) for commit in commits]
        size = self._bytes + sum(int(str(row[-1])) for row in rows)
        version = commits[-1].version
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("INSERT INTO commits VALUES (?,?,?,?,?,?,?,?,?)", rows)
            self._write_counts(counts)
            self._set(version=version, bytes=size, bulk=0)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _log_error(self._path, error) from error
        self.version = version
        self._bytes = size
        self.bulk_pending = False

    def begin_bulk(self) -> None:
        """See `ChangeLog.begin_bulk`."""
        self._transact(bulk=1)
        self.bulk_pending = True

    def end_bulk(self) -> None:
        """See `ChangeLog.end_bulk`."""
        self._transact(bulk=0)
        self.bulk_pending = False

    def mark_checkpoint(self, version: int) -> None:
        """See `ChangeLog.mark_checkpoint`."""
        self._transact(checkpoint=version)
        self.checkpoint = version

    def replace_counts(self, counts: Mapping[str, int]) -> None:
        """See `ChangeLog.replace_counts`."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM counts")
            self._write_counts(counts)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _log_error(self._path, error) from error

    def trim(self, now_ms: int) -> None:
        """See `ChangeLog.trim`."""
        oldest = now_ms - self._retention.max_age_ms
        if self._bytes <= self._retention.max_bytes and not self._has_older(oldest):
            return
        gone, last = 0, None
        query = (
            "SELECT version, at_ms, bytes FROM commits WHERE version <= ? AND version < ? ORDER BY version"
        )
        for version, at_ms, size in self._db.execute(query, (self.checkpoint, self.version)):
            if self._bytes - gone <= self._retention.max_bytes and at_ms >= oldest:
                break
            gone, last = gone + size, version
        if last is None:
            return
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._db.execute("DELETE FROM commits WHERE version <= ?", (last,))
            self._set(bytes=self._bytes - gone)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _log_error(self._path, error) from error
        self._bytes -= gone
        self._earliest = last + 1

    def backup(self, target: Path) -> None:
        """See `ChangeLog.backup`."""
        copy = sqlite3.connect(target)
        try:
            self._db.backup(copy)
        finally:
            copy.close()

    def close(self) -> None:
        """Close every connection that is not being read."""
        self._db.close()
        with self._readers_lock:
            self._closed = True
            for reader in self._readers:
                reader.close()
            self._readers.clear()

    def _has_older(self, at_ms: int) -> bool:
        row = self._db.execute("SELECT at_ms FROM commits ORDER BY version LIMIT 1").fetchone()
        return row is not None and row[0] < at_ms

    def _transact(self, **values: int) -> None:
        try:
            self._db.execute("BEGIN IMMEDIATE")
            self._set(**values)
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            raise _log_error(self._path, error) from error

    def _set(self, **values: int) -> None:
        self._db.executemany(
            "UPDATE meta SET value = ? WHERE name = ?", [(value, name) for name, value in values.items()]
        )

    def _write_counts(self, counts: Mapping[str, int | None]) -> None:
        gone = [(graph,) for graph, count in counts.items() if count is None]
        kept = [(graph, count) for graph, count in counts.items() if count is not None]
        self._db.executemany("DELETE FROM counts WHERE graph = ?", gone)
        self._db.executemany("INSERT OR REPLACE INTO counts VALUES (?, ?)", kept)

    def _roll_back(self) -> None:
        try:
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the first error is the one to tell

    # --- reading ------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        """See `ChangeLog.counts`."""
        return dict(self._db.execute("SELECT graph, quads FROM counts").fetchall())

    def after(self, version: int, limit: int | None = None) -> Iterator[Commit]:
        """See `ChangeLog.after`. Reads in pages, so no transaction stays open between two commits."""
        return self._pages(version, limit) if self._reaches(version) else iter(())

    def mark(self, version: int) -> str | None:
        """See `ChangeLog.mark`.

        Two histories of one folder that parted, as after a backup was restored, have different marks from
        their first different commit on: the mark is made from the commit as it is stored, time and quads.
        """
        rows = self._page(version - 1, 1)
        if not rows or rows[0][0] != version:
            return None
        digest = hashlib.sha256(str(self._identity).encode())
        for value in rows[0]:
            digest.update(b"|" + (value if isinstance(value, bytes) else str(value).encode()))
        return digest.hexdigest()

    def _reaches(self, version: int) -> bool:
        if version > self.version:
            raise GoneError(
                f"version {version} is ahead of the store, which is at {self.version}",
                earliest=self._earliest - 1,
                hint="the store was restored from a backup; read the dataset anew",
            )
        if version < self._earliest - 1:
            raise gone(version, self._earliest)
        return version < self.version

    def _pages(self, version: int, limit: int | None) -> Iterator[Commit]:
        left = limit
        while left is None or left > 0:
            page = 200 if left is None else min(200, left)
            rows = self._page(version, page)
            for row in rows:
                if row[0] != version + 1:  # trimmed while we read
                    raise gone(version, self._earliest)
                version = version + 1
                yield _commit(row)
            if len(rows) < page:
                return
            left = None if left is None else left - len(rows)

    def _page(self, version: int, count: int) -> list[tuple[object, ...]]:
        with self._readers_lock:
            if self._closed:
                raise StoreError("the store is closed")
            reader = self._readers.pop() if self._readers else self._connect()
        try:
            return reader.execute(
                "SELECT version, at_ms, exact, cause, graphs, names, added, removed FROM commits"
                " WHERE version > ? ORDER BY version LIMIT ?",
                (version, count),
            ).fetchall()
        finally:
            with self._readers_lock:
                if self._closed:
                    reader.close()
                else:
                    self._readers.append(reader)


def gone(version: int, earliest: int) -> GoneError:
    """The error for a reader that is behind retention."""
    return GoneError(
        f"the change log begins after version {earliest - 1}, version {version} was asked for",
        earliest=earliest - 1,
        hint="read the dataset anew and follow from its version",
    )


def _row(commit: Commit) -> tuple[object, ...]:
    graphs = json.dumps({key: [change.added, change.removed] for key, change in commit.graphs.items()})
    names = None
    if commit.created or commit.dropped:
        names = json.dumps([[graph_key(name) for name in part] for part in (commit.created, commit.dropped)])
    added, removed = _pack(commit.added), _pack(commit.removed)
    size = len(graphs) + len(names or "") + len(added or b"") + len(removed or b"") + 32
    return (commit.version, commit.at_ms, commit.exact, commit.cause, graphs, names, added, removed, size)


def _commit(row: tuple[object, ...]) -> Commit:
    version, at_ms, exact, cause, graphs, names, added, removed = row
    created, dropped = json.loads(str(names)) if names else ([], [])
    return Commit(
        version=int(str(version)),
        at_ms=int(str(at_ms)),
        added=_unpack(added),
        removed=_unpack(removed),
        created=_names(created),
        dropped=_names(dropped),
        exact=bool(exact),
        graphs={key: GraphChange(plus, minus) for key, (plus, minus) in json.loads(str(graphs)).items()},
        cause=None if cause is None else str(cause),
    )


def _names(keys: list[str]) -> tuple[NamedNode | BlankNode, ...]:
    names = (graph_of_key(key) for key in keys)
    return tuple(name for name in names if isinstance(name, (NamedNode, BlankNode)))


def _pack(quads: tuple[Quad, ...]) -> bytes | None:
    """N-Quads, compressed from half a kilobyte on; the first byte tells (N-Quads never begin with ``x``)."""
    if not quads:
        return None
    data = serialize(quads, format=RdfFormat.N_QUADS) or b""
    return data if len(data) < _COMPRESS_FROM else zlib.compress(data, 1)


def _unpack(data: object) -> tuple[Quad, ...]:
    if not isinstance(data, bytes):
        return ()
    if data[:1] == b"x":  # a zlib header; a line begins with < or _
        data = zlib.decompress(data)
    return tuple(parse(data, RdfFormat.N_QUADS))


def _log_error(path: Path, error: Exception) -> StoreError:
    text = str(error)
    if (
        "not a database" in text
        or "malformed" in text
        or isinstance(error, KeyError)
        or "no such table" in text
    ):
        return StoreFormatError(
            f"the change log {path} is damaged: {text}", hint="restore the data folder from a backup"
        )
    if "closed database" in text:
        return StoreError("the store is closed")
    return StoreUnwritableError(
        f"the change log {path} cannot be written: {text}",
        hint="check free space and permissions of the data folder",
    )
