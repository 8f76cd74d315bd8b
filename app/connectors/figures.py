"""What is told of a running connector: state, rate, lag, the newest error."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any
from typing import Literal as OneOf

State = OneOf["starting", "running", "waiting", "failed", "stopped"]

_RATE_SECONDS = 10.0


class Figures:
    """Figures of one connector, written by its thread and read by requests.

    Attributes:
        taken: elements that a source has brought, or events that a sink has delivered, since it was started.
        refused: records that could not be read, or events that could not be delivered.
        skipped: records that hold nothing, for instance the tombstones of a topic.
        lost: records that were gone before they could be read, one for each time that nobody knows how many.
        lag: how far it is behind, in units of the other side (messages, bytes), None where that is unknown.
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
        """So many elements or events went through."""
        now = time.monotonic()
        with self._lock:
            self.taken += number
            self.last_ms = time.time_ns() // 1_000_000
            self._counts.append((now, number))
            self._forget(now)

    def rate(self) -> float:
        """Elements or events a second, of the last ten seconds."""
        with self._lock:
            self._forget(time.monotonic())
            return round(sum(number for _, number in self._counts) / _RATE_SECONDS, 1)

    def _forget(self, now: float) -> None:
        while self._counts and self._counts[0][0] < now - _RATE_SECONDS:
            self._counts.popleft()

    def to_json(self) -> dict[str, Any]:
        """The members of a description."""
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
