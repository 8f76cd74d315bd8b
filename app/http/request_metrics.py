"""Prometheus metrics of HTTP requests, and the registry that holds all metrics of one server."""

from __future__ import annotations

import contextlib
import threading
from bisect import bisect_left
from collections import Counter as Counts
from collections import deque
from collections.abc import Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_BOUNDS = (*map(str, _BUCKETS), "+Inf")
_COUNTED_TOGETHER = 512


class RequestMetrics(Collector):
    """Metrics of HTTP requests, and a private Prometheus registry for each server in the process."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._ended: deque[tuple[str, str, int, float]] = deque()
        """Ended requests that are not counted yet; counting a batch of requests at a time is cheaper."""
        self._lock = threading.Lock()
        self._requests: Counts[tuple[str, str, int]] = Counts()
        # By route: the sum of the requests' seconds, and the number of requests in each bucket of the
        # histogram.
        self._seconds: dict[str, tuple[list[float], list[int]]] = {}
        self.registry.register(self)

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request; ``route`` is its path with placeholders, for few metrics series."""
        self._ended.append((method, route, status, seconds))
        if len(self._ended) >= _COUNTED_TOGETHER:
            with self._lock:
                self._count()

    def _count(self) -> None:
        """Add the ended requests to the counts of the metrics; the caller holds the lock."""
        ended, requests, all_seconds = self._ended, self._requests, self._seconds
        with contextlib.suppress(IndexError):
            while True:
                method, route, status, seconds = ended.popleft()
                requests[method, route, status] += 1
                if (of_route := all_seconds.get(route)) is None:
                    of_route = all_seconds[route] = [0.0], [0] * len(_BOUNDS)
                of_route[0][0] += seconds
                of_route[1][bisect_left(_BUCKETS, seconds)] += 1

    def collect(self) -> Iterator[Metric]:
        """Yield the current request metrics; the Prometheus registry calls this method."""
        requests = CounterMetricFamily(
            "quadrill_http_requests", "Requests answered.", labels=("method", "route", "status")
        )
        took = HistogramMetricFamily(
            "quadrill_http_request_seconds",
            "Time from request to the last byte of its answer.",
            labels=("route",),
        )
        with self._lock:
            self._count()
            for (method, route, status), number in self._requests.items():
                requests.add_metric((method, route, str(status)), number)
            for route, ((seconds,), numbers) in self._seconds.items():
                took.add_metric((route,), [*zip(_BOUNDS, accumulate(numbers), strict=True)], seconds)
        yield requests
        yield took

    def answered(self) -> int:
        """Return the number of requests that the server has answered."""
        with self._lock:
            self._count()
            return self._requests.total()

    def text(self) -> bytes:
        """Return all metrics of the registry in Prometheus' text format."""
        return generate_latest(self.registry)
