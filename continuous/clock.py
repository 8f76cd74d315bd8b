"""Time is injected: the only file that reads a clock.

Event times and instants are integer milliseconds since the epoch everywhere (docs/semantics.md).
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A wall clock for stamps, which may jump, and a steady one for spans, which never does."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def steady_ms(self) -> int:
        """Milliseconds since some moment: for idle time-outs and timers."""
        ...


class SystemClock:
    """The machine's wall clock."""

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds since some moment before the process began."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that tests drive by hand."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = self._steady_ms = now_ms

    def now_ms(self) -> int:
        """The time last set."""
        return self._now_ms

    def steady_ms(self) -> int:
        """The sum of what passed."""
        return self._steady_ms

    def advance(self, by_ms: int) -> None:
        """So many milliseconds pass."""
        self._now_ms += by_ms
        self._steady_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Time passes until then; the wall clock is set back to what lies behind it."""
        if now_ms >= self._now_ms:
            self.advance(now_ms - self._now_ms)
        else:
            self.jump(now_ms - self._now_ms)

    def jump(self, by_ms: int) -> None:
        """Somebody sets the wall clock, back or forth, and no time passes."""
        self._now_ms += by_ms
