"""What a push and a heartbeat ask for, whoever has read the request: a view (streams.py) or the short cut."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from quadrill.continuous.engine import Engine
from quadrill.store.documents.times import instant_ms

from ..http.errors import HttpError
from ..http.wire import HeaderFields
from ..ingest.live_push import Wanted
from .requests import flag_of, known_parameters

_PUSH_PARAMETERS = frozenset({"iri", "at", "each", "partial", "wait", "durable", "ack"})
_MESSAGE_PARAMETERS = frozenset({"iri", "at", "each", "partial"})
_HEARTBEAT_PARAMETERS = frozenset({"iri", "at", "wait"})
NOT_WAITED = {"waited": False}
"""The answer to a heartbeat whose results are not in the feeds when its wait ends."""


class PushCall(NamedTuple):
    """A push but for its body; see `StreamService.push`."""

    stream: str
    content_type: str
    at: str | None
    each: str | None
    partial: bool
    wait: bool
    durable: bool
    key: str | None
    ack: bool

    def give(self, engine: Engine, body: bytes) -> dict[str, Any]:
        """Push a body; the JSON answer.

        Raises: as `StreamService.push`.
        """
        return engine.push(
            self.stream,
            body,
            self.content_type,
            at=self.at,
            each=self.each,
            partial=self.partial,
            wait=self.wait,
            durable=self.durable,
            idempotency_key=self.key,
        )

    @property
    def is_quick(self) -> bool:
        """True for a push that waits for nothing but the input log."""
        return self.durable and not self.wait and self.key is None

    def accept(self, engine: Engine, body: bytes) -> tuple[dict[str, Any], int]:
        """Give a quick one to the engine; the JSON answer, and what `Engine.wait_durable` has to wait for.

        Raises: as `StreamService.take`.
        """
        answer, _turn, number = engine.take(
            self.stream, body, self.content_type, at=self.at, each=self.each, partial=self.partial
        )
        return answer, number


class HeartbeatCall(NamedTuple):
    """A heartbeat; see `StreamService.heartbeat`."""

    stream: str
    at_ms: int
    wait: bool

    def give(self, engine: Engine) -> bool:
        """Move the stream's time; False if its results are not in the feeds when the wait ends.

        Raises: as `StreamService.heartbeat`.
        """
        return engine.heartbeat(self.stream, self.at_ms, wait=self.wait)


def push_call(name: str | None, parameters: Mapping[str, str], headers: HeaderFields) -> PushCall:
    """The push that a request asks for.

    Args:
        name: of the stream, where the path has it.
        parameters: of the address, the first value of each.
        headers: of the request.

    Raises: HttpError 400 for a parameter that is wrong, 415 without a Content-Type.
    """
    known_parameters(_PUSH_PARAMETERS, parameters)
    stream = _stream(name, parameters)
    each = _each(parameters)
    content_type = headers.get("Content-Type")
    if not content_type:
        raise HttpError(
            415,
            "the push has no Content-Type",
            code="unsupported-media-type",
            hint="Name the body's type, for instance application/n-quads or application/x-ndjson.",
        )
    return PushCall(
        stream,
        content_type,
        parameters.get("at"),
        each,
        flag_of(parameters, "partial"),
        flag_of(parameters, "wait"),
        flag_of(parameters, "durable", True),
        headers.get("Idempotency-Key"),
        flag_of(parameters, "ack"),
    )


def messages_wanted(name: str | None, parameters: Mapping[str, str]) -> Wanted:
    """What a WebSocket of pushes asks for; arguments as for `push_call`.

    Raises: HttpError 400.
    """
    known_parameters(_MESSAGE_PARAMETERS, parameters)
    return Wanted(
        _stream(name, parameters), parameters.get("at"), _each(parameters), flag_of(parameters, "partial")
    )


def heartbeat_call(name: str | None, parameters: Mapping[str, str]) -> HeartbeatCall:
    """The heartbeat that a request asks for; arguments as for `push_call`.

    Raises: HttpError 400, InputError for a time that is none.
    """
    known_parameters(_HEARTBEAT_PARAMETERS, parameters)
    stream = _stream(name, parameters)
    at = parameters.get("at")
    if at is None:
        raise HttpError(
            400,
            "the heartbeat does not say its time: at is missing",
            code="parameter",
            hint="Give at as milliseconds since the epoch or as an xsd:dateTime.",
        )
    return HeartbeatCall(stream, instant_ms(at, "the parameter at"), flag_of(parameters, "wait"))


def _each(parameters: Mapping[str, str]) -> str | None:
    each = parameters.get("each")
    if each not in (None, "triple"):
        raise HttpError(400, f"the parameter each must be triple, it is {each!r}", code="parameter")
    return each


def _stream(name: str | None, parameters: Mapping[str, str]) -> str:
    iri = parameters.get("iri")
    if name is None:
        return stream_iri(parameters)
    if iri is not None:
        raise HttpError(400, "the stream is named twice, in the path and by iri", code="parameter")
    return name


def stream_iri(parameters: Mapping[str, str]) -> str:
    """The parameter ``iri``.

    Raises: HttpError 400 without one.
    """
    iri = parameters.get("iri")
    if not iri:
        raise HttpError(
            400,
            "the request does not say which stream: iri is missing",
            code="parameter",
            hint="Use /streams/{name}, or /streams?iri= with the stream's IRI.",
        )
    return iri
