"""Figures that the server reports of a running connector: state, rate, lag, newest error."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any
from typing import Literal as OneOf

State = OneOf["starting", "running", "waiting", "failed", "stopped"]

Health = OneOf["ok", "degraded"]

_RATE_SECONDS = 10.0
DEGRADED_MS = 60_000
"""Milliseconds after a refused record or event for which a connector's health is ``degraded``."""


class Figures:
    """State, counters and newest error of one connector, written by its thread and read by requests.

    Attributes:
        taken: elements pushed by a source, or events delivered by a sink, since its start.
        refused: number of records that a source could not read, or of events that a sink could not deliver.
        skipped: number of records without content, for instance tombstones of a Kafka topic.
        lost: number of records deleted before the source read them; a loss of unknown size counts as one.
        refusal: time in milliseconds since 1970 and error of the newest refused record or event; None before
            the first.
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
        self.refusal: tuple[int, str] | None = None
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

    def refuse(self, error: str) -> None:
        """Count a record or event that was refused, and store the time and the error."""
        with self._lock:
            self.refused += 1
            self.refusal = time.time_ns() // 1_000_000, error

    @property
    def health(self) -> Health:
        """``degraded`` for a minute after a refused record or event, otherwise ``ok``."""
        refusal = self.refusal
        is_recent = refusal is not None and time.time_ns() // 1_000_000 - refusal[0] < DEGRADED_MS
        return "degraded" if is_recent else "ok"

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
        refusal = self.refusal
        return {
            "state": self.state,
            "health": self.health,
            "error": self.error,
            "rate": self.rate(),
            "lag": self.lag,
            "taken": self.taken,
            "refused": self.refused,
            "last_refusal": None if refusal is None else {"at": refusal[0], "error": refusal[1]},
            "skipped": self.skipped,
            "lost": self.lost,
            "last": self.last_ms,
        }
