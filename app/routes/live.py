"""Pushes that last: the lines of a chunked body, and the messages of a WebSocket."""

from __future__ import annotations

from flask import request

from ..grants import current_grant
from ..http import negotiation, websocket
from ..http.chunked import ChunkedBody
from ..http.connection import Connection
from ..ingest.lines import LinePush
from ..ingest.live_push import NDJSON, Home, Limits, Wanted
from ..ingest.messages import MessagePush
from ..ingest.takeover import TakenOver
from ..wiring import Services
from .pushes import PushCall, messages_wanted


def lines(services: Services, call: PushCall, chunks: ChunkedBody) -> TakenOver:
    """The push of a chunked body, whose lines are taken as they come and acknowledged where it is asked."""
    first_choice = request.headers.get("Accept", "").split(",")[0]
    acknowledges = (
        call.ack or bool(first_choice) and (negotiation.content_media_type(first_choice).essence == NDJSON)
    )

    def make(connection: Connection, home: Home, headers: dict[str, str]) -> LinePush:
        assert connection.request is not None
        return LinePush(
            connection,
            home,
            services.engine,
            Wanted(call.stream, call.at, call.each, call.partial),
            _limits(services),
            chunks,
            headers,
            acknowledges=acknowledges,
            durable=call.durable and not services.settings.in_memory,
            keeps=not connection.request.fields.close,
        )

    return TakenOver(services.pushes, make, 200)


def messages(services: Services, name: str | None) -> TakenOver:
    """A WebSocket whose messages are pushes to the stream of a name, or of the parameter ``iri``.

    Raises: HttpError 400 for what is no handshake, or a wrong parameter.
    """
    wanted = messages_wanted(name, request.args)
    length = request.content_length or 0
    head = websocket.handshake(request.headers, method=request.method, body_length=length)

    def make(connection: Connection, home: Home, _headers: dict[str, str]) -> MessagePush:
        return MessagePush(connection, home, services.engine, wanted, _limits(services), head)

    return TakenOver(services.pushes, make, 101)


def _limits(services: Services) -> Limits:
    settings = services.settings
    times = settings.push_idle_timeout, settings.sse_heartbeat
    return Limits(settings.max_message_bytes, *times, current_grant())
