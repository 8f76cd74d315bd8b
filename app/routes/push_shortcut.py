"""The short cut for pushes and heartbeats: from the connection to the engine without a web framework.

    bytes -> wire.parse -> pushes.push_call, security -> Engine.push -> wire.Reply

As the one for queries (shortcut.py) it declines what is not plain, and what is refused before the engine is
asked. From then on nothing is done twice: an error of the engine is answered here, by the same document.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

from quadrill.store.documents.members import NAME
from quadrill.store.errors import QuadrillError
from quadrill.store.pushes.client import waiting_client

from ..http import protocol
from ..http.middleware import RequestObserver
from ..http.recipient import departure_check
from ..http.reply import Reply
from ..http.wire import Fields, WireRequest
from ..wiring import Services
from . import pushes
from .plain_answers import NO_CONTENT, PlainAnswer, PlainAnswers, answer_of

_NOBODY_WAITS = contextlib.nullcontext()
_HEARTBEAT = ":heartbeat"
_MAX_KEPT_TARGET = 512
_ENCODER = json.JSONEncoder(ensure_ascii=False, default=str)


class _Asked(NamedTuple):
    """What an address and a header ask for, and the rule that the address fits."""

    call: pushes.PushCall | pushes.HeartbeatCall
    rule: str


class PushShortcut:
    """Answers plain pushes and heartbeats; safe to use from any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._answers = PlainAnswers(services)
        self._observer = RequestObserver(services.metrics)

    def fits(self, request: WireRequest) -> bool:
        """True for the resources of streams."""
        return request.path.startswith("/streams")

    def take(self, request: WireRequest, reply: Reply, remote: str) -> bool:
        """Answer a push or a heartbeat; False when it has to go the ordinary way.

        Raises:
            OSError: the client is gone.
        """
        started = time.perf_counter()
        wanted = self._wanted(request)
        if wanted is None:
            return False
        (call, rule), body = wanted
        try:
            with _waiting(call):
                answer = answer_of(lambda: self._given(call, body))
            self._answers.send(request, reply, answer)
        finally:
            self._ended(request, rule, reply, started, remote)
        return True

    def take_quickly(
        self, request: WireRequest, reply: Reply, remote: str, aside: Callable[[], None]
    ) -> bool | Callable[[], None]:
        """Accept a push that waits for nothing but the log; what ends the answer waits for that."""
        started = time.perf_counter()
        wanted = self._wanted(request)
        if wanted is None:
            return False
        (call, rule), body = wanted
        if isinstance(call, pushes.HeartbeatCall) or not call.is_quick:
            return False
        engine = self._services.engine
        taken: list[tuple[dict[str, Any], int]] = []

        def accept() -> PlainAnswer:
            with _waiting(call):
                taken.append(call.accept(engine, body))
            return PlainAnswer(NO_CONTENT, {})

        def durable() -> PlainAnswer:
            ((answer, number),) = taken
            engine.wait_durable(number)
            return _answered(answer)

        refusal = answer_of(accept)

        def end() -> None:
            try:
                self._answers.send(request, reply, answer_of(durable) if taken else refusal)
            finally:
                self._ended(request, rule, reply, started, remote)

        return end

    def _wanted(self, request: WireRequest) -> tuple[_Asked, bytes] | None:
        """What a plain request asks for, and its body; None for what is not plain or refused."""
        services = self._services
        if request.method != "POST":
            return None
        read = _kept_asked if len(request.target) <= _MAX_KEPT_TARGET else _asked
        asked = read(request.path, request.query_string, request.fields)
        if asked is None:
            return None
        try:
            services.security.authorise("push", request, None, again=request.counted)
            request.counted = True
            body = request.read(services.settings.max_push_bytes, "a push")
        except QuadrillError:
            return None
        return asked, body

    def _ended(self, request: WireRequest, rule: str, reply: Reply, started: float, remote: str) -> None:
        seconds = time.perf_counter() - started
        self._observer.ended(request.method, rule, reply.status or 500, seconds, remote, request.target)

    def _given(self, call: pushes.PushCall | pushes.HeartbeatCall, body: bytes) -> PlainAnswer:
        engine = self._services.engine
        if isinstance(call, pushes.HeartbeatCall):
            if call.give(engine):
                return PlainAnswer(NO_CONTENT, {})
            return _answered(pushes.NOT_WAITED)
        return _answered(call.give(engine, body))


def _waiting(call: pushes.PushCall | pushes.HeartbeatCall) -> contextlib.AbstractContextManager[None]:
    """Let a push of records, whose mapping may take long, end when its client has left."""
    if isinstance(call, pushes.PushCall) and ("json" in call.content_type or "csv" in call.content_type):
        return waiting_client(departure_check())
    return _NOBODY_WAITS


def _answered(answer: dict[str, Any]) -> PlainAnswer:
    text = _ENCODER.encode(answer) + "\n"
    return PlainAnswer("200 OK", {"Content-Type": "application/json"}, text.encode())


def _asked(path: str, query: bytes, fields: Fields) -> _Asked | None:
    """What an address and a header ask for; None for another resource, and for what is not plain or wrong."""
    heartbeat = path.endswith(_HEARTBEAT)
    stem = path.removesuffix(_HEARTBEAT) if heartbeat else path
    if stem == "/streams":
        name = None
    elif stem.startswith("/streams/") and NAME.match(stem, len("/streams/")):
        name = stem.removeprefix("/streams/")
    else:
        return None
    rule = ("/streams" if name is None else "/streams/<part:name>") + (_HEARTBEAT if heartbeat else "")
    parameters: dict[str, str] = {}
    try:
        for key, value in protocol.fields_of(query) if query else ():
            if key in parameters:
                return None
            parameters[key] = value
        if heartbeat:
            return _Asked(pushes.heartbeat_call(name, parameters), rule)
        call = pushes.push_call(name, parameters, fields.values)
    except QuadrillError:
        return None
    return None if call.ack else _Asked(call, rule)


# A client repeats its header, and where it pushes to.
_kept_asked = lru_cache(maxsize=1024)(_asked)
