"""Around the application: request figures and the access log, which must see streamed answers end too."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .gateway import BODY
from .request_metrics import RequestMetrics

ROUTE = "quadrill.route"
LARGE_BODY_BYTES = 16 << 20
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "QUERY"})
access_log = logging.getLogger("quadrill.access")


NOSNIFF = ("X-Content-Type-Options", "nosniff")


class RequestObserver:
    """Counts and logs requests that were answered."""

    def __init__(self, metrics: RequestMetrics) -> None:
        self._metrics = metrics

    def ended(self, method: str, route: str, status: int, seconds: float, remote: str, target: str) -> None:
        """A request was answered to its last byte.

        Args:
            method: of the request.
            route: the rule that its path fits, or ``none``.
            status: of the answer.
            seconds: from its first to its last byte.
            remote: the client's address.
            target: path and query as they came.
        """
        self._metrics.request_ended(method if method in _METHODS else "other", route, status, seconds)
        if access_log.handlers:
            access_log.info('%s "%s %s" %d %.1f ms', remote, method, target, status, seconds * 1000)


class Observed:
    """A WSGI application whose answers are observed."""

    def __init__(self, inner: Callable[..., Iterable[bytes]], metrics: RequestMetrics) -> None:
        self._inner = inner
        self._observer = RequestObserver(metrics)

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterator[bytes]:
        """Run the request to its last byte."""
        started = time.perf_counter()
        status = [0]

        def observed_start(line: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            status[0] = int(line[:3])
            return start_response(line, headers, exc_info) if exc_info else start_response(line, headers)

        body: Iterable[bytes] = ()
        try:
            body = self._inner(environ, observed_start)
            yield from body
        except Exception:
            status[0] = status[0] or 500
            raise
        finally:
            close = getattr(body, "close", None)
            if close is not None:
                close()
            # How large a chunked body was is known only now, and only to its reader.
            large = environ.get(BODY)
            received = int(environ.get("CONTENT_LENGTH") or 0) if large is None else large.received
            if received > LARGE_BODY_BYTES:
                _give_back()
            self._observer.ended(
                environ["REQUEST_METHOD"],
                environ.get(ROUTE, "none"),
                status[0],
                time.perf_counter() - started,
                environ.get("REMOTE_ADDR", "-"),
                environ.get("RAW_URI") or environ.get("PATH_INFO", ""),
            )


def _give_back() -> None:
    """Return freed memory to the system: glibc keeps what a thread freed in small blocks, for each thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
