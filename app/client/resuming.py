"""Position of a feed's subscriber, and the back-off before it reconnects."""

from __future__ import annotations

import json

from .answers import Answer, FeedEvent
from .event_stream import ServerEvent

PASSING = (429, 502, 503, 504)
"""HTTP statuses of a busy or starting server, or of a proxy before such a server: a client tries again."""
SILENCE_S = 60.0
"""Seconds without data after which a client reconnects; the server sends a heartbeat every 15 seconds."""


class FeedPlace:
    """Position of one subscriber in a query's feed, with its number of failed connections.

    Attributes:
        last: id of the last event received, after which a new connection resumes; None starts with new
            events.
    """

    def __init__(self, resume: int | None) -> None:
        self.last = resume
        self._failures = 0
        self._retry_s = 2.0

    def connected(self) -> None:
        """Reset the count of failed connections, because a connection succeeded."""
        self._failures = 0

    def take(self, event: ServerEvent) -> FeedEvent:
        """Record the id of an event, reset the count of failures, and return the event as a FeedEvent."""
        self._failures = 0
        if event.retry is not None:
            self._retry_s = event.retry / 1000
        # Progress and reset events have no id: the parser of event streams repeats the previous id for them.
        fresh = event.id if event.kind not in ("progress", "reset") else None
        number = int(fresh) if fresh else None
        if number is not None:
            self.last = number
        return FeedEvent(number, event.kind, Answer(json.loads(event.data)))

    def wait_s(self) -> float:
        """Count a lost connection; return the seconds to wait before a new connection, at most 30."""
        self._failures += 1
        return float(min(30.0, self._retry_s * 2 ** min(self._failures - 1, 30) / 4))

    @property
    def failures(self) -> int:
        """Number of connections and attempts to connect that failed since the last success or event."""
        return self._failures
