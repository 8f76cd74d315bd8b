"""QuadStore: the named-graph store, its versions and its change sets.

The background dataset D of docs/semantics.md. Every change is one atomic commit with an exact change set and
the next version; every read is a snapshot
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

from pyoxigraph import Store

from ..changes.commit import Commit
from ..errors import (
    DAMAGED,
    FolderInUseError,
    StoreFormatError,
    StoreLockedError,
    StoreUnwritableError,
    UnsupportedError,
)
from ..folder import DataFolder, mark_as_copy, write_format
from ..logs.change_log import SqliteChangeLog
from ..logs.history import ChangeLog
from ..logs.manifest import note_manifest, require_manifest
from ..logs.memory_log import MemoryChangeLog
from ..sparql.query import Querier
from .committer import Committer
from .frozen import FrozenReader, frozen, remove_copies
from .options import StoreOptions
from .read_write_lock import ReadWriteLock
from .reading import StoreReader
from .subscribers import Subscribers
from .write_queue import WriteQueue
from .writing import StoreWriter


class QuadStore:
    """Named graphs over Oxigraph, on disk or in memory. Thread-safe; one process per folder.

    Attributes:
        reader: queries, graphs and dumps.
        writer: updates, changes of quads and graphs, loads.
        committer: makes the commits; notifies observers, goes back to earlier versions.
        queue: the writes that wait, and which graphs are owned by views.
        subscribers: notified of each commit after it is durable and visible.
        log: the history of commits.
        folder: None for a store in memory.
        limits: on query and update texts.
        allowed_hosts: hosts that SERVICE and LOAD may reach.
    """

    def __init__(
        self, store: Store, log: ChangeLog, folder: DataFolder | None, options: StoreOptions
    ) -> None:
        self.folder = folder
        self.log = log
        self.limits = options.limits
        self.allowed_hosts = options.allowed_hosts
        self.subscribers = Subscribers()
        gate = ReadWriteLock()
        querier = Querier(store, options.limits, options.allowed_hosts)
        database = None if folder is None else folder.quads
        self.committer = Committer(store, log, querier, gate, self.subscribers, options, database)
        self.queue = WriteQueue(self.committer, gate, self.subscribers, options.clock_ms, log.on_disk)
        self.reader = StoreReader(querier, self.committer, gate)
        self.writer = StoreWriter(self.queue, self.committer, options)

    @classmethod
    def open(cls, folder: Path | str | None, options: StoreOptions | None = None) -> QuadStore:
        """Open or make a store, and finish what a crash cut off.

        Args:
            folder: the data folder; None keeps everything in memory.
            options: the default ones when not given.

        Raises:
            StoreLockedError: another process holds the folder.
            StoreUnwritableError: the folder cannot be made or written.
            StoreFormatError: the folder is damaged, not ours or of a newer version.
        """
        options = options or StoreOptions()
        if folder is None:
            return cls(Store(), MemoryChangeLog(options.retention), None, options)
        data_folder = DataFolder.open(Path(folder))
        log: SqliteChangeLog | None = None
        try:
            remove_copies(data_folder.path)
            log = SqliteChangeLog(data_folder.changes, durable=options.durable, retention=options.retention)
            if not data_folder.is_copy:
                data_folder.settle()
            return cls(_open_quads(data_folder, log), log, data_folder, options)
        except BaseException:
            if log is not None:
                log.close()
            data_folder.close()
            raise

    # --- history ------------------------------------------------------------------------------

    def frozen(self, *, undo: Commit | None = None) -> FrozenReader:
        """The dataset as it is now, to be read while the store moves on; for observers, who hold writers up.

        Args:
            undo: the commit that was made last, which the copy is not to have.

        Raises:
            StoreUnwritableError: there is no room for a copy.
        """
        change = None if undo is None else undo.net()
        version = self.reader.version if undo is None else undo.version - 1
        path = None if self.folder is None else self.folder.path
        return frozen(self.committer.store, path, version, self.limits, self.allowed_hosts, change)

    def commits_after(
        self, version: int, limit: int | None = None, *, listed: bool = True
    ) -> Iterator[Commit]:
        """The commits after ``version`` that readers see by now, oldest first, from the change log.

        Not ``listed``: their quads may be counted only, which need not be read then.

        Raises:
            GoneError: the log does not reach back so far, or ``version`` lies ahead of the store.
        """
        visible, commits = self.reader.version, self.log.after(version, limit, listed=listed)
        return takewhile(lambda commit: commit.version <= visible, commits)

    @property
    def epoch(self) -> int:
        """Where versions and ids go on in a folder that was a copy or a backup: behind all of the first line.

        It is the moment at which that began, in microseconds: a line of history that gives fewer than a
        million of them a second never comes there. 0 in a folder that never was one.
        """
        return max(self.log.parted.values(), default=0)

    def begin_epoch_of_copy(self) -> None:
        """Let a folder that is a copy of another one, or a backup, part from it: see `epoch`."""
        if self.folder is not None and self.folder.is_copy:
            self.log.begin_epoch(time.time_ns() // 1000)
            self.folder.settle()

    def optimize(self) -> None:
        """Make later reads faster, after very many changes. Raises: StoreError when the store is closed."""
        self.reader.database().optimize()

    # --- copies -------------------------------------------------------------------------------

    def backup(
        self, target: Path | str, write_extra_files: Callable[[Path], None] = lambda path: None
    ) -> int:
        """Write a data folder that can be opened as it is, while the store runs.

        Args:
            target: a folder that does not exist or is empty; on the same disk the database files are linked,
                not copied.
            write_extra_files: writes further files into the folder before it becomes a backup; others may
                commit meanwhile.

        Returns:
            The version in the backup.

        Raises:
            UnsupportedError: the store is in memory.
            FolderInUseError: the folder is not empty.
            StoreUnwritableError: it cannot be written.
        """
        log, path = self.log, Path(target)
        if not log.on_disk:
            raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")

        def copy() -> int:
            try:
                path.mkdir(parents=True, exist_ok=True)
                if any(path.iterdir()):
                    raise FolderInUseError(f"the backup folder {path} is not empty", hint="give a new folder")
                self.committer.store.backup(path / "quads")
                log.backup(path / "changes.sqlite")
                return self.reader.version
            except OSError as error:
                raise StoreUnwritableError(f"the backup to {path} failed: {error}") from error

        version = self.committer.exclusively(copy)
        write_extra_files(path)
        mark_as_copy(path)
        write_format(path)  # last: a folder without it is not taken for a backup
        return version

    def checkpoint_quads(self, target: Path | str, *, in_commit: bool = False) -> int:
        """Write a copy of the database alone, for use by a worker process; returns its version.

        ``in_commit`` says that the thread holds other commits back already.

        Raises:
            UnsupportedError: the store is in memory.
        """
        if self.folder is None:
            raise UnsupportedError("a checkpoint of a store in memory")

        def copy() -> int:
            self.committer.store.backup(str(target))
            return self.reader.version

        return copy() if in_commit else self.committer.exclusively(copy)

    def close(self) -> None:
        """Finish the present commit, checkpoint, and let the folder go. Safe to call twice."""
        querier, self.reader.querier = self.reader.querier, None
        if querier is None:
            return
        try:
            self.committer.close()
        finally:
            querier.use(Store())
            del self.committer.store
            if self.folder is not None:
                # The database lets its folder go with its last reference, which may sit in a cycle of frames.
                gc.collect()
                self.folder.close()

    def __enter__(self) -> QuadStore:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _open_quads(folder: DataFolder, log: SqliteChangeLog) -> Store:
    if log.version and not folder.quads.exists():
        raise StoreFormatError(
            f"the database {folder.quads} is gone, its change log is at version {log.version}", hint=DAMAGED
        )
    require_manifest(folder.quads)
    try:
        store = Store(str(folder.quads))
        if not log.version and not log.bulk_pending and next(iter(store), None) is not None:
            raise StoreFormatError(
                f"the database {folder.quads} has quads, its change log {folder.changes} has no commit",
                hint=DAMAGED,
            )
        note_manifest(folder.quads)
        return store
    except RuntimeError as error:
        raise StoreFormatError(
            f"the database {folder.quads} is damaged: {error}", hint="restore the data folder from a backup"
        ) from error
    except OSError as error:
        text = str(error)
        if "lock" in text.lower():
            raise StoreLockedError(
                f"the database {folder.quads} is in use by another process",
                hint="stop the process that uses it",
            ) from error
        raise StoreUnwritableError(
            f"the database {folder.quads} cannot be opened: {text}", hint="check permissions and free space"
        ) from error
