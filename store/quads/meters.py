"""Meters of recent rates, for descriptions, and duration histograms of input stages, for `/metrics`."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from itertools import repeat
from typing import ClassVar

_SPAN_S = 10


@dataclass(slots=True, eq=False)
class Meter:
    """A counter of events with their rate over the last ten seconds, by the engine's clock.

    Attributes:
        total: the number of events.
        second: the last second in which events were counted.
        marks: (second, total before that second) of the last seconds; bounded at any rate.

    Code that counts every input of the engine inlines `add` for speed.
    """

    SPAN_S: ClassVar = _SPAN_S
    total: int = 0
    second: int | None = None
    marks: deque[tuple[int, int]] = field(default_factory=partial(deque, (), _SPAN_S + 1))

    def add(self, now_ms: int, number: int) -> None:
        """Count ``number`` events at the time ``now_ms``."""
        if self.second != (second := now_ms // 1000):
            self.second = second
            self.marks.append((second, self.total))
        self.total += number

    def copy(self) -> Meter:
        """Return an independent copy of the meter with the same counts."""
        return replace(self, marks=self.marks.copy())

    def per_second(self, now_ms: int) -> float:
        """Return the average number of events per second over the last ten seconds."""
        oldest = now_ms // 1000 - self.SPAN_S
        before = next((before for second, before in list(self.marks) if second > oldest), self.total)
        return round((self.total - before) / self.SPAN_S, 3)


class Histogram:
    """A histogram of durations in seconds, one for each input or group of inputs, never for each element.

    Hot code appends durations to the list ``noted``, which `count_noted` adds to the histogram later.
    """

    BOUNDS_S = (
        0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
    )  # fmt: skip
    """Inclusive upper bounds of the histogram's buckets in seconds."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts = [0] * (len(self.BOUNDS_S) + 1)
        self.noted: deque[float] = deque()
        self._sum = 0.0

    def observe(self, seconds: float) -> None:
        """Add one duration in seconds to the histogram."""
        with self._lock:
            self._counts[bisect_left(self.BOUNDS_S, seconds)] += 1
            self._sum += seconds

    def count_noted(self) -> None:
        """Add the durations in the list ``noted`` to the histogram, and empty the list."""
        with self._lock:
            seconds = [self.noted.popleft() for _ in range(len(self.noted))]
            self._sum += sum(seconds)
            for place, number in Counter(map(bisect_left, repeat(self.BOUNDS_S), seconds)).items():
                self._counts[place] += number

    def counts(self) -> tuple[int, ...]:
        """Return the number of durations in each bucket; the last bucket has those above all bounds."""
        self.count_noted()
        with self._lock:
            return tuple(self._counts)

    def buckets(self) -> tuple[list[tuple[str, int]], float]:
        """Return the histogram's (upper bound, count) pairs, cumulative as in Prometheus, and its sum."""
        self.count_noted()
        with self._lock:
            counts, total = list(self._counts), self._sum
        buckets, below = [], 0
        for bound, count in zip((*map(str, self.BOUNDS_S), "+Inf"), counts, strict=True):
            below += count
            buckets.append((bound, below))
        return buckets, total


def quantile_s(counts: Sequence[int], share: float) -> float | None:
    """Return the duration in seconds below which ``share`` of a histogram's durations are; None without any.

    The result is that of Prometheus' histogram_quantile: the durations of a bucket count as evenly spread,
    and durations above the last bound count as that bound.
    """
    wanted, below = share * sum(counts), 0
    if not wanted:
        return None
    lower = 0.0
    for bound, count in zip(Histogram.BOUNDS_S, counts, strict=False):
        if below + count >= wanted:
            return lower + (bound - lower) * (wanted - below) / count
        below, lower = below + count, bound
    return lower


@dataclass(slots=True)
class Stages:
    """Durations of the stages that an input passes in the server.

    Attributes:
        decode: decoding of a request body into elements.
        log: wait of a push for the input log.
        queue: wait of a task between acceptance and execution.
        process: execution of a task: windows, evaluation and derived streams.
        results: writing of results, with the wait until their inputs are durable.
        total: time from the acceptance of a stream input until its results are written to the feeds.
    """

    decode: Histogram = field(default_factory=Histogram)
    log: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    process: Histogram = field(default_factory=Histogram)
    results: Histogram = field(default_factory=Histogram)
    total: Histogram = field(default_factory=Histogram)

    def count_noted(self) -> None:
        """Add the noted durations of all stages to their histograms, so that the lists stay short."""
        for _, histogram in self.items():
            histogram.count_noted()

    def items(self) -> list[tuple[str, Histogram]]:
        """Return names and histograms of an input's stages, in the order in which it passes them."""
        return [(stage.name, getattr(self, stage.name)) for stage in fields(self)]
