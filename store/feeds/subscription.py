"""Events of a feed, and what a subscriber has in front of it: a bounded queue of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol
from typing import Literal as OneOf

EventKind = OneOf["insert", "delete", "answer", "progress", "reset", "error"]
NUMBERED: frozenset[EventKind] = frozenset({"insert", "delete", "answer", "error"})


class StoredEvent(NamedTuple):
    """One event: ``data`` is one line of JSON, ``id`` is None for progress and reset."""

    id: int | None
    kind: EventKind
    data: str


made_event = partial(tuple.__new__, StoredEvent)


class Subscriber(Protocol):
    """One or many to whom a feed offers each event once, under the feed's lock; ``members``: how many."""

    members: int

    def welcome(self, member: Any, first: Sequence[StoredEvent], ended: bool) -> bool:
        """A new member gets ``first``, then what is offered later; False when this has ended."""
        ...

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Events for all members; False when they do not fit or this has ended."""
        ...

    def end(self) -> None:
        """No more events."""
        ...


class Subscription:
    """One subscriber's bounded queue of events.

    Give `listen` a callback that wakes your thread or loop, and drain with `take`. ``closed`` says that no
    event will be added, as when the subscriber was too slow.
    """

    members = 1

    def __init__(self, leave: Callable[[Subscription], None], limit: int) -> None:
        """Begin empty; ``leave`` detaches it from its feed, ``limit`` is how many events may wait.

        What is read next does not count, however much it is: what was asked for at first, or came at once.
        """
        self._leave = leave
        self._limit = limit
        self._events: deque[StoredEvent] = deque()
        self._lock = threading.Lock()
        self._wake: Callable[[], None] = lambda: None
        self._uncounted = 0
        self.closed = False

    def take(self) -> list[StoredEvent]:
        """All waiting events, without waiting."""
        with self._lock:
            events = list(self._events)
            self._events.clear()
            self._uncounted = 0
            return events

    def listen(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever events were added or the feed ended; at once if that is so already.

        It is called in the engine's thread and must only wake another one.
        """
        with self._lock:
            self._wake = callback
            pending = bool(self._events) or self.closed
        if pending:
            callback()

    def close(self) -> None:
        """Detach from the feed."""
        self._leave(self)
        self.end()

    @property
    def exhausted(self) -> bool:
        """True when the feed has ended and everything was read."""
        with self._lock:
            return self.closed and not self._events

    # --- called by the feed ---------------------------------------------------------------------

    def welcome(self, member: None, first: Sequence[StoredEvent], ended: bool) -> bool:
        """Add what the subscriber asked for at first, whatever its limit."""
        with self._lock:
            self._events.extend(first)
            self._uncounted = len(first)
            self.closed = ended
        return True

    def offer(self, events: Sequence[StoredEvent]) -> bool:
        """Add events; False when so many wait already that the subscriber is too slow."""
        with self._lock:
            if self.closed or len(self._events) - self._uncounted >= self._limit:
                return False
            if not self._events:
                self._uncounted = len(events) - 1
            self._events.extend(events)
        self._wake()
        return True

    def end(self) -> None:
        """No more events; those waiting can still be read."""
        with self._lock:
            self.closed = True
        self._wake()
