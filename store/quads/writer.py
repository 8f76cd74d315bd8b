"""The only writer: requests in line, one group at a time, log before apply.

    requests -> derive, each sees those before it -> log, one fsync -> apply, one transaction -> visible

A request that fails leaves no trace and does not disturb its group. One process-wide lock makes updates
serialisable: Oxigraph's own transactions on disk have no conflict detection and would lose updates.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass
from typing import Protocol

from pyoxigraph import DefaultGraph, Store

from ..changes.apply import apply_change
from ..changes.commit import Commit, GraphName, count_graphs, graph_key
from ..changes.counts import (
    Counts,
    bulk_commit,
    count_store,
    counts_after,
    counts_of_keys,
    keys_of_counts,
    take_counts,
)
from ..changes.pending import NetChange, Pending, StoreView
from ..errors import ConflictError, QuadrillError, StoreError, UnsupportedError
from ..logs.change_log import ChangeLog, SqliteChangeLog
from .gate import Gate
from .subscribers import Dispatcher

_GROUP_REQUESTS = 64
_GROUP_QUADS = 1_000
_CHECKPOINT_COMMITS = 5_000
_CHECKPOINT_QUADS = 500_000
_RENEW_REMOVED = 50_000

logger = logging.getLogger(__name__)


class PreconditionError(ConflictError):
    """The dataset is not at the version that the request asked for: HTTP 412."""

    code = "version-changed"


class OwnedGraphError(ConflictError):
    """A write touches a graph that only its view may change: HTTP 409."""

    code = "graph-owned"


class ApplyError(StoreError):
    """A commit is in the log but could not be made in the quads; it will be before the next write."""

    code = "apply-failed"


class Observer(Protocol):
    """Looks at the dataset before and after each single commit, with no other commit between."""

    def watching(self, commit: Commit) -> AbstractContextManager[None] | None:
        """Entered when the dataset is at the version before the commit, left when it is at the commit's.

        Called in a writer's thread under the writer lock, so it must be quick and may not write. It may not
        raise. Left with an exception when the commit could not be made. None: this one is of no interest.
        """
        ...

    def loading(self) -> AbstractContextManager[None]:
        """Entered before a bulk load touches the dataset, left behind its commit; what it raises refuses it.

        The dataset of a bulk load's commit is there before `watching` is entered. Called under the writer
        lock.
        """
        ...


@dataclass(slots=True)
class _Request:
    derive: Callable[[Pending], None]
    cause: str | None
    expected: int | None
    owner: str | None = None
    commit: Commit | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        return self.commit is not None or self.error is not None


class Writer:
    """Commits changes to one Oxigraph store and its change log.

    Attributes:
        version: the version that readers see.
        owned: graphs that only writes of their owner change, with the owner's name.
        store: the database; others only read it, and must not keep it: in memory it is renewed now and then.
    """

    def __init__(
        self,
        store: Store,
        log: ChangeLog,
        dispatcher: Dispatcher,
        gate: Gate,
        *,
        clock_ms: Callable[[], int],
        reached: Callable[[str], None],
        renewed: Callable[[Store], None],
    ) -> None:
        self.store = store
        self.owned: dict[GraphName, str] = {}
        self._log = log
        self._router = dispatcher
        self._gate = gate
        self._clock_ms = clock_ms
        self._reached = reached
        self._renewed = renewed
        self._removed = 0  # quads removed since the store was new
        self._lock = threading.Lock()
        self._line: deque[_Request] = deque()
        self._closed = False
        self.observers: tuple[Observer, ...] = ()
        self._since_checkpoint = [0, 0]  # commits, quads
        # Grouping buys shared fsyncs; in memory there are none.
        self._group_requests = _GROUP_REQUESTS if isinstance(log, SqliteChangeLog) else 1
        self.version = log.version
        self.turn = 0
        """Odd while a commit is becoming visible; readers compare it before and after taking a snapshot."""
        self.counts: Counts = {DefaultGraph(): 0}
        self._recover()
        dispatcher.begin_at(self.version)

    # --- requests -----------------------------------------------------------------------------

    def submit(
        self,
        derive: Callable[[Pending], None],
        *,
        cause: str | None,
        expected: int | None,
        owner: str | None = None,
    ) -> Commit:
        """Commit what ``derive`` folds into the pending changes it is given.

        Args:
            derive: called once, under the writer lock, perhaps in another writer's thread.
            cause: goes into the commit.
            expected: refuse unless the dataset is at this version.
            owner: on whose behalf; graphs that another one owns are not changed.

        Raises:
            PreconditionError: the version is another one.
            OwnedGraphError: a graph belongs to a view.
            StoreUnwritableError: the log cannot be written; nothing changed.
            ApplyError: logged, not yet made.
        """
        if self._gate.held_here:
            raise StoreError(
                "an update was asked for inside snapshot_read, which holds commits back",
                hint="leave the snapshot before writing",
            )
        request = _Request(derive, cause, expected, owner)
        self._line.append(request)
        with self._lock:
            while not request.done:
                self._run_group()
        self._router.drain()
        if request.error is not None:
            error, request.error = request.error, None  # no cycle of error, frame and request
            try:
                raise error
            finally:
                del error
        assert request.commit is not None
        return request.commit

    def observe(self, observer: Observer) -> Callable[[], None]:
        """Let ``observer`` watch each later commit; gives back the way to stop."""
        with self._lock:
            self.observers = (*self.observers, observer)

        def stop() -> None:
            with self._lock:
                self.observers = tuple(each for each in self.observers if each is not observer)

        return stop

    def exclusively(self, work: Callable[[], None]) -> None:
        """Run ``work`` while no commit is under way; used by backups."""
        with self._lock:
            self._require_open()
            self._catch_up()
            work()

    def _run_group(self) -> None:
        requests: list[_Request] = []
        try:
            self._require_open()
            self._catch_up()
            self._derive_group(requests)
        except BaseException as error:
            for request in requests or [self._line.popleft()]:
                if request.error is None:
                    request.commit, request.error = None, error
            if not isinstance(error, Exception):
                raise

    def _derive_group(self, requests: list[_Request]) -> None:
        group = Pending(StoreView(self.store))
        commits: list[Commit] = []
        now_ms = self._clock_ms()
        while self._line and len(requests) < self._group_requests and len(group) <= _GROUP_QUADS:
            request = self._line.popleft()
            requests.append(request)
            version = self.version + len(commits)
            pending = Pending(group)
            try:
                if request.expected is not None and request.expected != version:
                    raise PreconditionError(
                        f"the dataset is at version {version}, not at {request.expected}",
                        hint="read again and repeat the change",
                    )
                request.derive(pending)
                change = pending.net()
                self._refuse_owned(change, request.owner)
            except Exception as error:
                request.error = _without_frames(error)
                continue
            request.commit = _commit(change, version, now_ms, request.cause)
            if change:
                commits.append(request.commit)
                group.replay(change)
        if commits:
            self._commit(commits, group.net())

    def _refuse_owned(self, change: NetChange, owner: str | None) -> None:
        if not self.owned:
            return
        names: set[GraphName] = {quad.graph_name for quad in (*change.added, *change.removed)}
        for name in (*names, *change.created, *change.dropped):
            other = self.owned.get(name, owner)
            if other != owner:
                raise OwnedGraphError(
                    f"the graph {name} is the view of the query {other}, which alone changes it",
                    hint="leave it out, or drop the query first",
                    graph=graph_key(name),
                )

    def _commit(self, commits: list[Commit], change: NetChange) -> None:
        counts = counts_after(self.counts, commits)
        self._reached("before-log")
        self._log.append(commits, {graph_key(name): count for name, count in counts.items()})
        self._reached("after-log")
        self._make_each(commits, change)
        self._reached("after-apply")
        take_counts(self.counts, counts)
        self._router.enqueue(commits)
        self._since_checkpoint[0] += len(commits)
        self._since_checkpoint[1] += len(change.added) + len(change.removed)
        self._removed += len(change.removed)
        try:
            self._upkeep(commits[-1].at_ms)
        except StoreError as error:  # the commits are made; the next one tries again
            logger.warning("upkeep after version %d: %s", self.version, error.message)

    def _upkeep(self, now_ms: int) -> None:
        if self._since_checkpoint[0] >= _CHECKPOINT_COMMITS or self._since_checkpoint[1] >= _CHECKPOINT_QUADS:
            self._checkpoint()
        self._log.trim(now_ms)
        if not isinstance(self._log, SqliteChangeLog) and self._removed >= _RENEW_REMOVED:
            if self._removed >= 2 * sum(self.counts.values()):
                self._renew()

    def _renew(self) -> None:
        """Copy the live quads into a new store: one in memory never frees what was deleted."""
        fresh = Store()
        fresh.extend(self.store)
        for name in self.store.named_graphs():
            fresh.add_graph(name)
        with self._gate.writing():
            self.turn += 1
            self.store = fresh
            self._renewed(fresh)
            self.turn += 1
        self._removed = 0

    def _make_each(self, commits: list[Commit], change: NetChange) -> None:
        """Make some commits; ``change`` is all of them together, enough when nobody observes them."""
        if not self.observers:
            self._make(change, commits[-1].version)
            return
        for commit in commits:
            with ExitStack() as watched:
                for observer in self.observers:
                    watching = observer.watching(commit)
                    if watching is not None:
                        watched.enter_context(watching)
                self._make(_net(commit), commit.version)

    def _make(self, change: NetChange, version: int) -> None:
        with self._gate.writing():
            self.turn += 1
            try:
                apply_change(self.store, change)
                self.version = version
            except (OSError, RuntimeError, ValueError, SyntaxError) as error:
                raise ApplyError(
                    f"version {version} is logged but the quads could not be written: {error}",
                    hint="the commit will be made before the next write, or at the next start",
                ) from error
            finally:
                self.turn += 1

    def _require_open(self) -> None:
        if self._closed:
            raise StoreError("the store is closed")

    # --- recovery -----------------------------------------------------------------------------

    def _recover(self) -> None:
        """Bring quads and counts in line with the log, after any end of the process."""
        log = self._log
        if not isinstance(log, SqliteChangeLog):
            return
        self._replay(log.checkpoint)
        if log.bulk_pending:
            self.counts = count_store(self.store)
            commit = bulk_commit(
                log.version + 1, self._clock_ms(), log.counts(), self.counts, "recovered bulk load"
            )
            if commit is None:
                log.end_bulk()
            else:
                log.replace_counts(keys_of_counts(self.counts))
                log.append([commit], {})
                self.version = log.version
        else:
            self.counts = counts_of_keys(log.counts())

    def _catch_up(self) -> None:
        """Make what is logged and was not made, after a failed apply."""
        if self.version < self._log.version:
            behind = self.version
            commits = list(self._log.after(behind))
            self._replay(behind)
            log = self._log
            assert isinstance(log, SqliteChangeLog)
            self.counts = counts_of_keys(log.counts())
            self._router.enqueue(commits)

    def _replay(self, version: int, until: int | None = None) -> None:
        """Make every logged commit after ``version`` once more: what is there already does not change."""
        if version >= self._log.version:
            return
        pending = Pending(StoreView(self.store))
        last = version
        for commit in self._log.after(version):
            if until is not None and commit.version > until:
                break
            self._reached("in-recovery")
            if self.observers:
                # Only a failed apply and the replay after `rewind` come here with observers: what was not
                # made then is made now, so each commit's own change is what there is to do.
                self._make_each([commit], _net(commit))
                continue
            pending.replay(_net(commit))
            last = commit.version
        if not self.observers:
            self._make(pending.net(), last)

    def rewind(self, version: int) -> None:
        """Take the commits after ``version`` back in the quads; the log keeps them.

        The log is told first, so that a process that is killed meanwhile makes them again when it starts.

        Raises:
            GoneError: history does not reach back so far.
            UnsupportedError: a bulk load, whose quads are not in the log, lies between.
        """
        with self._lock:
            log = self._log
            if version >= self.version:
                return
            if not isinstance(log, SqliteChangeLog):
                raise UnsupportedError("rewinding a store in memory")
            commits = [commit for commit in log.after(version) if commit.version <= self.version]
            if not all(commit.exact for commit in commits):
                raise UnsupportedError("rewinding over a bulk load")
            if log.checkpoint > version:
                log.mark_checkpoint(version)
            pending = Pending(StoreView(self.store))
            for commit in reversed(commits):
                pending.replay(NetChange(commit.removed, commit.added, commit.dropped, commit.created))
            self._make(pending.net(), version)

    def forward(self, version: int) -> None:
        """Make what `rewind` took back again, up to ``version``."""
        with self._lock:
            if version > self.version:
                self._replay(self.version, version)

    def checkpoint(self) -> None:
        """Flush the quads to disk and let the log forget what recovery needed."""
        with self._lock:
            self._require_open()
            self._checkpoint()

    def _checkpoint(self) -> None:
        if isinstance(self._log, SqliteChangeLog) and self._log.checkpoint < self.version:
            try:
                self.store.flush()
            except OSError as error:
                raise StoreError(f"the quads could not be flushed: {error}") from error
            self._reached("after-flush")
            self._log.mark_checkpoint(self.version)
        self._since_checkpoint = [0, 0]

    def close(self) -> None:
        """Checkpoint and close the log; later writes are refused."""
        with self._lock:
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
        if self._gate.held_here:
            raise StoreError("a bulk load was asked for inside snapshot_read, which holds commits back")
        failure: Exception | None = None
        with self._lock, ExitStack() as told:
            self._require_open()
            self._catch_up()
            for observer in self.observers:
                told.enter_context(observer.loading())
            log = self._log
            before = dict(self.counts)
            if isinstance(log, SqliteChangeLog):
                log.begin_bulk()
            try:
                with self._gate.writing():
                    self.turn += 1
                    try:
                        load(self.store)
                        self._reached("after-bulk")
                        if isinstance(log, SqliteChangeLog):
                            self.store.flush()
                    finally:
                        self.turn += 1
            except Exception as error:
                failure = error
            self.counts = count_store(self.store)
            commit = bulk_commit(
                self.version + 1, self._clock_ms(), keys_of_counts(before), self.counts, cause
            )
            if commit is not None:
                gone: dict[str, int | None] = {
                    graph_key(name): None for name in before if name not in self.counts
                }
                log.append([commit], gone | keys_of_counts(self.counts))
                # What a bulk load changed is not known, so nobody need look at the dataset before it.
                with ExitStack() as watched:
                    for observer in self.observers:
                        watching = observer.watching(commit)
                        if watching is not None:
                            watched.enter_context(watching)
                    self.version = commit.version
                self._router.enqueue([commit])
                if isinstance(log, SqliteChangeLog):
                    log.mark_checkpoint(self.version)
            elif isinstance(log, SqliteChangeLog):
                log.end_bulk()
        self._router.drain()
        if failure is not None:
            raise failure
        return commit or Commit(self.version, self._clock_ms(), cause=cause, changed=False)


def _net(commit: Commit) -> NetChange:
    return NetChange(commit.added, commit.removed, commit.created, commit.dropped)


def _without_frames(error: Exception) -> Exception:
    """An error that is an answer, without its frames: they would hold the database open after closing."""
    link: BaseException | None = error if isinstance(error, QuadrillError) else None
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _commit(change: NetChange, version: int, now_ms: int, cause: str | None) -> Commit:
    if not change:
        return Commit(version, now_ms, cause=cause, changed=False)
    names = (*change.created, *change.dropped)
    return Commit(
        version + 1,
        now_ms,
        change.added,
        change.removed,
        change.created,
        change.dropped,
        graphs=count_graphs(change.added, change.removed, names),
        cause=cause,
    )
