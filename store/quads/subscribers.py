"""Subscribers of the store: called once per commit, in order, after the commit is durable and visible."""

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
    """Hands commits to subscribers, in the thread of a writer and outside the writer lock.

    One thread hands over at a time. A writer that finds another one handing over leaves its commit to that
    one and returns: so a subscriber may take locks that writers hold, and may itself write (its commit is
    handed over after the present one). A subscriber that raises is logged, and the others are called.

    Attributes:
        delivered: commits up to this version were handed over.
        acknowledged: the greatest version that a writer returned before its delivery had ended.
    """

    def __init__(self) -> None:
        self._queue: deque[Commit] = deque()
        self._subscribers: tuple[_CommitSubscriber, ...] = ()
        # Entered itself, not by its condition, which is a call of Python more each time.
        self._lock = threading.RLock()
        self._state = threading.Condition(self._lock)
        self._delivering_thread: int | None = None  # the thread that hands over
        self.delivered = self.acknowledged = 0

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
        """Put commits in line; called in commit order, under the writer lock."""
        with self._lock:
            self._queue.extend(commits)

    def drain(self) -> None:
        """Hand over what is in line, unless another thread does."""
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
        """A commit is about to be answered; another thread may still have to hand it over."""
        if version > self.delivered:
            with self._lock:
                self.acknowledged = max(self.acknowledged, version)

    def catch_up(self, timeout_s: float = 10.0) -> None:
        """Return when all that was promised so far is handed over, at the latest after the time-out.

        Not to be called with a lock that a subscriber takes. A subscriber that calls it does not wait.
        """
        acknowledged = self.acknowledged
        self.drain()
        with self._lock:
            if self._delivering_thread == threading.get_ident():
                return
            # Where nobody is at it an observer has failed, and what it lacks is told with the next commit.
            if not self._state.wait_for(
                lambda: self._delivering_thread is None or self.delivered >= acknowledged, timeout_s
            ):
                log.warning("what comes behind commit %d does not wait for it any longer", acknowledged)

    def wait_delivered(self, version: int, timeout_s: float = 10.0) -> bool:
        """Wait until every commit up to ``version`` has been handed over; False after the time-out."""
        with self._lock:
            return self._state.wait_for(lambda: self.delivered >= version, timeout_s)

    def begin_at(self, version: int) -> None:
        """Count from ``version``: earlier commits are history, not news."""
        self.delivered = version

    def _call(self, subscriber: _CommitSubscriber, commit: Commit) -> None:
        try:
            if commit.touches(subscriber.graphs, subscriber.predicates):
                subscriber.callback(commit)
        except Exception:
            log.exception("a subscriber failed on commit %d", commit.version)
