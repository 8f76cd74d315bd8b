"""Endless answers (Server-Sent Events, lines of JSON, WebSocket messages), sent by the fan-out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from ..http.answers import WholeAnswer
from ..http.errors import HttpError
from ..http.negotiation import Offer, accepts
from ..http.problems import problem_answer
from ..http.request import Request
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from ..server.reply import head_of
from ..server.takeover import Takeover
from .broadcast import EMPTY_LINE, HEARTBEAT_FRAME, PING_FRAME, Greeting, as_chunk
from .fanout import Fanout
from .query_feeds import FeedSource
from .sources import EventSource, Write, frame, line

EVENT_STREAM = "text/event-stream"
LINES = "application/x-ndjson"


def event_form(accept: str | None, rivals: Sequence[Offer]) -> str | None:
    """Return `EVENT_STREAM` or `LINES`, if Accept ranks this type no lower than the types ``rivals``."""
    for form, other in ((EVENT_STREAM, LINES), (LINES, EVENT_STREAM)):
        if accepts(accept, form, (*rivals, Offer("other", other))):
            return form
    return None


def written_as(form: str) -> Write:
    """Return the function that encodes events in a content type: lines of JSON or Server-Sent Events."""
    return line if form == LINES else frame


class EventStream(Takeover):
    """An HTTP answer without an end: the head immediately, then the events of a source as they occur.

    The fan-out takes over the socket of an event stream. Its heartbeats are comments in Server-Sent Events,
    and empty lines in all other forms: proxies disconnect a silent server, and an empty line means nothing in
    JSON lines, CSV and RDF Messages.
    """

    def __init__(
        self,
        source: EventSource | FeedSource,
        fanout: Fanout,
        form: str = EVENT_STREAM,
        *,
        retry_ms: int,
        permitted: Callable[[], bool],
        first: bytes = b"",
    ) -> None:
        """Create an event stream as the answer to a request.

        Args:
            source: the source of the stream's events, for instance a subscription to a query's feed.
            fanout: the fan-out that takes over the client's socket.
            form: the content type in which the source encodes its events.
            retry_ms: milliseconds before a client of `EVENT_STREAM` reconnects.
            permitted: returns False when the client may no longer read; called periodically.
            first: bytes before the first event of a form other than `EVENT_STREAM`.
        """
        self._lines = form != EVENT_STREAM
        headers = {
            "Content-Type": form if self._lines else f"{EVENT_STREAM}; charset=utf-8",
            "Cache-Control": "no-store",
            "Vary": "Accept",
            # Without the header X-Accel-Buffering, proxies such as nginx buffer events.
            "X-Accel-Buffering": "no",
        }
        super().__init__(HTTPStatus.OK, headers)
        self._source = source
        self._fanout = fanout
        self._permitted = permitted
        self._first = first
        self._retry = b"" if self._lines else f"retry: {retry_ms}\n".encode()

    def take_over(
        self, request: Request, connection: Connection, home: ConnectionOwner
    ) -> WholeAnswer | None:
        """Hand the client's socket to the fan-out; a HEAD request gets only the head of the answer."""
        if request.head_only or self._fanout.full:
            if not isinstance(self._source, FeedSource):
                self._source.close()
            return (
                WholeAnswer(self.status, self.headers, None) if request.head_only else _too_many(self._fanout)
            )
        chunked = request.fields.minor_version > 0
        ending = "Transfer-Encoding: chunked\r\n" if chunked else ""
        ending += "Connection: close\r\n"
        head = head_of(self.status, self.headers, ending)
        if self._first:
            # No heartbeat may come before the columns of CSV and the version of RDF Messages.
            head += as_chunk(self._first) if chunked else self._first
        heartbeat = EMPTY_LINE if self._lines else HEARTBEAT_FRAME
        greeting = Greeting(head, self._retry, heartbeat, chunked, permitted=self._permitted)
        sock = connection.take_socket()
        if isinstance(self._source, FeedSource):
            self._source.hand_over(self._fanout, sock, greeting)
        else:
            self._fanout.adopt(sock, self._source, greeting)
        return None


class MessageStream(Takeover):
    """A WebSocket that receives each event of a feed as one message."""

    def __init__(
        self, source: FeedSource, fanout: Fanout, handshake: bytes, permitted: Callable[[], bool]
    ) -> None:
        """Create a WebSocket; ``source`` encodes events as messages, ``handshake`` is the 101 response."""
        super().__init__(HTTPStatus.SWITCHING_PROTOCOLS, {})
        self._source = source
        self._fanout = fanout
        self._handshake = handshake
        self._permitted = permitted

    def take_over(
        self, request: Request, connection: Connection, home: ConnectionOwner
    ) -> WholeAnswer | None:
        """Hand the socket of the WebSocket to the fan-out."""
        if self._fanout.full:
            return _too_many(self._fanout)
        greeting = Greeting(self._handshake, heartbeat=PING_FRAME, messages=True, permitted=self._permitted)
        self._source.hand_over(self._fanout, connection.take_socket(), greeting)
        return None


def _too_many(fanout: Fanout) -> WholeAnswer:
    detail = f"there are {fanout.max_clients} event streams already"
    return problem_answer(HttpError(503, detail, code="too-many-streams"))
