"""Rates of the last seconds, for descriptions, and how long the stages of an input take, for `/metrics`."""

from __future__ import annotations

import threading
from bisect import bisect_left
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

    def follow(self, other: Meter, more: int) -> None:
        """Another one has counted ``more`` for this one, too, and knows at which rate."""
        self.total += more
        self._seconds = deque(other._seconds)

    def per_second(self, now_ms: int) -> float:
        """The rate over the last ``span_ms``."""
        oldest = (now_ms - self._span_ms) // 1000
        recent = sum(number for second, number in list(self._seconds) if second > oldest)
        return round(recent * 1000 / self._span_ms, 3)


class Histogram:
    """How often something took how long. Observed once per input or group, never per element.

    ``noted`` takes times that are counted together later, see `count_noted`: noting one costs nothing.
    """

    BOUNDS_S = (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    )  # fmt: skip
    """Upper bounds in seconds, each contained in its bucket."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(self.BOUNDS_S) + 1)
        self.noted: deque[float] = deque()
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one more that took so many seconds."""
        with self._lock:
            self._counts[bisect_left(self.BOUNDS_S, seconds)] += 1
            self._sum += seconds

    def count_noted(self) -> None:
        """Count the times that were noted since the last call."""
        while self.noted:
            try:
                seconds = self.noted.popleft()
            except IndexError:  # another thread has counted it
                return
            self.observe(seconds)

    def buckets(self) -> tuple[list[tuple[str, int]], float]:
        """(upper bound, how often it took no longer) as Prometheus writes them, and the sum in seconds."""
        self.count_noted()
        with self._lock:
            counts, total = list(self._counts), self._sum
        found, below = [], 0
        for bound, count in zip((*map(str, self.BOUNDS_S), "+Inf"), counts, strict=True):
            below += count
            found.append((bound, below))
        return found, total


class Stages:
    """The way of an input through the server, in time.

    Attributes:
        decode: from a body's bytes to elements.
        log: a push's wait for the input log.
        queue: from its place in the order to its turn.
        process: its turn: windows, evaluation, what it makes queries derive.
        results: writing results, the wait for their inputs' durability included.
    """

    __slots__ = ("decode", "log", "process", "queue", "results")

    def __init__(self) -> None:
        self.decode = Histogram()
        self.log = Histogram()
        self.queue = Histogram()
        self.process = Histogram()
        self.results = Histogram()

    def count_noted(self) -> None:
        """Count the times that were noted, so that they do not fill the memory."""
        for _, histogram in self.items():
            histogram.count_noted()

    def items(self) -> list[tuple[str, Histogram]]:
        """Names and figures, in the order of the way."""
        return [(name, getattr(self, name)) for name in ("decode", "log", "queue", "process", "results")]
