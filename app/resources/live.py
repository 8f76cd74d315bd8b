"""Long-lived pushes: the lines of a chunked body, and the messages of a WebSocket."""

from __future__ import annotations

from http import HTTPStatus

from quadrill.continuous.streams.push_call import PushCall

from ..http import negotiation, websocket
from ..http.request import Request
from ..ingest.lines import LinePush, LineReply
from ..ingest.live_push import NDJSON, PushLimits
from ..ingest.messages import MessagePush
from ..ingest.takeover import LongPush
from ..server.body_stream import BodyStream
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from ..server.reply import head_of
from ..wiring import Services
from .pushes import messages_call, push_call


def lines(services: Services, request: Request, body: BodyStream) -> LongPush:
    """Return the push of a chunked body, whose lines are processed, and on request acknowledged, on arrival.

    Raises: HttpError 400 for an invalid parameter, 415 without a Content-Type.
    """
    call, acknowledges = push_call(request)
    chunks = body.chunks
    assert chunks is not None, "only a chunked body has lines that are processed as they arrive"
    first_choice = (request.accept or "").split(",")[0]
    acknowledges |= bool(first_choice) and negotiation.content_media_type(first_choice).essence == NDJSON
    durable = call.durable and not services.settings.in_memory
    batch = PushCall(call.stream, NDJSON, call.at, call.each, call.partial, durable=durable)
    limits = _limits(services, request)

    def make(connection: Connection, home: ConnectionOwner, headers: dict[str, str]) -> LinePush:
        reply = LineReply(headers, acknowledges, not request.fields.close)
        return LinePush(connection, home, services.engine.streams, batch, limits, chunks, reply)

    return LongPush(services.pushes, make, 200)


def messages(services: Services, request: Request) -> LongPush:
    """Return a WebSocket whose messages are pushes to the stream in the path or in ``?iri=``.

    Raises: HttpError 400 for an invalid handshake or parameter, 426 for another version of the protocol.
    """
    call = messages_call(request)
    opening = websocket.handshake(
        request.headers, method=request.method, body_length=request.fields.body_length
    )
    head = head_of(HTTPStatus.SWITCHING_PROTOCOLS, opening)
    limits = _limits(services, request)

    def make(connection: Connection, home: ConnectionOwner, _headers: dict[str, str]) -> MessagePush:
        return MessagePush(connection, home, services.engine.streams, call, limits, head)

    return LongPush(services.pushes, make, 101)


def _limits(services: Services, request: Request) -> PushLimits:
    settings = services.settings
    times = settings.push_idle_timeout, settings.sse_heartbeat
    return PushLimits(settings.max_message_bytes, *times, services.security.grant(request))
