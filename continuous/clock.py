"""The clocks of an engine, passed in by the caller, so that tests can set the time.

No module of this package reads the wall clock except the clocks and `remote.timers`. Event times and instants
are integer milliseconds since 1970 (docs/semantics.md).
"""

from __future__ import annotations

import time
from collections.abc import Callable


class Clock:
    """An engine's clocks: the wall clock, which may jump, and the monotonic clock for durations.

    Hot paths read `wall_ns` and `steady_ns`, in nanoseconds, because both attributes are functions of the
    module `time`, without a method call in between.
    """

    wall_ns: Callable[[], int] = staticmethod(time.time_ns)
    steady_ns: Callable[[], int] = staticmethod(time.monotonic_ns)

    def now_ms(self) -> int:
        """Milliseconds since 1970 by the wall clock."""
        return self.wall_ns() // 1_000_000

    def steady_ms(self) -> int:
        """Milliseconds of the monotonic clock, whose zero is arbitrary, for idle time-outs and timers."""
        return self.steady_ns() // 1_000_000


class ManualClock(Clock):
    """A clock that moves only when a test moves it."""

    def __init__(self, now_ms: int = 0) -> None:
        self._wall_ms = self._passed_ms = now_ms
        self.wall_ns = lambda: self._wall_ms * 1_000_000
        self.steady_ns = lambda: self._passed_ms * 1_000_000

    def advance(self, by_ms: int) -> None:
        """Move both clocks forward by that many milliseconds."""
        self._wall_ms += by_ms
        self._passed_ms += by_ms

    def set(self, now_ms: int) -> None:
        """Set the wall clock to ``now_ms``; the monotonic clock follows forward, but never back."""
        self._passed_ms += max(0, now_ms - self._wall_ms)
        self._wall_ms = now_ms
