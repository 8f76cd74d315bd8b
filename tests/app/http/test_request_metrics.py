"""Figures of requests: counted together they are what Prometheus' own client counts one by one."""

from __future__ import annotations

import random

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

from quadrill.app.http.request_metrics import _BUCKETS, RequestMetrics


def test_requests_counted_together_are_those_counted_one_by_one() -> None:
    metrics, registry = RequestMetrics(), CollectorRegistry()
    requests = Counter("quadrill_http_requests", "", ("method", "route", "status"), registry=registry)
    took = Histogram("quadrill_http_request_seconds", "", ("route",), buckets=_BUCKETS, registry=registry)
    chosen = random.Random(1)
    for _ in range(1500):
        method, route = chosen.choice(("GET", "POST")), chosen.choice(("/query", "/streams"))
        status = chosen.choice((200, 404))
        seconds = chosen.choice((*_BUCKETS, chosen.expovariate(1), 100.0, 0.0))
        metrics.request_ended(method, route, status, seconds)
        requests.labels(method, route, str(status)).inc()
        took.labels(route).observe(seconds)
        if not chosen.randrange(100):
            assert figures(metrics.text()) == figures(generate_latest(registry))
    assert figures(metrics.text()) == figures(generate_latest(registry))


def figures(text: bytes) -> list[str]:
    lines = text.decode().splitlines()
    return sorted(line for line in lines if not line.startswith("#") and "_created{" not in line)
