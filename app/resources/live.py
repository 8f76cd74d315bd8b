"""Pushes that last: the lines of a chunked body, and the messages of a WebSocket."""

from __future__ import annotations

from ..http import negotiation, websocket
from ..http.request import Request
from ..ingest.lines import LinePush
from ..ingest.live_push import NDJSON, Limits, Wanted
from ..ingest.messages import MessagePush
from ..ingest.takeover import LongPush
from ..server.body_stream import BodyStream
from ..server.connection import Connection
from ..server.home import Home
from ..wiring import Services
from .pushes import PushCall, messages_wanted


def lines(services: Services, request: Request, call: PushCall, body: BodyStream) -> LongPush:
    """The push of a chunked body, whose lines are processed as they arrive, and acknowledged if asked."""
    chunks = body.chunks
    assert chunks is not None, "only a chunked body has lines that are processed as they arrive"
    first_choice = (request.accept or "").split(",")[0]
    acknowledges = (
        call.ack or bool(first_choice) and (negotiation.content_media_type(first_choice).essence == NDJSON)
    )
    limits = _limits(services, request)

    def make(connection: Connection, home: Home, headers: dict[str, str]) -> LinePush:
        return LinePush(
            connection,
            home,
            services.engine,
            Wanted(call.stream, call.at, call.each, call.partial),
            limits,
            chunks,
            headers,
            acknowledges=acknowledges,
            durable=call.durable and not services.settings.in_memory,
            keeps=not request.fields.close,
        )

    return LongPush(services.pushes, make, 200)


def messages(services: Services, request: Request) -> LongPush:
    """A WebSocket whose messages are pushes to a stream, named by the path or by ``?iri=``.

    Raises: HttpError 400 for what is no handshake, or a wrong parameter.
    """
    wanted = messages_wanted(request)
    head = websocket.handshake(request.headers, method=request.method, body_length=request.fields.body_length)
    limits = _limits(services, request)

    def make(connection: Connection, home: Home, _headers: dict[str, str]) -> MessagePush:
        return MessagePush(connection, home, services.engine, wanted, limits, head)

    return LongPush(services.pushes, make, 101)


def _limits(services: Services, request: Request) -> Limits:
    settings = services.settings
    times = settings.push_idle_timeout, settings.sse_heartbeat
    return Limits(settings.max_message_bytes, *times, services.security.grant(request))
