"""Events of a feed, and what a subscriber has in front of it: a bounded queue of them."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from typing import Literal as OneOf

EventKind = OneOf["insert", "delete", "answer", "progress", "reset", "error"]
NUMBERED: frozenset[EventKind] = frozenset({"insert", "delete", "answer", "error"})


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event: ``data`` is one line of JSON, ``id`` is None for progress and reset."""

    id: int | None
    kind: EventKind
    data: str


class Source(Protocol):
    """What a subscriber is attached to: a feed."""

    def leave(self, subscriber: Subscription) -> None:
        """Detach a subscriber."""
        ...


class Subscription:
    """One subscriber's bounded queue of events.

    Read it with `get` or by iterating in a thread of your own, or give `listen` a callback that wakes your
    loop and drain with `take`. ``closed`` says that no event will be added; ``overflowed`` that the
    subscriber was too slow.
    """

    members = 1

    def __init__(self, feed: Source, limit: int) -> None:
        self._feed = feed
        self._limit = limit
        self._events: deque[FeedEvent] = deque()
        self._ready = threading.Condition()
        self._wake: Callable[[], None] | None = None
        self.closed = False
        self.overflowed = False

    def get(self, timeout: float | None = None) -> FeedEvent | None:
        """The next event; None when there is none within ``timeout`` seconds or after the end."""
        deadline = None if timeout is None else time.monotonic() + timeout
        with self._ready:
            while not self._events and not self.closed:
                left = None if deadline is None else deadline - time.monotonic()
                if left is not None and left <= 0:
                    return None
                self._ready.wait(left)
            return self._events.popleft() if self._events else None

    def take(self) -> list[FeedEvent]:
        """All waiting events, at once and without waiting."""
        with self._ready:
            events = list(self._events)
            self._events.clear()
            return events

    def listen(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` whenever events were added or the feed ended; at once if that is so already.

        It is called in the engine's thread and must only wake another one.
        """
        with self._ready:
            self._wake = callback
            pending = bool(self._events) or self.closed
        if pending:
            callback()

    def close(self) -> None:
        """Detach from the feed."""
        self._feed.leave(self)
        self.end()

    @property
    def exhausted(self) -> bool:
        """True when the feed has ended and everything was read."""
        with self._ready:
            return self.closed and not self._events

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> FeedEvent:
        event = self.get()
        if event is None:
            raise StopIteration
        return event

    # --- called by the feed ---------------------------------------------------------------------

    def offer(self, events: Sequence[FeedEvent], *, first: bool = False) -> bool:
        """Add events; False when they do not fit. What the subscriber asked for at first always fits."""
        with self._ready:
            if self.closed:
                return False
            if not first and len(self._events) + len(events) > self._limit:
                self.overflowed = True
                return False
            self._events.extend(events)
            self._ready.notify_all()
            wake = self._wake
        if wake is not None:
            wake()
        return True

    def end(self) -> None:
        """No more events; those waiting can still be read."""
        with self._ready:
            self.closed = True
            self._ready.notify_all()
            wake = self._wake
        if wake is not None:
            wake()


class Group(Protocol):
    """Many subscribers who get the same events: a feed offers them once. Called under the feed's lock."""

    members: int
    """How many there are."""

    def welcome(self, member: Any, first: Sequence[FeedEvent], ended: bool) -> bool:
        """A new member gets ``first``, then what is offered later; False when the group has ended."""
        ...

    def offer(self, events: Sequence[FeedEvent], *, first: bool = False) -> bool:
        """Events for all members; False when the group has ended."""
        ...

    def end(self) -> None:
        """No more events."""
        ...
