"""Time is injected: the only file that reads a clock.

Event times and instants are integer milliseconds since the epoch everywhere (docs/semantics.md).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """The wall clock of the engine: arrival stamps, idle time-outs and timers read it."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000


class ManualClock:
    """A clock that tests drive by hand."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms

    def now_ms(self) -> int:
        """The time last set."""
        return self._now_ms

    def advance(self, by_ms: int) -> None:
        """Move forward by ``by_ms`` milliseconds."""
        self._now_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Set the time; it may move back, as a machine's clock may."""
        self._now_ms = now_ms
