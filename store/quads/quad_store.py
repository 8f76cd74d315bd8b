"""QuadStore: the named-graph store, its versions and its change sets.

The background dataset D of docs/semantics.md. Every change is one atomic commit with an exact change set and
the next version; every read is a snapshot of one version. Reads never wait for writers; writes wait in line.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from pathlib import Path
from typing import Any

from pyoxigraph import NamedNode, Store

from ..changes.commit import Commit, GraphName
from ..errors import (
    DAMAGED,
    FolderInUseError,
    StoreFormatError,
    StoreLockedError,
    StoreUnwritableError,
    UnsupportedError,
)
from ..folder import DataFolder, mark_as_copy, write_format
from ..hosts import AllowedHosts
from ..logs.change_log import SqliteChangeLog
from ..logs.history import ChangeLog, Retention
from ..logs.manifest import note_manifest, require_manifest
from ..logs.memory_log import MemoryChangeLog
from ..remote import Fetcher, http_fetcher
from ..sparql.guard import TextLimits
from ..sparql.query import Querier
from ..sparql.update_shapes import Shapes
from .committer import Committer, Upkeep, no_crash_point, system_clock_ms
from .frozen import FrozenReader, frozen, remove_copies
from .gate import Gate
from .observer import Observer
from .subscribers import Subscribers
from .writer import Writer
from .writing import StoreWrites


class QuadStore(StoreWrites):
    """Named graphs over Oxigraph, on disk or in memory. Thread-safe; one process per folder.

    Attributes:
        told: who follows the commits, and up to which they were told.
    """

    def __init__(
        self,
        store: Store,
        log: ChangeLog,
        folder: DataFolder | None,
        *,
        clock_ms: Callable[[], int],
        limits: TextLimits,
        hosts: AllowedHosts,
        fetcher: Fetcher,
        reached: Callable[[str], None],
        upkeep: Upkeep,
    ) -> None:
        self._folder = folder
        self._log = log
        self._gate = Gate()
        self.told = Subscribers()
        self._hosts = hosts
        self._limits = limits
        self._shapes = Shapes(limits)
        self._fetcher = fetcher
        self._querier = querier = Querier(store, limits, hosts)
        self._committer = Committer(
            store,
            log,
            querier,
            self._gate,
            self.told,
            clock_ms=clock_ms,
            reached=reached,
            upkeep=upkeep,
            database=None if folder is None else folder.quads,
        )
        self._writer = Writer(self._committer, self._gate, self.told, clock_ms=clock_ms, grouped=log.on_disk)

    @classmethod
    def open(
        cls,
        folder: Path | str | None,
        *,
        durable: bool = True,
        clock_ms: Callable[[], int] | None = None,
        limits: TextLimits | None = None,
        retention: Retention | None = None,
        allowed_hosts: Iterable[str] | AllowedHosts = (),
        fetcher: Fetcher | None = None,
        reached: Callable[[str], None] = no_crash_point,
        upkeep: Upkeep | None = None,
    ) -> QuadStore:
        """Open or make a store, and finish what a crash cut off.

        Args:
            folder: the data folder; None keeps everything in memory.
            durable: acknowledged commits survive a power failure (one fsync per group of commits); without it
                they survive a killed process.
            clock_ms: the wall clock, for the time of commits and the age of history.
            limits: on the size and nesting of texts.
            retention: how much history of changes is kept.
            allowed_hosts: hosts that SERVICE and LOAD may reach, maybe with their limits; none by default.
            fetcher: fetches documents for LOAD; by default over HTTP from the allowed hosts.
            reached: told the name of each step of a commit; for tests of crashes.
            upkeep: when it tidies up behind a commit.

        Raises:
            StoreLockedError: another process holds the folder.
            StoreUnwritableError: the folder cannot be made or written.
            StoreFormatError: the folder is damaged, not ours or of a newer version.
        """
        hosts = allowed_hosts if isinstance(allowed_hosts, AllowedHosts) else AllowedHosts(allowed_hosts)
        retention = retention or Retention()
        options: dict[str, Any] = {
            "clock_ms": clock_ms or system_clock_ms,
            "limits": limits or TextLimits(),
            "hosts": hosts,
            "fetcher": fetcher or http_fetcher(hosts),
            "reached": reached,
            "upkeep": upkeep or Upkeep(),
        }
        if folder is None:
            return cls(Store(), MemoryChangeLog(retention), None, **options)
        held = DataFolder.open(Path(folder))
        log: SqliteChangeLog | None = None
        try:
            remove_copies(held.path)
            log = SqliteChangeLog(held.changes, durable=durable, retention=retention)
            if not held.is_copy:
                held.settle()
            return cls(_open_quads(held, log), log, held, **options)
        except BaseException:
            if log is not None:
                log.close()
            held.close()
            raise

    # --- versions and subscribers -------------------------------------------------------------

    @property
    def allowed_hosts(self) -> AllowedHosts:
        """The hosts that SERVICE and LOAD may reach."""
        return self._hosts

    def subscribe(
        self,
        callback: Callable[[Commit], None],
        *,
        graphs: Iterable[GraphName] | None = None,
        predicates: Iterable[NamedNode] | None = None,
    ) -> Callable[[], None]:
        """Call ``callback`` once for each later commit, in order, after it is durable and visible.

        It runs in the thread of a writer, outside the writer lock: it may read and write the store, but while
        it runs no other commit is handed over. Errors it raises are logged.

        Args:
            callback: called with the commit.
            graphs: only commits that touch one of these graphs.
            predicates: only commits that add or remove a quad with one of these predicates (in ``graphs``).

        Returns:
            A function that ends the subscription.
        """
        return self.told.subscribe(callback, graphs, predicates)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let ``observer`` look at the dataset before and after each later commit; gives back how to stop.

        Unlike a subscriber it is called in the writers' order with no commit between, and holds writers up.
        """
        return self._committer.observe(observer)

    def frozen(self, *, undo: Commit | None = None) -> FrozenReader:
        """The dataset as it is now, to be read while the store moves on; for observers, who hold writers up.

        Args:
            undo: the commit that was made last, which the copy is not to have.

        Raises:
            StoreUnwritableError: there is no room for a copy.
        """
        change = None if undo is None else undo.net()
        version = self.version if undo is None else undo.version - 1
        path = None if self._folder is None else self._folder.path
        return frozen(self._committer.store, path, version, self._limits, self._hosts, change)

    def wait_delivered(self, version: int, timeout_s: float = 10.0) -> bool:
        """Wait until subscribers were called for every commit up to ``version``; False after the time-out."""
        return self.told.wait_delivered(version, timeout_s)

    def commits_after(
        self, version: int, limit: int | None = None, *, listed: bool = True
    ) -> Iterator[Commit]:
        """The commits after ``version`` that readers see by now, oldest first, from the change log.

        Not ``listed``: their quads may be counted only, which need not be read then.

        Raises:
            GoneError: the log does not reach back so far, or ``version`` lies ahead of the store.
        """
        visible, found = self.version, self._log.after(version, limit, listed=listed)
        return takewhile(lambda commit: commit.version <= visible, found)

    def rewind(self, version: int) -> None:
        """Show the dataset as it was at an earlier version until `forward`; nothing may be written meanwhile.

        For the replay of what depended on it, before anybody is served. A process that is killed meanwhile
        starts with the newest version.

        Raises:
            GoneError: the change log does not reach back so far.
            UnsupportedError: a bulk load lies between, or the store is in memory.
        """
        self._committer.rewind(version)

    def forward(self, version: int) -> None:
        """Go forward again after `rewind`, up to ``version``."""
        self._committer.forward(version)

    @property
    def logged_version(self) -> int:
        """The version of the newest commit, also while the store is rewound."""
        return self._log.version

    @property
    def epoch(self) -> int:
        """Where versions and ids go on in a folder that was a copy or a backup: behind all of the first line.

        It is the moment at which that began, in microseconds: a line of history that gives fewer than a
        million of them a second never comes there. 0 in a folder that never was one.
        """
        return max(self._log.parted.values(), default=0)

    def following(self, version: int) -> int:
        """The version behind one: the next, but where an epoch began."""
        return self._committer.following(version)

    def begin_epoch_of_copy(self) -> None:
        """Let a folder that is a copy of another one, or a backup, part from it: see `epoch`."""
        if self._folder is not None and self._folder.is_copy:
            self._log.begin_epoch(time.time_ns() // 1000)
            self._folder.settle()

    def mark(self, version: int) -> str | None:
        """Names the history of the dataset up to a version, also while the store is rewound before it.

        None when the change log does not hold the commit of that version, or the store is in memory.
        """
        return self._log.mark(version)

    # --- upkeep -------------------------------------------------------------------------------

    def backup(self, target: Path | str, rest: Callable[[Path], None] = lambda path: None) -> int:
        """Write a data folder that can be opened as it is, while the store runs.

        Args:
            target: a folder that does not exist or is empty; on the same disk the database files are linked,
                not copied.
            rest: writes what else belongs there, before the folder is taken for a backup; commits go on.

        Returns:
            The version in the backup.

        Raises:
            UnsupportedError: the store is in memory.
            FolderInUseError: the folder is not empty.
            StoreUnwritableError: it cannot be written.
        """
        log, path, version = self._log, Path(target), 0
        if not log.on_disk:
            raise UnsupportedError("a backup of a store in memory", hint="export its quads instead")

        def copy() -> None:
            nonlocal version
            try:
                path.mkdir(parents=True, exist_ok=True)
                if any(path.iterdir()):
                    raise FolderInUseError(f"the backup folder {path} is not empty", hint="give a new folder")
                self._committer.store.backup(path / "quads")
                log.backup(path / "changes.sqlite")
                version = self.version
            except OSError as error:
                raise StoreUnwritableError(f"the backup to {path} failed: {error}") from error

        self._committer.exclusively(copy)
        rest(path)
        mark_as_copy(path)
        write_format(path)  # last: a folder without it is not taken for a backup
        return version

    def checkpoint_quads(self, target: Path | str, *, in_commit: bool = False) -> int:
        """Write a copy of the database alone, for use by a worker process; returns its version.

        ``in_commit`` says that the thread holds other commits back already.

        Raises:
            UnsupportedError: the store is in memory.
        """
        if self._folder is None:
            raise UnsupportedError("a checkpoint of a store in memory")
        version = 0

        def copy() -> None:
            nonlocal version
            self._committer.store.backup(str(target))
            version = self.version

        if in_commit:
            copy()
        else:
            self._committer.exclusively(copy)
        return version

    def optimize(self) -> None:
        """Compact the database files; readers and writers go on."""
        self._database().optimize()

    def flush(self) -> None:
        """Write the quads through to disk and checkpoint the log."""
        self._committer.checkpoint()

    @property
    def limits(self) -> TextLimits:
        """The limits on query and update texts."""
        return self._limits

    @property
    def in_memory(self) -> bool:
        """True for a store without a folder."""
        return self._folder is None

    def close(self) -> None:
        """Finish the present commit, checkpoint, and let the folder go. Safe to call twice."""
        querier, self._querier = self._querier, None
        if querier is None:
            return
        try:
            self._committer.close()
        finally:
            querier.use(Store())
            del self._committer.store
            if self._folder is not None:
                # The database lets its folder go with its last reference, which may sit in a cycle of frames.
                gc.collect()
                self._folder.close()

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
