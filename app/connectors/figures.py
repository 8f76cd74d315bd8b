"""Figures that the server reports of a running connector: state, rate, lag, newest error."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any
from typing import Literal as OneOf

State = OneOf["starting", "running", "waiting", "failed", "stopped"]

_RATE_SECONDS = 10.0


class Figures:
    """State, counters and newest error of one connector, written by its thread and read by requests.

    Attributes:
        taken: elements pushed by a source, or events delivered by a sink, since its start.
        refused: number of records that a source could not read, or of events that a sink could not deliver.
        skipped: number of records without content, for instance tombstones of a Kafka topic.
        lost: number of records deleted before the source read them; a loss of unknown size counts as one.
        lag: the connector's unprocessed input in units of the remote system (messages, events); None if
            unknown.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: deque[tuple[float, int]] = deque()
        self.state: State = "stopped"
        self.error: str | None = None
        self.taken = 0
        self.refused = 0
        self.skipped = 0
        self.lost = 0
        self.lag: int | None = None
        self.last_ms: int | None = None

    def count(self, number: int) -> None:
        """Add a number of processed elements or events to the connector's counters."""
        now = time.monotonic()
        with self._lock:
            self.taken += number
            self.last_ms = time.time_ns() // 1_000_000
            self._counts.append((now, number))
            self._forget(now)

    def rate(self) -> float:
        """Return the number of elements or events processed per second, over the last ten seconds."""
        with self._lock:
            self._forget(time.monotonic())
            return round(sum(number for _, number in self._counts) / _RATE_SECONDS, 1)

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] < now - _RATE_SECONDS:
            self._counts.popleft()

    def to_json(self) -> dict[str, Any]:
        """Return state, counters and newest error as members of a connector's description."""
        return {
            "state": self.state,
            "error": self.error,
            "rate": self.rate(),
            "lag": self.lag,
            "taken": self.taken,
            "refused": self.refused,
            "skipped": self.skipped,
            "lost": self.lost,
            "last": self.last_ms,
        }
