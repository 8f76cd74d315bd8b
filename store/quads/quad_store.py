"""QuadStore: the named-graph store, its versions and its change sets.

The quad store holds the background dataset D of docs/semantics.md. Every change is one atomic commit with the
next version and, except for bulk loads, an exact change set; every read sees a snapshot.
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
    """A store of named graphs over Oxigraph, on disk or in memory. Thread-safe; one process per folder.

    Attributes:
        reader: evaluates queries and reads graphs and dumps.
        writer: executes updates, changes of quads and graphs, and loads.
        committer: applies commits, notifies observers, and rewinds to earlier versions.
        queue: the waiting write requests, and the graphs that views own.
        subscribers: get each commit after it is durable and visible.
        log: the change log with the history of commits.
        folder: the data folder; None for a store in memory.
        limits: limits on query and update texts.
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
        """Open or create a quad store, and recover from a crash.

        Args:
            folder: the data folder; None keeps everything in memory.
            options: options of the store; None for the defaults.

        Raises:
            StoreLockedError: another process holds the data folder.
            StoreUnwritableError: the folder cannot be made or written.
            StoreFormatError: the folder is damaged, is no data folder, or was written by a newer version.
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
                data_folder.mark_original()
            return cls(_open_quads(data_folder, log), log, data_folder, options)
        except BaseException:
            if log is not None:
                log.close()
            data_folder.close()
            raise

    # --- history ------------------------------------------------------------------------------

    def frozen(self, *, undo: Commit | None = None) -> FrozenReader:
        """Copy the current dataset for later reads; only for observers, whose thread holds the writer lock.

        Args:
            undo: the newest commit, which is undone in the copy of the dataset; None for an exact copy.

        Raises:
            StoreUnwritableError: the copy cannot be written.
        """
        change = None if undo is None else undo.net()
        version = self.reader.version if undo is None else undo.version - 1
        path = None if self.folder is None else self.folder.path
        return frozen(self.committer.store, path, version, self.limits, self.allowed_hosts, change)

    def commits_after(
        self, version: int, limit: int | None = None, *, listed: bool = True
    ) -> Iterator[Commit]:
        """Return the visible commits after ``version`` from the change log, oldest first.

        If ``listed`` is False, the quads of the commits need not be read: only their counts are valid.

        Raises:
            GoneError: the change log no longer has these commits, or ``version`` is greater than the store's
                version.
        """
        visible, commits = self.reader.version, self.log.after(version, limit, listed=listed)
        return takewhile(lambda commit: commit.version <= visible, commits)

    @property
    def epoch(self) -> int:
        """The first version of this folder's history after it was a copy or a backup; 0 if it never was one.

        An epoch's first version is the time at which the copy was opened, in microseconds since 1970.
        Versions of the original folder grow by fewer than a million per second, so they never reach the epoch
        of a copy.
        """
        return max(self.log.parted.values(), default=0)

    def begin_epoch_of_copy(self) -> None:
        """Begin a new epoch if the folder is a copy or a backup of another folder; see `epoch`."""
        if self.folder is not None and self.folder.is_copy:
            self.log.begin_epoch(time.time_ns() // 1000)
            self.folder.mark_original()

    def optimize(self) -> None:
        """Compact RocksDB's files of the database after very many changes.

        Raises: StoreError if the store is closed.
        """
        self.reader.database().optimize()

    # --- copies -------------------------------------------------------------------------------

    def backup(
        self, target: Path | str, write_extra_files: Callable[[Path], None] = lambda path: None
    ) -> int:
        """Write a backup, which is a complete data folder, while the store runs.

        Args:
            target: a folder that does not exist or is empty; on the same disk the database files are linked,
                not copied.
            write_extra_files: writes further files into the folder before it becomes a backup; others may
                commit meanwhile.

        Returns:
            The version of the store in the backup.

        Raises:
            UnsupportedError: the store is in memory.
            FolderInUseError: the target folder is not empty.
            StoreUnwritableError: the backup cannot be written.
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
        write_format(path)  # the FORMAT file is written last, because a folder without it is no backup
        return version

    def checkpoint_quads(self, target: Path | str, *, in_commit: bool = False) -> int:
        """Write a copy of the quads alone for a worker process; return the version of the copy.

        The argument ``in_commit`` is True if the calling thread holds the writer lock already.

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
        """Wait for the running commit, write a checkpoint and unlock the data folder. Idempotent."""
        querier, self.reader.querier = self.reader.querier, None
        if querier is None:
            return
        try:
            self.committer.close()
        finally:
            querier.use(Store())
            del self.committer.store
            if self.folder is not None:
                # A reference cycle of frames may hold the last reference to the database, which then keeps
                # its folder locked.
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
