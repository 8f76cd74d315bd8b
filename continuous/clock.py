"""Time is injected: the only file that reads a clock.

Event times and instants are integer milliseconds since the epoch everywhere (docs/semantics.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """The machine's two clocks: a wall clock for stamps, which may jump, and a steady one for spans.

    Whoever reads them for every input takes `wall_ns` and `steady_ns`, in nanoseconds, which cost nothing.
    """

    wall_ns: Callable[[], int] = staticmethod(time.time_ns)
    steady_ns: Callable[[], int] = staticmethod(time.monotonic_ns)

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        return self.wall_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds since some moment before the process began, for idle time-outs and timers."""
        return self.steady_ns() // 1_000_000


class ManualClock(Clock):
    """A clock that tests drive by hand."""

    def __init__(self, now_ms: int = 0) -> None:
        self._wall_ms = self._passed_ms = now_ms
        self.wall_ns = lambda: self._wall_ms * 1_000_000
        self.steady_ns = lambda: self._passed_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        """So many milliseconds pass."""
        self._wall_ms += by_ms
        self._passed_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Time passes until then; the wall clock is set back to what lies behind it."""
        self._passed_ms += max(0, now_ms - self._wall_ms)
        self._wall_ms = now_ms
