"""The queue of write requests: changes are derived one after the other and committed in groups.

    requests -> derive, each sees earlier changes -> log, one fsync -> apply, one transaction -> visible

A failed write request changes nothing and does not affect the other requests of its group. One writer lock
per store makes updates
serialisable: Oxigraph's transactions on disk have no conflict detection and would lose updates.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

from pyoxigraph import Store

from ..changes.commit import Commit, GraphName, NetChange, count_graphs, graph_key
from ..changes.owners import NO_OWNERS, Owner, Owners, derived_graphs
from ..changes.pending import PendingChanges, StoreView
from ..errors import ConflictError, ReportedError, StoreError, StoreUnwritableError
from .committer import ApplyError, Committer
from .consequences import NO_CONSEQUENCES, Consequences
from .read_write_lock import ReadWriteLock
from .staged_load import Load, staged
from .subscribers import Subscribers

_GROUP_REQUESTS = 64
_GROUP_QUADS = 1_000


class PreconditionError(ConflictError):
    """The dataset does not have the version that the write request expects: HTTP 412."""

    code = "version-changed"


@dataclass(slots=True)
class WriteRequest:
    """One write request to the store and its outcome.

    Attributes:
        derive: adds the changes; called once under the writer lock, possibly in another writer's thread.
        cause: the cause that the commit records.
        expected: the version that the dataset must have; None for any.
        owner: the owner that writes; the request must not change graphs of other owners.
        alone: True if the request must not share a group with others: no change is pending when ``derive`` is
            called, and later requests see its commit.
        timed: False if the consequences of the change may take any time, as for loads and restores.
        rederive: True if the consequences are updated even if ``derive`` changes nothing.
        committed: called with the commit under the writer lock once it is durable; it is visible then, except
            after an ApplyError.
        commit: the commit of the request; None before the commit and after a failure.
        error: the error of a failed request.
    """

    derive: Callable[[PendingChanges], None]
    cause: str | None
    expected: int | None = None
    owner: Owner | None = None
    alone: bool = False
    committed: Callable[[Commit], None] | None = None
    timed: bool = True
    rederive: bool = False
    commit: Commit | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """True if the write request was committed or has failed."""
        return self.commit is not None or self.error is not None


class WriteQueue:
    """Accepts write requests to the store from any thread and commits them in groups.

    Attributes:
        owned: the owners of graphs; replaced as a whole, so that any thread may read it.
        consequences: derives what follows from each change.
        owners_changed: called after a graph gained or lost an owner, in the thread that changed the owner.
    """

    def __init__(
        self,
        committer: Committer,
        gate: ReadWriteLock,
        subscribers: Subscribers,
        clock_ms: Callable[[], int],
        grouped: bool,
    ) -> None:
        """Create an empty queue of write requests.

        Args:
            committer: logs and applies the commits.
            gate: the lock that shows whether a thread is inside `snapshot_read`.
            subscribers: get each commit outside of the writer lock.
            clock_ms: the wall clock in milliseconds.
            grouped: True to commit waiting requests together with one fsync; useless in memory.
        """
        self.owned: Owners = NO_OWNERS
        self.owners_changed: Callable[[GraphName], None] = lambda _: None
        self._owners = threading.Lock()
        self._committer = committer
        committer.inferred = self._inferred
        self._gate = gate
        self._subscribers = subscribers
        self._clock_ms = clock_ms
        self.consequences: Consequences = NO_CONSEQUENCES
        self._group_requests = _GROUP_REQUESTS if grouped else 1
        self._queue: deque[WriteRequest] = deque()

    # --- owners -------------------------------------------------------------------------------

    def own(self, graph: GraphName, owner: Owner) -> None:
        """Give a graph to an owner. Commits in progress keep the owners that they began with."""
        self._set_owner(graph, owner)

    def disown(self, graph: GraphName, owner: Owner) -> None:
        """Remove the owner of a graph; do nothing if the graph has another owner or none."""
        if self.owned.get(graph) == owner:
            self._set_owner(graph, None)

    def _set_owner(self, graph: GraphName, owner: Owner | None) -> None:
        with self._owners:
            if self.owned.get(graph) == owner:
                return
            owned = {name: other for name, other in self.owned.items() if name != graph}
            if owner is not None:
                owned[graph] = owner
            self.owned = owned
        self.owners_changed(graph)

    # --- requests -----------------------------------------------------------------------------

    def enqueue(self, request: WriteRequest) -> None:
        """Append a write request, which the next committing thread may include in its group.

        Raises:
            StoreError: the calling thread is inside `snapshot_read`.
        """
        self._refuse_in_snapshot("an update")
        self._queue.append(request)

    def submit(self, request: WriteRequest) -> Commit:
        """Enqueue and commit a write request; raises the errors of `enqueue` and `finish`."""
        self.enqueue(request)
        return self.finish(request)

    def finish(self, request: WriteRequest) -> Commit:
        """Commit an enqueued write request, in a group with other requests of the queue.

        Raises:
            PreconditionError: the dataset does not have the expected version.
            OwnedGraphError: the request changes a graph that has another owner.
            StoreUnwritableError: the change log cannot be written; nothing changed.
            ApplyError: the commit is logged but not yet applied to the quads.
            Exception: ``derive`` of the write request raised this error; nothing changed.
        """
        with self._committer.lock:
            while not request.done:
                self._run_group()
        self._subscribers.drain()
        if request.error is not None:
            # This breaks a reference cycle of error, frame and request.
            error, request.error = request.error, None
            try:
                raise error
            finally:
                del error
        commit = request.commit
        assert commit is not None
        self._subscribers.acknowledge(commit.version)
        return commit

    def bulk(self, load: Load, *, cause: str | None) -> Commit:
        """Run a bulk load, and derive what follows from its quads; see `Committer.bulk`.

        Raises:
            OwnedGraphError: the load has quads of a derived graph; nothing changed.
            ReportedError: the consequences exceed a budget; nothing changed.
        """
        self._refuse_in_snapshot("a bulk load")

        violations = 0

        def stage(store: Store, stack: ExitStack) -> Load:
            nonlocal violations
            if not derived_graphs(self.owned) and not self.consequences.active:
                return load
            folder = self._committer.data_folder
            staging = staged(load, store, self.owned, self.consequences, folder)
            staged_load, violations = stack.enter_context(staging)
            return staged_load

        try:
            commit = self._committer.bulk(stage, cause=cause)
        except OSError as error:
            raise StoreUnwritableError(f"the bulk load failed: {error}") from error
        finally:
            self._subscribers.drain()
        self._subscribers.acknowledge(commit.version)
        return commit._replace(violations=violations)

    def _refuse_in_snapshot(self, what: str) -> None:
        if self._gate.held_by_thread:
            raise StoreError(
                f"{what} was asked for inside snapshot_read, which delays commits",
                hint="leave the snapshot before writing",
            )

    def _run_group(self) -> None:
        requests: list[WriteRequest] = []
        try:
            self._committer.prepare()
            self._derive_group(requests)
        except BaseException as error:
            for request in requests or [self._queue.popleft()]:
                if request.error is None:
                    request.commit, request.error = None, error
            if not isinstance(error, Exception):
                raise

    def _derive_group(self, requests: list[WriteRequest]) -> None:
        group = PendingChanges(StoreView(self._committer.store, self.owned))
        consequences = self.consequences if self.consequences.active else NO_CONSEQUENCES
        consequences.begin_group()
        commits: list[Commit] = []
        now_ms = self._clock_ms()
        version = self._committer.version
        while (
            self._queue
            and len(requests) < self._group_requests
            and (not commits or len(group) <= _GROUP_QUADS)
        ):
            if requests and (self._queue[0].alone or requests[0].alone):
                break
            request = self._queue.popleft()
            requests.append(request)
            pending = PendingChanges(group)
            try:
                if request.expected is not None and request.expected != version:
                    raise PreconditionError(
                        f"the dataset is at version {version}, not at {request.expected}",
                        hint="read again and repeat the change",
                    )
                request.derive(pending)
                change = pending.net()
                self._refuse_owned(change, request.owner)
                violations = 0
                if consequences.active and (change or request.rederive):
                    violations = consequences.derive(group, pending, change, timed=request.timed)
                    change = pending.net()
            except Exception as error:
                request.error = _without_frames(error)
                continue
            if change:
                version = self._committer.next_version(version)
            request.commit = self._commit(change, version, now_ms, request.cause, violations)
            if change:
                commits.append(request.commit)
                group.take(pending, change)
        try:
            # Consequences can change although the dataset does not: graphs may join or leave those that
            # shapes check.
            if commits or any(request.rederive and request.error is None for request in requests):
                with consequences.committing(group.owned):
                    if commits:
                        net = commits[0].net() if len(commits) == 1 else group.net()
                        self._committer.commit(commits, net)
        except ApplyError:
            _report(requests)
            raise
        _report(requests)

    def _commit(
        self, change: NetChange, version: int, now_ms: int, cause: str | None, violations: int
    ) -> Commit:
        if not change:
            return Commit(version, now_ms, cause=cause, changed=False)
        names = (*change.created, *change.dropped)
        graphs = count_graphs(change.added, change.removed, names)
        return Commit(
            version,
            now_ms,
            change.added,
            change.removed,
            change.created,
            change.dropped,
            graphs=graphs,
            cause=cause,
            inferred=frozenset(self._inferred()) & graphs.keys(),
            violations=violations,
        )

    def inferred_graphs(self) -> frozenset[GraphName]:
        """Return the graphs of rule sets, also while a PUT or DELETE is under way; safe from any thread."""
        return frozenset([graph for graph, owner in self.owned.items() if owner.kind == "rules"])

    def derived_graphs(self) -> frozenset[GraphName]:
        """Return the graphs of rule sets and of reports, also while a PUT or DELETE is under way."""
        return frozenset(derived_graphs(self.owned))

    def _inferred(self) -> list[str]:
        """Return the keys of the derived graphs."""
        return list(map(graph_key, self.derived_graphs()))

    def _refuse_owned(self, change: NetChange, owner: Owner | None) -> None:
        if not self.owned:
            return
        names: set[GraphName] = {quad.graph_name for quad in (*change.added, *change.removed)}
        for name in (*names, *change.created, *change.dropped):
            other = self.owned.get(name, owner)
            if other is not None and other != owner:
                raise other.refusal(name)


def _report(requests: Iterable[WriteRequest]) -> None:
    """Call ``committed`` of the requests that were committed."""
    for request in requests:
        if request.committed is not None and request.error is None and request.commit is not None:
            request.committed(request.commit)


def _without_frames(error: Exception) -> Exception:
    """Remove a reported error's tracebacks, whose frames would keep the closed database open."""
    link: BaseException | None = error if isinstance(error, ReportedError) else None
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error
