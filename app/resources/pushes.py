"""Parsers of the address and the header of a push or a heartbeat."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from quadrill.continuous.engine import Engine
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.documents.times import instant_ms

from ..http.errors import HttpError
from ..http.fields import Fields
from ..http.parameters import Arguments, arguments_of, check_name
from ..http.request import Request

_PUSH_PARAMETERS = frozenset({"iri", "at", "each", "partial", "wait", "durable", "ack"})
_MESSAGE_PARAMETERS = frozenset({"iri", "at", "each", "partial"})
_HEARTBEAT_PARAMETERS = frozenset({"iri", "at", "wait"})
_MAX_KEPT_TARGET = 512
NOT_WAITED = {"waited": False}
"""The answer to a heartbeat whose results are not in the feeds when its wait ends."""


class HeartbeatCall(NamedTuple):
    """The arguments of a heartbeat, a request that advances the time of a stream without elements."""

    stream: str
    at_ms: int
    wait: bool

    def give(self, engine: Engine) -> bool:
        """Advance the time of the stream; return False if its results are not in the feeds after the wait.

        Raises: the errors of `StreamService.heartbeat`.
        """
        return engine.streams.heartbeat(self.stream, self.at_ms, wait=self.wait)


def push_call(request: Request) -> tuple[PushCall, bool]:
    """Parse the parameters of a push request, and whether the client wants acknowledgements.

    Raises: HttpError 400 for an invalid parameter, 415 without a Content-Type.
    """
    is_kept = request.fields.plain and len(request.target) <= _MAX_KEPT_TARGET
    read = _kept_push_call if is_kept else _push_call
    return read(request.name, request.query_string, request.fields)


def _push_call(name: str | None, query: bytes, fields: Fields) -> tuple[PushCall, bool]:
    arguments, headers = arguments_of(query), fields.values
    arguments.check(_PUSH_PARAMETERS)
    stream = _stream(name, arguments)
    each = _each(arguments)
    content_type = headers.get("Content-Type")
    if not content_type:
        raise HttpError(
            415,
            "the push has no Content-Type",
            code="unsupported-media-type",
            hint="Name the body's type, for instance application/n-quads or application/x-ndjson.",
        )
    call = PushCall(
        stream,
        content_type,
        arguments.get("at"),
        each,
        arguments.flag("partial"),
        arguments.flag("wait"),
        arguments.flag("durable", True),
        headers.get("Idempotency-Key"),
    )
    return call, arguments.flag("ack")


# A client repeats its header and its URL, so the parsed push parameters are cached.
_kept_push_call = lru_cache(maxsize=1024)(_push_call)


def messages_call(request: Request) -> PushCall:
    """Parse the arguments of the pushes on a WebSocket; each message has a separate media type.

    Raises: HttpError 400 for an invalid parameter.
    """
    arguments = request.arguments
    arguments.check(_MESSAGE_PARAMETERS)
    stream, each = _stream(request.name, arguments), _each(arguments)
    return PushCall(stream, "", arguments.get("at"), each, arguments.flag("partial"))


def heartbeat_call(request: Request) -> HeartbeatCall:
    """Parse the parameters of a heartbeat request.

    Raises: HttpError 400 for an invalid parameter, InputError for an invalid time.
    """
    arguments = request.arguments
    arguments.check(_HEARTBEAT_PARAMETERS)
    stream = _stream(request.name, arguments)
    at = arguments.get("at")
    if at is None:
        raise HttpError(
            400,
            "the heartbeat does not say its time: at is missing",
            code="parameter",
            hint="Give at as milliseconds since the epoch or as an xsd:dateTime.",
        )
    return HeartbeatCall(stream, instant_ms(at, "the parameter at"), arguments.flag("wait"))


def _each(arguments: Arguments) -> str | None:
    each = arguments.get("each")
    if each not in (None, "triple"):
        raise HttpError(400, f"the parameter each must be triple, it is {each!r}", code="parameter")
    return each


def _stream(name: str | None, arguments: Arguments) -> str:
    """Return the name or IRI of the stream in the path or in ``?iri=``."""
    if name is None:
        return stream_iri(arguments)
    if arguments.get("iri") is not None:
        raise HttpError(400, "the stream is named twice, in the path and by iri", code="parameter")
    return check_name(name, "the stream name")


def stream_iri(arguments: Arguments) -> str:
    """Return the stream IRI in the parameter ``iri``.

    Raises: HttpError 400 when the parameter is missing.
    """
    iri = arguments.get("iri")
    if not iri:
        raise HttpError(
            400,
            "the request does not say which stream: iri is missing",
            code="parameter",
            hint="Use /streams/{name}, or /streams?iri= with the stream's IRI.",
        )
    return iri
