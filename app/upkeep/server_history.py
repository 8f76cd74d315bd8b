"""Figures of the whole server in every 10 s of the last hour: rates, latency, CPU time, memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from quadrill.store.quads.meters import Histogram, quantile_s

from ..http.request_metrics import RequestMetrics
from .disk import Disk
from .own_process import OwnProcess, ProcessFigures
from .rings import POINTS

RECENT_POINTS = 30
"""Number of points whose durations make the recent latency: five minutes."""


class Latency(NamedTuple):
    """Quantiles of the time from acceptance to the feed in milliseconds, and the number of inputs."""

    p50_ms: float | None
    p99_ms: float | None
    inputs: int


class _Totals(NamedTuple):
    """Counters of the server at one instant; ``durations`` are counts by bucket of the stage `total`."""

    requests: int
    cpu_s: float | None
    durations: tuple[int, ...]


class _Point(NamedTuple):
    """What the server did in one period of the history."""

    number: int
    elements: int
    events: int
    requests: int
    cpu_ms: int | None
    memory_bytes: int | None
    durations: tuple[int, ...]


class ServerHistory:
    """Points of the last hour of a whole server; `History` calls `take` at the end of each period.

    Attributes:
        process: reader of the CPU time, memory and start of the process.
        disk: measurements of the data folder and its disk; None for a server that stores nothing on disk.
    """

    def __init__(self, total: Histogram, requests: RequestMetrics, disk: Disk | None) -> None:
        """Create an empty history.

        Args:
            total: durations of the stage `total` of stream inputs.
            requests: the counter of answered requests.
            disk: measurements of the data folder and its disk.
        """
        self.disk = disk
        self._total = total
        self._requests = requests
        self.process = OwnProcess()
        self._points: deque[_Point] = deque(maxlen=POINTS)
        self._last: _Totals | None = None

    def take(self, number: int, elements: int, events: int) -> None:
        """Record a point: ``elements`` were accepted and ``events`` emitted in the period ``number``.

        The first call only records the counters, because nothing is known of the time before.
        """
        process = self.process.figures()
        now, last = self._totals(process), self._last
        self._last = now
        if last is None:
            return
        cpu_ms = None if now.cpu_s is None or last.cpu_s is None else round(1000 * (now.cpu_s - last.cpu_s))
        memory = None if process.memory_bytes is None else int(process.memory_bytes)
        durations = _growth(now.durations, last.durations)
        requests = now.requests - last.requests
        self._points.append(_Point(number, elements, events, requests, cpu_ms, memory, durations))

    def newest(self) -> _Point | None:
        """Return the newest point; None before the first one."""
        return self._points[-1] if self._points else None

    def latency(self) -> Latency:
        """Return the latency of the inputs of the last five minutes, including the present period."""
        points = list(self._points)[-RECENT_POINTS:]
        since = () if self._last is None else _growth(self._total.counts(), self._last.durations)
        return _latency([each.durations for each in points] + ([since] if since else []))

    def to_json(self, every_ms: int, newest: int | None) -> dict[str, Any]:
        """Return the points as columns, oldest first; None for periods that were missed."""
        points = {each.number: each for each in list(self._points)}
        if newest is None or not points:
            numbers = range(0)
        else:
            numbers = range(max(min(points), newest - POINTS + 1), newest + 1)
        found = [points.get(number) for number in numbers]
        latencies = [None if each is None else _latency([each.durations]) for each in found]
        columns = ("elements", "events", "requests", "cpu_ms", "memory_bytes")
        return {
            "every_ms": every_ms,
            "from": (numbers.start - 1) * every_ms if numbers else None,
            **{name: [None if each is None else getattr(each, name) for each in found] for name in columns},
            "p50_ms": [None if each is None else each.p50_ms for each in latencies],
            "p99_ms": [None if each is None else each.p99_ms for each in latencies],
        }

    def _totals(self, process: ProcessFigures) -> _Totals:
        return _Totals(self._requests.answered(), process.cpu_s, self._total.counts())


def _growth(now: Sequence[int], before: Sequence[int]) -> tuple[int, ...]:
    return tuple(a - b for a, b in zip(now, before, strict=True))


def _latency(periods: Sequence[Sequence[int]]) -> Latency:
    """Return the latency of the inputs whose durations some periods counted."""
    counts = [sum(column) for column in zip(*periods, strict=True)]
    p50_ms, p99_ms = (_milliseconds(quantile_s(counts, share)) for share in (0.5, 0.99))
    return Latency(p50_ms, p99_ms, sum(counts))


def _milliseconds(seconds: float | None) -> float | None:
    return None if seconds is None else round(1000 * seconds, 3)
