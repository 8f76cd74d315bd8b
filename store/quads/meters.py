"""Rates of the last seconds, for descriptions, and how long the stages of an input take, for `/metrics`."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import repeat
from typing import ClassVar

_SPAN_S = 10


@dataclass(slots=True, eq=False)
class Meter:
    """Counts things and tells their rate over the last ten seconds. Times come from the engine's clock.

    Attributes:
        total: how many there were.
        second: the last second in which some were counted.
        marks: (second, total before it) of the last seconds, so the memory is bounded whatever the rate.

    What counts at every input does as `add` by itself: begins a second where it is another, then adds.
    """

    SPAN_S: ClassVar = _SPAN_S
    total: int = 0
    second: int | None = None
    marks: deque[tuple[int, int]] = field(default_factory=partial(deque, (), _SPAN_S + 1))

    def add(self, now_ms: int, number: int) -> None:
        """``number`` more at ``now_ms``."""
        if self.second != (second := now_ms // 1000):
            self.second = second
            self.marks.append((second, self.total))
        self.total += number

    def copy(self) -> Meter:
        """One that has counted the same."""
        return replace(self, marks=self.marks.copy())

    def per_second(self, now_ms: int) -> float:
        """The rate over the last ten seconds."""
        oldest = now_ms // 1000 - self.SPAN_S
        before = next((before for second, before in list(self.marks) if second > oldest), self.total)
        return round((self.total - before) / self.SPAN_S, 3)


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
        with self._lock:
            seconds = [self.noted.popleft() for _ in range(len(self.noted))]
            self._sum += sum(seconds)
            for place, number in Counter(map(bisect_left, repeat(self.BOUNDS_S), seconds)).items():
                self._counts[place] += number

    def buckets(self) -> tuple[list[tuple[str, int]], float]:
        """(upper bound, how often it took no longer) as Prometheus writes them, and the sum in seconds."""
        self.count_noted()
        with self._lock:
            counts, total = list(self._counts), self._sum
        buckets, below = [], 0
        for bound, count in zip((*map(str, self.BOUNDS_S), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, below))
        return buckets, total


@dataclass(slots=True)
class Stages:
    """The way of an input through the server, in time.

    Attributes:
        decode: from a body's bytes to elements.
        log: a push's wait for the input log.
        queue: from its place in the order to its turn.
        process: its turn: windows, evaluation, what it makes queries derive.
        results: writing results, the wait for their inputs' durability included.
    """

    decode: Histogram = field(default_factory=Histogram)
    log: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    process: Histogram = field(default_factory=Histogram)
    results: Histogram = field(default_factory=Histogram)

    def count_noted(self) -> None:
        """Count the times that were noted, so that they do not fill the memory."""
        for _, histogram in self.items():
            histogram.count_noted()

    def items(self) -> list[tuple[str, Histogram]]:
        """Names and figures, in the order of the way."""
        return [(stage.name, getattr(self, stage.name)) for stage in fields(self)]
