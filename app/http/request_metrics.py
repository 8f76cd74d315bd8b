"""Request figures for Prometheus, counted as requests end, and the registry that everything is read from."""

from __future__ import annotations

import contextlib
from collections import Counter as Counts
from collections import deque

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_COUNTED_TOGETHER = 512


class RequestMetrics:
    """The server's own registry of figures, so that two servers in one process do not mix theirs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "quadrill_http_requests",
            "Requests answered.",
            ("method", "route", "status"),
            registry=self.registry,
        )
        self._seconds = Histogram(
            "quadrill_http_request_seconds",
            "Time from request to the last byte of its answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._ended: deque[tuple[str, str, int, float]] = deque()
        """Requests that are not counted yet: a request only leaves its figures, they are counted together."""

    def request_ended(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count one answered request; ``route`` is the rule, not the path, so that labels stay few."""
        self._ended.append((method, route, status, seconds))
        if len(self._ended) >= _COUNTED_TOGETHER:
            self._count()

    def _count(self) -> None:
        """Count what has ended; what another thread counts at the same time is taken by one of the two."""
        requests: Counts[tuple[str, str, int]] = Counts()
        seconds_of: dict[str, Histogram] = {}
        with contextlib.suppress(IndexError):
            while True:
                method, route, status, seconds = self._ended.popleft()
                requests[method, route, status] += 1
                of_route = seconds_of.get(route)
                if of_route is None:
                    of_route = seconds_of[route] = self._seconds.labels(route)
                of_route.observe(seconds)
        for (method, route, status), number in requests.items():
            self._requests.labels(method, route, str(status)).inc(number)

    def text(self) -> bytes:
        """Everything in Prometheus' text format."""
        self._count()
        return generate_latest(self.registry)
