"""Subscribers of the store get each commit once, in order, after the commit is durable and visible."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ..changes.commit import Commit, GraphName

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, eq=False)
class _CommitSubscriber:
    callback: Callable[[Commit], None]
    graphs: frozenset[GraphName] | None
    predicates: frozenset[NamedNode] | None


class Subscribers:
    """Delivers commits to subscribers, in the thread of a writer and outside the writer lock.

    One thread at a time delivers commits to subscribers. A writer that finds another thread delivering
    commits leaves its commit in the queue for that thread and returns. A subscriber of commits may therefore
    acquire locks that writers hold, and may write to the store; its commit is delivered after the current
    one. An error of a subscriber is logged, and the next subscriber is called.

    Attributes:
        delivered: the version up to which all commits were delivered.
        acknowledged: the greatest version that a writer returned before its delivery had ended.
    """

    def __init__(self) -> None:
        self._queue: deque[Commit] = deque()
        self._subscribers: tuple[_CommitSubscriber, ...] = ()
        # Entering the lock itself is one Python call cheaper than entering it through the condition variable.
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        # The thread that delivers commits to subscribers; None if no thread does.
        self._delivering_thread: int | None = None
        self.delivered = self.acknowledged = 0

    def subscribe(
        self,
        callback: Callable[[Commit], None],
        *,
        graphs: Iterable[GraphName] | None = None,
        predicates: Iterable[NamedNode] | None = None,
    ) -> Callable[[], None]:
        """Call ``callback`` once for each later commit, in order, after it is durable and visible.

        The callback for commits runs in the thread of a writer, outside the writer lock. The callback for
        commits may read and write the store; the next commit is delivered after the callback has returned.
        Errors of the callback are logged; the writer does not get them.

        Args:
            callback: called with each commit.
            graphs: deliver only commits that change one of these graphs; None for all.
            predicates: deliver only commits that add or remove a quad with one of these predicates (in
                ``graphs``); None for all.

        Returns:
            A function that ends the subscription to commits.
        """
        subscriber = _CommitSubscriber(
            callback,
            None if graphs is None else frozenset(graphs),
            None if predicates is None else frozenset(predicates),
        )
        with self._lock:
            self._subscribers = (*self._subscribers, subscriber)

        def unsubscribe() -> None:
            with self._lock:
                self._subscribers = tuple(other for other in self._subscribers if other is not subscriber)

        return unsubscribe

    def enqueue(self, commits: Iterable[Commit]) -> None:
        """Enqueue commits for delivery to subscribers; called in commit order, under the writer lock."""
        with self._lock:
            self._queue.extend(commits)

    def drain(self) -> None:
        """Deliver all queued commits to subscribers, unless another thread is delivering."""
        with self._lock:
            if self._delivering_thread is not None:
                return
            self._delivering_thread = threading.get_ident()
        commits: deque[Commit] = deque()
        while True:
            with self._lock:
                if commits:
                    self.delivered = commits[-1].version
                    self._state.notify_all()
                if not self._queue:
                    self._delivering_thread = None
                    self._state.notify_all()
                    return
                commits, self._queue = self._queue, deque()
                subscribers = self._subscribers
            for commit in commits:
                for subscriber in subscribers:
                    self._call(subscriber, commit)

    def acknowledge(self, version: int) -> None:
        """Record that a writer returns the commit ``version``, which may not be delivered yet."""
        if version > self.delivered:
            with self._lock:
                self.acknowledged = max(self.acknowledged, version)

    def catch_up(self, timeout_s: float = 10.0) -> None:
        """Wait until subscribers got all acknowledged commits, for at most ``timeout_s`` seconds.

        Callers of this method must not hold a lock that a subscriber acquires. If a subscriber of commits
        calls this method, it returns at once.
        """
        acknowledged = self.acknowledged
        self.drain()
        with self._lock:
            if self._delivering_thread == threading.get_ident():
                return
            # After an error of an observer, a visible commit may be missing in the queue. After an error of
            # an observer, no thread delivers the commit.
            if not self._state.wait_for(
                lambda: self._delivering_thread is None or self.delivered >= acknowledged, timeout_s
            ):
                log.warning("what comes behind commit %d does not wait for it any longer", acknowledged)

    def wait_delivered(self, version: int, timeout_s: float = 10.0) -> bool:
        """Wait until subscribers got every commit up to ``version``; return False after the time-out."""
        with self._lock:
            return self._state.wait_for(lambda: self.delivered >= version, timeout_s)

    def begin_at(self, version: int) -> None:
        """Start delivery at ``version``: commits before it are never delivered to subscribers."""
        self.delivered = version

    def _call(self, subscriber: _CommitSubscriber, commit: Commit) -> None:
        try:
            if commit.touches(subscriber.graphs, subscriber.predicates):
                subscriber.callback(commit)
        except Exception:
            log.exception("a subscriber failed on commit %d", commit.version)
