"""Metrics and access log of HTTP requests whose answer was sent to its last byte."""

from __future__ import annotations

import contextlib
import ctypes
import logging

from .request import Request
from .request_metrics import RequestMetrics

LARGE_BODY_BYTES = 16 << 20
"""Size in bytes of a request body above which freed memory is returned to the operating system."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
access_log = logging.getLogger("quadrill.access")


class RequestObserver:
    """Counts HTTP requests in the metrics and writes them to the access log."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics

    def ended(self, request: Request, route: str, status: int, seconds: float) -> None:
        """Count and log a request whose answer was sent to its last byte.

        Args:
            request: the request.
            route: the label of the request's path in metrics, or ``none``.
            status: the HTTP status of the request's answer.
            seconds: time from the start of the request to the last byte of the answer.
        """
        stream = request.stream
        # The size of a chunked request body is known only after the request, and only to the stream that has
        # received it.
        received = request.fields.body_length if stream is None else stream.received
        if received > LARGE_BODY_BYTES:
            _return_freed_memory()
        self._count(request.method, route, status, seconds, request.client, request.target)

    def refused(self, status: int, client: str, detail: str) -> None:
        """Count and log a message that was rejected because it could not be read as a request."""
        self._count("refused", "none", status, 0.0, client, detail)

    def _count(self, method: str, route: str, status: int, seconds: float, client: str, target: str) -> None:
        self._metrics.request_ended(method if method in _METHODS else "other", route, status, seconds)
        if access_log.handlers:
            access_log.info('%s "%s %s" %d %.1f ms', client, method, target, status, seconds * 1000)


def _return_freed_memory() -> None:
    """Return freed memory to the operating system; glibc keeps small freed blocks in thread arenas."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
