"""The queue of write requests: changes are derived one after the other and committed in groups.

    requests -> derive, each sees earlier changes -> log, one fsync -> apply, one transaction -> visible

A failed write request changes nothing and does not affect the other requests of its group. One writer lock
per store makes updates
serialisable: Oxigraph's transactions on disk have no conflict detection and would lose updates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from pyoxigraph import Store

from ..changes.commit import Commit, GraphName, NetChange, count_graphs, graph_key
from ..changes.pending import PendingChanges, StoreView
from ..errors import ConflictError, ReportedError, StoreError, StoreUnwritableError
from .committer import Committer
from .read_write_lock import ReadWriteLock
from .subscribers import Subscribers

_GROUP_REQUESTS = 64
_GROUP_QUADS = 1_000


class PreconditionError(ConflictError):
    """The dataset does not have the version that the write request expects: HTTP 412."""

    code = "version-changed"


class OwnedGraphError(ConflictError):
    """A write request changes a graph that only its view may change: HTTP 409."""

    code = "graph-owned"


@dataclass(slots=True)
class WriteRequest:
    """One write request to the store and its outcome.

    Attributes:
        derive: adds the changes; called once under the writer lock, possibly in another writer's thread.
        cause: the cause that the commit records.
        expected: the version that the dataset must have; None for any.
        owner: name of the view that writes; the request must not change graphs of other views.
        starts_group: True if no change may be pending when ``derive`` is called.
        commit: the commit of the request; None before the commit and after a failure.
        error: the error of a failed request.
    """

    derive: Callable[[PendingChanges], None]
    cause: str | None
    expected: int | None = None
    owner: str | None = None
    starts_group: bool = False
    commit: Commit | None = None
    error: BaseException | None = None

    @property
    def done(self) -> bool:
        """True if the write request was committed or has failed."""
        return self.commit is not None or self.error is not None


class WriteQueue:
    """Accepts write requests to the store from any thread and commits them in groups.

    Attributes:
        owned: the names of views by the graphs that they own.
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
        self.owned: dict[GraphName, str] = {}
        self._committer = committer
        self._gate = gate
        self._subscribers = subscribers
        self._clock_ms = clock_ms
        self._group_requests = _GROUP_REQUESTS if grouped else 1
        self._queue: deque[WriteRequest] = deque()

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
            OwnedGraphError: the request changes a graph that another view owns.
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

    def bulk(self, load: Callable[[Store], None], *, cause: str | None) -> Commit:
        """Run a bulk load under the writer lock; see `Committer.bulk`."""
        self._refuse_in_snapshot("a bulk load")
        try:
            commit = self._committer.bulk(load, cause=cause)
        except OSError as error:
            raise StoreUnwritableError(f"the bulk load failed: {error}") from error
        self._subscribers.acknowledge(commit.version)
        return commit

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
        group = PendingChanges(StoreView(self._committer.store))
        commits: list[Commit] = []
        now_ms = self._clock_ms()
        version = self._committer.version
        while (
            self._queue
            and len(requests) < self._group_requests
            and (not commits or len(group) <= _GROUP_QUADS)
        ):
            if self._queue[0].starts_group and requests:
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
            except Exception as error:
                request.error = _without_frames(error)
                continue
            if change:
                version = self._committer.next_version(version)
            request.commit = _commit(change, version, now_ms, request.cause)
            if change:
                commits.append(request.commit)
                group.take(pending, change)
        if commits:
            self._committer.commit(commits, commits[0].net() if len(commits) == 1 else group.net())

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


def _without_frames(error: Exception) -> Exception:
    """Remove a reported error's tracebacks, whose frames would keep the closed database open."""
    link: BaseException | None = error if isinstance(error, ReportedError) else None
    while link is not None:
        link.__traceback__ = None
        link = link.__cause__ or link.__context__
    return error


def _commit(change: NetChange, version: int, now_ms: int, cause: str | None) -> Commit:
    if not change:
        return Commit(version, now_ms, cause=cause, changed=False)
    names = (*change.created, *change.dropped)
    return Commit(
        version,
        now_ms,
        change.added,
        change.removed,
        change.created,
        change.dropped,
        graphs=count_graphs(change.added, change.removed, names),
        cause=cause,
    )
