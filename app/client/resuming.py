"""Where a reader of a feed is, and how long it waits before it connects again."""

from __future__ import annotations

import json

from .answers import Answer, FeedEvent
from .event_stream import ServerEvent

SILENCE_S = 60.0
"""A feed tells that it is there every 15 seconds; one that does not for so long is gone."""


class FeedPlace:
    """The place of one reader.

    Attributes:
        last: the id behind which a new connection begins; None: with the next event.
    """

    def __init__(self, resume: int | None) -> None:
        self.last = resume
        self._failures = 0
        self._retry_s = 2.0

    def connected(self) -> None:
        """The server answers again."""
        self._failures = 0

    def take(self, event: ServerEvent) -> FeedEvent:
        """An event has come."""
        self._failures = 0
        if event.retry is not None:
            self._retry_s = event.retry / 1000
        # Progress and reset come without an id of their own; the stream repeats the last one for them.
        fresh = event.id if event.kind not in ("progress", "reset") else None
        number = int(fresh) if fresh else None
        if number is not None:
            self.last = number
        return FeedEvent(number, event.kind, Answer(json.loads(event.data)))

    def wait_s(self) -> float:
        """The connection was lost: how long to wait, longer from time to time."""
        self._failures += 1
        return float(min(30.0, self._retry_s * 2 ** min(self._failures - 1, 30) / 4))

    @property
    def failures(self) -> int:
        """Connections that were lost one after the other without an event."""
        return self._failures
