"""Rates of the last seconds, for descriptions."""

from __future__ import annotations

from collections import deque


class Meter:
    """Counts things and tells their rate over the last ``span_ms``. Times come from the engine's clock."""

    def __init__(self, span_ms: int = 10_000) -> None:
        self._span_ms = span_ms
        # One entry per second, so the memory is bounded whatever the rate.
        self._seconds: deque[tuple[int, int]] = deque()
        self.total = 0

    def add(self, now_ms: int, number: int) -> None:
        """``number`` more at ``now_ms``."""
        if number == 0:
            return
        self.total += number
        second = now_ms // 1000
        if self._seconds and self._seconds[-1][0] == second:
            self._seconds[-1] = (second, self._seconds[-1][1] + number)
        else:
            self._seconds.append((second, number))
            if len(self._seconds) > self._span_ms // 1000 + 1:
                self._seconds.popleft()

    def per_second(self, now_ms: int) -> float:
        """The rate over the last ``span_ms``."""
        oldest = (now_ms - self._span_ms) // 1000
        recent = sum(number for second, number in list(self._seconds) if second > oldest)
        return round(recent * 1000 / self._span_ms, 3)
