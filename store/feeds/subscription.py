"""Events of a feed, and the bounded queue of events that each subscriber has."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol
from typing import Literal as OneOf

EventKind = OneOf["insert", "delete", "answer", "resolved", "progress", "reset", "error"]
NUMBERED: frozenset[EventKind] = frozenset({"insert", "delete", "answer", "resolved", "error"})


class StoredEvent(NamedTuple):
    """One event of a feed: ``data`` is one line of JSON; ``id`` is None for progress and reset events."""

    id: int | None
    kind: EventKind
    data: str


made_event = partial(tuple.__new__, StoredEvent)


class Subscriber(Protocol):
    """A receiver of a feed's events.

    The feed holds its lock when it calls `welcome` and `offer`, but not always when it calls `end`.

    ``members`` is the number of clients that receive this subscriber's events.
    """

    members: int

    def welcome(self, member: Any, first: Sequence[StoredEvent], ended: bool) -> bool:
        """Add a client (member) that receives the events ``first``, then all offered events.

        Return False if the subscriber has ended.
        """
        ...

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Enqueue events for all clients; return False if the queue is full or the subscriber has ended."""
        ...

    def end(self) -> None:
        """End the subscriber; the feed offers it no further events."""
        ...


class Subscription:
    """One subscriber's bounded queue of events.

    Pass `listen` a callback that wakes the reading thread or event loop, then dequeue events with `take`.
    The attribute ``closed`` is True if the feed adds no further events, for instance because the subscriber
    was too slow.
    """

    members = 1

    def __init__(self, leave: Callable[[Subscription], None], limit: int) -> None:
        """Create an empty queue of at most ``limit`` events for one subscriber.

        The function ``leave`` detaches the subscription from its feed.

        A subscriber's initial events do not count towards the limit, and a batch that arrives at an empty
        queue counts as one event.
        """
        self._leave = leave
        self._limit = limit
        self._events: deque[StoredEvent] = deque()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None
        self._uncounted = 0
        self.closed = False

    def take(self) -> list[StoredEvent]:
        """Dequeue and return all queued events of the subscriber without blocking."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
            self._uncounted = 0
            return events

    def listen(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever events were added to the queue or the feed ended.

        If the queue has events or the feed has ended already, ``callback`` is called immediately.

        The engine's thread calls ``callback``, which therefore must only wake another thread.
        """
        with self._lock:
            self._wake = callback
            pending = bool(self._events) or self.closed
        if pending:
            callback()

    def close(self) -> None:
        """Detach the subscription from its feed and end it."""
        self._leave(self)
        self.end()

    @property
    def exhausted(self) -> bool:
        """True if the subscription has ended and all its events were read."""
        with self._lock:
            return self.closed and not self._events

    # --- methods that the feed calls ----------------------------------------------------------------

    def welcome(self, member: None, first: Sequence[StoredEvent], ended: bool) -> bool:
        """Enqueue the subscriber's initial events, even if they exceed the limit."""
        with self._lock:
            self._events.extend(first)
            self._uncounted = len(first)
            self.closed = ended
        return True

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Enqueue events for the subscriber; return False if the queue is full or it has ended."""
        with self._lock:
            if self.closed or len(self._events) - self._uncounted >= self._limit:
                return False
            if not self._events:
                self._uncounted = len(events) - 1
            self._events.extend(events)
        self._wake()
        return True

    def end(self) -> None:
        """End the subscription; queued events can still be read."""
        with self._lock:
            self.closed = True
        self._wake()
