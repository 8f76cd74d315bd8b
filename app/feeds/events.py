"""Answers that go on, events or lines: handed to the fan-out, or streamed where there is none."""

from __future__ import annotations

import contextlib
import logging
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flask import Response

from ..grants import Grant, current_grant
from ..http.errors import HttpError, problem_response
from ..http.gateway import CONNECTION
from ..http.negotiation import Offer, accepts
from .broadcast import HEARTBEAT_FRAME, PING_FRAME, Greeting
from .fanout import Fanout
from .query_feeds import FeedSource
from .sources import EventSource, Write, blocking_stream, frame, line

EVENT_STREAM = "text/event-stream"
LINES = "application/x-ndjson"
log = logging.getLogger("quadrill.app")


def event_form(accept: str | None, rivals: Sequence[Offer]) -> str | None:
    """`EVENT_STREAM` or `LINES`, where a client names one before what else there is; None otherwise."""
    for form, other in ((EVENT_STREAM, LINES), (LINES, EVENT_STREAM)):
        if accepts(accept, form, (*rivals, Offer("other", other))):
            return form
    return None


def written_as(form: str) -> Write:
    """What writes the events of a stream of this form."""
    return line if form == LINES else frame


class EventStream(Response):
    """A response that never ends by itself: headers at once, then the events of a source.

    Under the server the socket goes to the fan-out; under another WSGI server or the test client the
    frames are yielded from the calling thread. Lines of JSON have no heartbeat: TCP looks for the client.
    """

    def __init__(
        self,
        source: EventSource | FeedSource,
        fanout: Fanout,
        form: str = EVENT_STREAM,
        *,
        retry_ms: int,
        first: bytes = b"",
        head_only: bool = False,
    ) -> None:
        """``form`` is the content type; the source writes its events so, see `written_as`.

        ``first`` stands before the first event of a form that is not `EVENT_STREAM`.
        """
        self._lines = form != EVENT_STREAM
        super().__init__(b"", content_type=form if self._lines else f"{EVENT_STREAM}; charset=utf-8")
        del self.headers["Content-Length"]
        self.headers["Cache-Control"] = "no-store"
        self.headers["Vary"] = "Accept"
        # Proxies such as nginx would collect events otherwise.
        self.headers["X-Accel-Buffering"] = "no"
        self._source = source
        self._fanout = fanout
        self._head_only = head_only
        self._grant = current_grant()
        self._first = first if self._lines else f"retry: {retry_ms}\n".encode()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application: hand the connection over, or stream."""
        if self._head_only:
            self._source.close()
            start_response(self.status, list(self.headers))
            return ()
        if self._fanout.full:
            self._source.close()
            return problem_response(_too_many(self._fanout))(environ, start_response)
        connection = environ.get(CONNECTION)
        heartbeat = b"" if self._lines else HEARTBEAT_FRAME
        if connection is None:
            start_response(self.status, list(self.headers))
            greeting = Greeting(b"", self._first, heartbeat, permitted=_permitted(self._grant))
            return blocking_stream(self._source, greeting, self._fanout.heartbeat)
        chunked = environ.get("SERVER_PROTOCOL") != "HTTP/1.0"
        lines = [f"HTTP/1.1 {self.status}"]
        lines += [f"{name}: {value}" for name, value in self.headers]
        lines += ["Transfer-Encoding: chunked"] if chunked else []
        lines += ["Connection: close", "", ""]
        head = "\r\n".join(lines).encode("latin-1")
        greeting = Greeting(head, self._first, heartbeat, chunked, permitted=_permitted(self._grant))
        # The access log sees a status although nothing goes through the server from here on.
        start_response(self.status, list(self.headers))
        sock = connection.take_socket()
        if self._lines:
            look_for_client(sock, self._fanout.heartbeat)
        if isinstance(self._source, FeedSource):
            self._source.hand_over(self._fanout, sock, greeting)
        else:
            self._fanout.adopt(sock, self._source, greeting)
        return ()


class MessageStream(Response):
    """A WebSocket that gets the events of a feed, each as a message."""

    def __init__(self, source: FeedSource, fanout: Fanout, handshake: bytes) -> None:
        """``source`` encodes its events as messages; ``handshake`` opens the WebSocket."""
        super().__init__(b"", status=101)
        self._source = source
        self._fanout = fanout
        self._handshake = handshake
        self._grant = current_grant()

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application: hand the connection over."""
        if self._fanout.full:
            return problem_response(_too_many(self._fanout))(environ, start_response)
        start_response(self.status, list(self.headers))
        permitted = _permitted(self._grant)
        greeting = Greeting(self._handshake, heartbeat=PING_FRAME, messages=True, permitted=permitted)
        self._source.hand_over(self._fanout, environ[CONNECTION].take_socket(), greeting)
        return ()


def _permitted(grant: Grant | None) -> Callable[[], bool] | None:
    return None if grant is None else grant.holds


def _too_many(fanout: Fanout) -> HttpError:
    return HttpError(503, f"there are {fanout.max_clients} event streams already", code="too-many-streams")


def look_for_client(sock: socket.socket, seconds: float) -> None:
    """Let TCP ask after so many silent seconds whether the client is there; the dead are disconnected."""
    with contextlib.suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, max(1, int(seconds)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, int(seconds)))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
