"""Answers of type ``text/event-stream``: handed to the fan-out, or streamed where there is none."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from flask import Response

from ..http.errors import HttpError, problem_response
from ..http.gateway import CONNECTION
from .fanout import Fanout
from .query_feeds import FeedSource
from .sources import EventSource, blocking_stream

EVENT_STREAM = "text/event-stream"
log = logging.getLogger("quadrill.app")


class EventStream(Response):
    """A response that never ends by itself: headers at once, then the frames of a source.

    Under the server the socket goes to the fan-out; under another WSGI server or the test client the
    frames are yielded from the calling thread.
    """

    def __init__(
        self, source: EventSource | FeedSource, fanout: Fanout, *, retry_ms: int, head_only: bool = False
    ) -> None:
        super().__init__(b"", content_type=EVENT_STREAM)
        del self.headers["Content-Length"]
        self.headers["Cache-Control"] = "no-store"
        # Proxies such as nginx would collect events otherwise.
        self.headers["X-Accel-Buffering"] = "no"
        self._source = source
        self._fanout = fanout
        self._head_only = head_only
        self._first = f"retry: {retry_ms}\n\n".encode()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application: hand the connection over, or stream."""
        if self._head_only:
            self._source.close()
            start_response(self.status, list(self.headers))
            return ()
        if self._fanout.full:
            self._source.close()
            busy = HttpError(
                503, f"there are {self._fanout.max_clients} event streams already", code="too-many-streams"
            )
            return problem_response(busy)(environ, start_response)
        connection = environ.get(CONNECTION)
        if connection is None:
            start_response(self.status, list(self.headers))
            return blocking_stream(self._source, head=self._first, heartbeat=self._fanout.heartbeat)
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += ["Connection: close", "", ""]
        head = "\r\n".join(lines).encode("latin-1") + self._first
        # The access log sees a status although nothing goes through the server from here on.
        start_response(self.status, list(self.headers))
        sock = connection.take_socket()
        if isinstance(self._source, FeedSource):
            self._source.hand_over(self._fanout, sock, head)
        else:
            self._fanout.adopt(sock, self._source, head)
        return ()
