"""The committer: logs each commit, applies it to the database in one transaction, then makes it visible.

After a crash, opening the store applies again those logged commits that the database may lack.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from pyoxigraph import DefaultGraph, Store

from ..changes.apply import apply_change
from ..changes.commit import Commit, NetChange, graph_key
from ..changes.counts import (
    Counts,
    bulk_commit,
    count_store,
    counts_after,
    counts_of_keys,
    keys_of_counts,
    take_counts,
)
from ..changes.pending import PendingChanges, StoreView
from ..errors import StoreError, StoreUnwritableError, UnsupportedError
from ..logs.history import ChangeLog
from ..logs.input_log import SPACE
from ..logs.manifest import note_manifest
from ..sparql.query import Querier
from .frozen import copy_in_memory
from .observer import Observer
from .options import StoreOptions
from .read_write_lock import ReadWriteLock
from .subscribers import Subscribers

T = TypeVar("T")
logger = logging.getLogger(__name__)

_RECOVERED = "recovered bulk load"
"""The text ``cause`` of a commit that recovery logs for a bulk load without a logged commit."""


class ApplyError(StoreUnwritableError):
    """A commit is in the change log but not yet in the quads; it is applied before the next write."""

    code = "apply-failed"


class Committer:
    """The committer of a store: commits changes to one Oxigraph store and its change log.

    Attributes:
        lock: the writer lock; callers of methods that do not acquire it must hold it.
        store: the database; other classes only read it and must not store a reference, as the object is
            replaced now and then.
        version: the version that readers see.
        counts: the number of quads of each listed graph.
        data_folder: the data folder; None for a store in memory.
        recovered_bulk: True if a crash had interrupted a bulk load before the store was opened.
        inferred: returns the keys of the graphs of rule sets, which the commits of bulk loads record.
    """

    def __init__(
        self,
        store: Store,
        log: ChangeLog,
        querier: Querier,
        gate: ReadWriteLock,
        subscribers: Subscribers,
        options: StoreOptions,
        database: Path | None,
    ) -> None:
        """Recover the database from the change log.

        Args:
            store: the database.
            log: the change log of the same dataset.
            querier: evaluates queries; gets each new database object.
            gate: the lock that keeps gated readers out while a commit becomes visible.
            subscribers: get each commit.
            options: options of the store.
            database: the folder of the database; None for a store in memory.
        """
        self.lock = threading.Lock()
        self.store = store
        self.version = log.version
        self.counts: Counts = {DefaultGraph(): 0}
        self.inferred: Callable[[], Iterable[str]] = tuple
        self.recovered_bulk = False
        self._log = log
        self._querier = querier
        self._gate = gate
        self._subscribers = subscribers
        self._options = options
        self._database = database
        self.data_folder = None if database is None else database.parent
        self._observers: tuple[Observer, ...] = ()
        # The number of quads removed since the store was last copied to free memory.
        self._removed = 0
        # The numbers of commits and of changed quads since the last checkpoint.
        self._since_checkpoint = [0, 0]
        # True after a failed write, because RocksDB may then refuse all later writes.
        self._write_failed = False
        self._closed = False
        self._recover()
        subscribers.begin_at(self.version)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Call ``observer`` before and after each later commit; return a function that removes the observer.

        Unlike a subscriber, an observer runs under the writer lock, so that writers wait for the observer.
        """
        with self.lock:
            self._observers = (*self._observers, observer)

        def stop() -> None:
            with self.lock:
                self._observers = tuple(other for other in self._observers if other is not observer)

        return stop

    def exclusively(self, work: Callable[[], T]) -> T:
        """Run ``work``, which may flush the database, under the writer lock; used by backups."""
        with self.lock:
            self.prepare()
            try:
                return work()
            except (OSError, StoreError):
                self._write_failed = True
                raise

    def next_version(self, version: int) -> int:
        """Return the version of the commit after ``version``: the next number, except at an epoch's start."""
        return self._log.parted.get(version, version + 1)

    # --- commits ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Apply logged commits that the database failed to apply, and log a bulk load that was not logged.

        The writer calls this method before each commit.

        Raises:
            StoreError: the store is closed.
            StoreUnwritableError: the database still cannot be written.
        """
        self._require_open()
        if self._write_failed and self._database is not None:
            self._reopen_unwritable(self._database)
        behind = self.version
        if behind < self._log.version:
            commits = list(self._log.after(behind))
            self._replay(behind)
            self.counts = counts_of_keys(self._log.counts())
            self._subscribers.enqueue(commits)
        if self._log.bulk_pending and (bulk := self._log_bulk(self._log.counts(), _RECOVERED)) is not None:
            self._publish_bulk(bulk)

    def commit(self, commits: list[Commit], change: NetChange) -> None:
        """Log and apply a group of commits; ``change`` is the net change of the group.

        Raises:
            StoreUnwritableError: the change log cannot be written; nothing changed.
            ApplyError: the commits are logged but not yet applied to the quads.
        """
        counts = counts_after(self.counts, commits)
        self._options.reached("before-log")
        self._log.append(commits, {graph_key(name): count for name, count in counts.items()})
        self._options.reached("after-log")
        self._apply_group(commits, change)
        self._options.reached("after-apply")
        take_counts(self.counts, counts)
        self._since_checkpoint[0] += len(commits)
        self._since_checkpoint[1] += len(change.added) + len(change.removed)
        self._removed += len(change.removed)
        try:
            self._maintain(commits[-1].at_ms)
        # The upkeep failed, but the commits are applied; the next commit tries again.
        except StoreError as error:
            logger.warning("upkeep after version %d: %s", self.version, error.message)

    def _maintain(self, now_ms: int) -> None:
        due = self._options
        commits, quads = self._since_checkpoint
        if commits >= due.checkpoint_commits or quads >= due.checkpoint_quads:
            self._checkpoint()
        self._log.trim(now_ms)
        if not self._log.on_disk and self._removed >= max(due.renew_removed, 2 * sum(self.counts.values())):
            self._compact_memory()

    def _compact_memory(self) -> None:
        """Copy the quads into a new in-memory store, because a store in memory never frees deleted quads."""
        compacted = copy_in_memory(self.store)
        with self._gate.writing():
            self.store = compacted
            self._querier.use(compacted)
        self._removed = 0

    def _apply_group(self, commits: list[Commit], change: NetChange) -> None:
        """Apply commits to the quads and enqueue them, in one transaction unless an observer needs each."""
        with ExitStack() as stack:
            if len(commits) > 1 or not self._observers:
                unobserved = [
                    stack.enter_context(observer.around_commits(commits)) for observer in self._observers
                ]
                if all(unobserved):
                    self._apply(change, commits[-1].version)
                    self._subscribers.enqueue(commits)
                    return
        for commit in commits:
            self._apply_observed(commit)
            self._subscribers.enqueue([commit])

    def _apply_observed(self, commit: Commit) -> None:
        with self._observed(commit):
            self._apply(commit.net(), commit.version)

    def _observed(self, commit: Commit) -> ExitStack:
        """Enter the context managers of all observers that are interested in a commit."""
        with ExitStack() as stack:
            for observer in self._observers:
                observation = observer.around_commit(commit)
                if observation is not None:
                    stack.enter_context(observation)
            return stack.pop_all()

    def _apply(self, change: NetChange, version: int) -> None:
        with self._gate.writing():
            try:
                apply_change(self.store, change)
                self.version = version
            except (OSError, RuntimeError, ValueError, SyntaxError) as error:
                self._write_failed = True
                raise ApplyError(
                    f"version {version} is logged but the quads could not be written: {error}",
                    hint="the commit will be made before the next write, or at the next start",
                ) from error

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    # --- recovery -----------------------------------------------------------------------------

    def _recover(self) -> None:
        """Apply the logged commits that the database may lack, and restore the counts of quads."""
        log = self._log
        self._replay(log.checkpoint)
        if not log.bulk_pending:
            self.counts = counts_of_keys(log.counts())
            return
        self._log_bulk(log.counts(), _RECOVERED)
        self.recovered_bulk = True
        self.version = log.version

    def _replay(self, version: int, until: int | None = None) -> None:
        """Apply every logged commit after ``version`` again; a commit applied before has no effect."""
        if version >= self._log.version:
            return
        pending = PendingChanges(StoreView(self.store))
        last = version
        for commit in self._log.after(version):
            if until is not None and commit.version > until:
                break
            self._options.reached("in-recovery")
            if self._observers:
                # If the store has observers, only commits that failed to apply or were rewound are applied
                # again here. The database lacks each of the commits to apply in full, so its whole change is
                # applied.
                self._apply_observed(commit)
                continue
            pending.replay(commit.net())
            last = commit.version
        if not self._observers:
            self._apply(pending.net(), last)

    def rewind(self, version: int) -> None:
        """Undo the commits after ``version`` in the database; the change log keeps the commits.

        The change log's checkpoint moves to ``version`` first, so that after a crash the next start applies
        the undone commits again.

        Raises:
            GoneError: the change log does not have all commits after ``version``.
            UnsupportedError: one of the commits is a bulk load, whose quads are not logged, or the store is
                in memory.
        """
        with self.lock:
            if version >= self.version:
                return
            if not self._log.on_disk:
                raise UnsupportedError("rewinding a store in memory")
            commits = [commit for commit in self._log.after(version) if commit.version <= self.version]
            if not all(commit.exact for commit in commits):
                raise UnsupportedError("rewinding over a bulk load")
            if self._log.checkpoint > version:
                self._log.mark_checkpoint(version)
            pending = PendingChanges(StoreView(self.store))
            for commit in reversed(commits):
                pending.replay(commit.net().inverse())
            self._apply(pending.net(), version)

    def forward(self, version: int) -> None:
        """Apply the commits again that `rewind` has undone, up to ``version``."""
        with self.lock:
            if version > self.version:
                self._replay(self.version, version)

    def checkpoint(self) -> None:
        """Flush the database to disk, and mark in the change log that recovery can start at this version."""
        with self.lock:
            self._require_open()
            self._checkpoint()

    def _checkpoint(self) -> None:
        if self._log.checkpoint < self.version:
            try:
                self._flush()
            except StoreUnwritableError:
                self._write_failed = True
                raise
            self._options.reached("after-flush")
            self._log.mark_checkpoint(self.version)
        self._since_checkpoint = [0, 0]

    def _flush(self) -> None:
        try:
            self.store.flush()
            if self._database is not None:
                note_manifest(self._database)
        except (OSError, RuntimeError) as error:
            message = f"the quads could not be flushed: {error}"
            raise StoreUnwritableError(message, hint=SPACE) from error

    def _reopen_unwritable(self, database: Path) -> None:
        """Reopen the database if a flush fails, because RocksDB refuses all writes after a failed write.

        RocksDB's write-ahead log keeps the accepted writes when the database is reopened. In between, the
        database is opened read-only, so that open results release the old database; its lock is held until
        the last result is closed.

        Raises:
            StoreUnwritableError: the database still cannot be written.
        """
        try:
            self._flush()
        except StoreUnwritableError:
            with self._gate.writing():
                try:
                    for opened in (Store.read_only, Store):
                        self.store = opened(str(database))
                        self._querier.use(self.store)
                        # A reference cycle of frames may hold the last reference to the old database.
                        gc.collect()
                except (OSError, RuntimeError) as error:
                    message = f"the database {database} cannot be opened again: {error}"
                    raise StoreUnwritableError(message, hint=SPACE) from error
            note_manifest(database)
            logger.warning("the database was opened again: it had refused to write")
        self._write_failed = False

    def close(self) -> None:
        """Write a checkpoint and close the change log; later writes raise StoreError."""
        with self.lock:
            if self._closed:
                return
            try:
                if self.version == self._log.version:
                    self._checkpoint()
            finally:
                self._closed = True
                self._log.close()

    # --- bulk loads ---------------------------------------------------------------------------

    def bulk(
        self, stage: Callable[[Store, ExitStack], Callable[[Store], None]], *, cause: str | None
    ) -> Commit:
        """Run a bulk load, whose commit has the counts of changed quads but no quads.

        Args:
            stage: called under the writer lock with the database, which it only reads. It returns the load,
                which is called with the database. The stack is left after the load.
            cause: is stored in the commit.

        Raises:
            ConflictError: an observer refuses the load.
            Exception: ``stage``, the load or the flush raised this error; a commit counts the quads that
                Oxigraph has loaded nevertheless.
        """
        failure: Exception | None = None
        with self.lock, ExitStack() as stack:
            self.prepare()
            for observer in self._observers:
                stack.enter_context(observer.around_bulk_load())
            load = stage(self.store, stack)
            self._options.reached("bulk-staged")
            log, before = self._log, keys_of_counts(self.counts)
            log.begin_bulk()
            try:
                with self._gate.writing():
                    load(self.store)
                    self._options.reached("after-bulk")
                    if log.on_disk:
                        self._flush()
            except Exception as error:
                failure = error
                self._write_failed = True
            commit = self._log_bulk(before, cause)
            if commit is not None:
                self._publish_bulk(commit)
        if failure is not None:
            raise failure
        return commit or Commit(self.version, self._options.clock_ms(), cause=cause, changed=False)

    def _log_bulk(self, before: Mapping[str, int], cause: str | None) -> Commit | None:
        """Count all quads, and log the difference to ``before`` as a bulk load's commit; None if equal."""
        self.counts = count_store(self.store)
        now = keys_of_counts(self.counts)
        version = self.next_version(self._log.version)
        commit = bulk_commit(version, self._options.clock_ms(), before, now, cause)
        if commit is None:
            self._log.end_bulk()
        else:
            commit = commit._replace(inferred=frozenset(self.inferred()) & commit.graphs.keys())
            self._log.append([commit], {**dict.fromkeys(before.keys() - now.keys()), **now})
        return commit

    def _publish_bulk(self, commit: Commit) -> None:
        """Make the logged commit of a bulk load visible and enqueue it for subscribers."""
        # The quads that a bulk load changed are unknown, so observers need no access to the state before the
        # load.
        with self._observed(commit):
            self.version = commit.version
        self._subscribers.enqueue([commit])
        self._log.mark_checkpoint(self.version)
