"""Makes commits: logged first, then applied to the quads in one transaction, then visible to readers.

After any end of the process opening makes once more what the log has and the quads may lack.
"""

from __future__ import annotations

import gc
import logging
import threading
from collections.abc import Callable, Mapping
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
"""The cause of a commit that tells what a load changed whose own commit could not be logged."""


class ApplyError(StoreUnwritableError):
    """A commit is in the log but could not be made in the quads; it will be before the next write."""

    code = "apply-failed"


class Committer:
    """Commits changes to one Oxigraph store and its change log.

    Attributes:
        lock: held by whoever commits; methods that do not take it are called under it.
        store: the database; others only read it, and must not keep it: in memory it is renewed now and then.
        version: the version that readers see.
        counts: the quads of each listed graph.
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
        """Open what was logged before, and finish what a crash cut off.

        Args:
            store: the database.
            log: of the same dataset.
            querier: queries the database, and is given a new one.
            gate: closed to readers while a commit becomes visible.
            subscribers: notified of each commit.
            options: of the store.
            database: the folder of the database; None for one in memory.
        """
        self.lock = threading.Lock()
        self.store = store
        self.version = log.version
        self.counts: Counts = {DefaultGraph(): 0}
        self._log = log
        self._querier = querier
        self._gate = gate
        self._subscribers = subscribers
        self._options = options
        self._database = database
        self._observers: tuple[Observer, ...] = ()
        self._removed = 0  # quads removed since the store was new
        self._since_checkpoint = [0, 0]  # commits, quads
        self._write_failed = False  # something could not be written: the database may refuse everything since
        self._closed = False
        self._recover()
        subscribers.begin_at(self.version)

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let ``observer`` look at the dataset before and after each later commit; returns a way to stop.

        Unlike a subscriber it is called in the writers' order with no commit between, and holds writers up.
        """
        with self.lock:
            self._observers = (*self._observers, observer)

        def stop() -> None:
            with self.lock:
                self._observers = tuple(other for other in self._observers if other is not observer)

        return stop

    def exclusively(self, work: Callable[[], T]) -> T:
        """Run ``work``, which may flush the database, while no commit is under way; used by backups."""
        with self.lock:
            self.prepare()
            try:
                return work()
            except (OSError, StoreError):
                self._write_failed = True
                raise

    def next_version(self, version: int) -> int:
        """The version of the commit behind one: the next, but for the first one of an epoch."""
        return self._log.parted.get(version, version + 1)

    # --- commits ------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Make what is logged and was not made, log what was made and not logged; called before each commit.

        Raises:
            StoreError: the store is closed.
            StoreUnwritableError: the quads can still not be written.
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
        """Log and make a group of commits; ``change`` is all of them together.

        Raises:
            StoreUnwritableError: the log cannot be written; nothing changed.
            ApplyError: logged, not yet made.
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
        except StoreError as error:  # the commits are made; the next one tries again
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
        """Copy the live quads into a new store: one in memory never frees what was deleted."""
        compacted = copy_in_memory(self.store)
        with self._gate.writing():
            self.store = compacted
            self._querier.use(compacted)
        self._removed = 0

    def _apply_group(self, commits: list[Commit], change: NetChange) -> None:
        """Make commits, and put them in line to be told: as one where nobody has to look between them."""
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
        """Every observer that wants to look at a commit, entered."""
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
        """Bring quads and counts in line with the log, after any end of the process."""
        log = self._log
        self._replay(log.checkpoint)
        if not log.bulk_pending:
            self.counts = counts_of_keys(log.counts())
            return
        self._log_bulk(log.counts(), _RECOVERED)
        self.version = log.version

    def _replay(self, version: int, until: int | None = None) -> None:
        """Make every logged commit after ``version`` once more: what is there already does not change."""
        if version >= self._log.version:
            return
        pending = PendingChanges(StoreView(self.store))
        last = version
        for commit in self._log.after(version):
            if until is not None and commit.version > until:
                break
            self._options.reached("in-recovery")
            if self._observers:
                # Only a failed apply and the replay after `rewind` come here with observers: what was not
                # made then is made now, so each commit's own change is what there is to do.
                self._apply_observed(commit)
                continue
            pending.replay(commit.net())
            last = commit.version
        if not self._observers:
            self._apply(pending.net(), last)

    def rewind(self, version: int) -> None:
        """Take the commits after ``version`` back in the quads; the log keeps them.

        The log is told first, so that a process that is killed meanwhile makes them again when it starts.

        Raises:
            GoneError: history does not reach back so far.
            UnsupportedError: a bulk load, whose quads are not in the log, lies between, or the store is in
                memory.
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
        """Make what `rewind` took back again, up to ``version``."""
        with self.lock:
            if version > self.version:
                self._replay(self.version, version)

    def checkpoint(self) -> None:
        """Flush the quads to disk and let the log forget what recovery needed."""
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
        """Open the database once more where it refuses: RocksDB does behind a write that failed, for good.

        What it had taken stands in its own log. Readers go on meanwhile over one that is only read; those of
        the old one hold its lock until they end.

        Raises:
            StoreUnwritableError: it cannot be written yet.
        """
        try:
            self._flush()
        except StoreUnwritableError:
            with self._gate.writing():
                try:
                    for opened in (Store.read_only, Store):
                        self.store = opened(str(database))
                        self._querier.use(self.store)
                        gc.collect()  # the last reference to the one before may sit in a cycle of frames
                except (OSError, RuntimeError) as error:
                    message = f"the database {database} cannot be opened again: {error}"
                    raise StoreUnwritableError(message, hint=SPACE) from error
            note_manifest(database)
            logger.warning("the database was opened again: it had refused to write")
        self._write_failed = False

    def close(self) -> None:
        """Checkpoint and close the log; later writes are refused."""
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

    def bulk(self, load: Callable[[Store], None], *, cause: str | None) -> Commit:
        """Run a bulk load, which bypasses derivation: its commit has counts and no quads.

        Raises:
            ConflictError: an observer refuses it.
            StoreError: the load failed; what Oxigraph had made of it is counted in a commit of its own.
        """
        failure: Exception | None = None
        with self.lock, ExitStack() as stack:
            self.prepare()
            for observer in self._observers:
                stack.enter_context(observer.around_bulk_load())
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
        self._subscribers.drain()
        if failure is not None:
            raise failure
        return commit or Commit(self.version, self._options.clock_ms(), cause=cause, changed=False)

    def _log_bulk(self, before: Mapping[str, int], cause: str | None) -> Commit | None:
        """Count all quads and log how many a bulk load has changed; None when these are as ``before``."""
        self.counts = count_store(self.store)
        now = keys_of_counts(self.counts)
        version = self.next_version(self._log.version)
        commit = bulk_commit(version, self._options.clock_ms(), before, now, cause)
        if commit is None:
            self._log.end_bulk()
        else:
            self._log.append([commit], {**dict.fromkeys(before.keys() - now.keys()), **now})
        return commit

    def _publish_bulk(self, commit: Commit) -> None:
        """Go to the version of a bulk load that is logged, and tell it."""
        # What it changed is not known, so nobody need look at the dataset before it.
        with self._observed(commit):
            self.version = commit.version
        self._subscribers.enqueue([commit])
        self._log.mark_checkpoint(self.version)
