"""The short cut for pushes and heartbeats: from the connection to the engine without a web framework.

    bytes -> wire.parse -> pushes.push_call, security -> Engine.push -> wire.Reply

As the one for queries (shortcut.py) it declines what is not plain, and what is refused before the engine is
asked. From then on nothing is done twice: an error of the engine is answered here, by the same document.
"""

from __future__ import annotations

import gzip
import json
import time
from functools import lru_cache
from typing import NamedTuple

from quadrill.store.errors import QuadrillError

from ..http import cors, negotiation, protocol
from ..http.errors import problem_response
from ..http.middleware import NOSNIFF, RequestObserver
from ..http.reply import Reply
from ..http.wire import WireRequest
from ..wiring import Services
from . import pushes
from .requests import NAME

COMPRESS_FROM_BYTES = 1024
_HEARTBEAT = ":heartbeat"
_MAX_KEPT_TARGET = 512
_OK, _NO_CONTENT = "200 OK", "204 NO CONTENT"


class _Target(NamedTuple):
    """What an address says: the stream's name unless the parameters have it, and the rule that it fits."""

    name: str | None
    heartbeat: bool
    rule: str
    parameters: dict[str, str]


class PushShortcut:
    """Answers plain pushes and heartbeats; safe to use from any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._cors = cors.Policy(services.settings)
        self._observer = RequestObserver(services.metrics)

    def fits(self, path: str) -> bool:
        """True for the resources of streams."""
        return path.startswith("/streams")

    def take(self, request: WireRequest, reply: Reply, remote: str) -> bool:
        """Answer a push or a heartbeat; False when it has to go the ordinary way.

        Raises:
            OSError: the client is gone.
        """
        started = time.perf_counter()
        services = self._services
        if request.method != "POST":
            return False
        given = request.target
        target = (_kept_target if len(given) <= _MAX_KEPT_TARGET else _target)(
            request.path, request.query_string
        )
        if target is None:
            return False
        call: pushes.PushCall | pushes.HeartbeatCall
        try:
            body = request.read(services.settings.max_push_bytes, "a push")
            if target.heartbeat:
                call = pushes.heartbeat_call(target.name, target.parameters)
            else:
                call = pushes.push_call(target.name, target.parameters, request.headers)
                if call.ack:
                    return False
            services.security.authorise("push", request, None)
        except QuadrillError:
            return False
        try:
            self._send(request, reply, *self._given(call, body))
        finally:
            seconds = time.perf_counter() - started
            self._observer.ended(request.method, target.rule, reply.status or 500, seconds, remote, given)
        return True

    def _given(
        self, call: pushes.PushCall | pushes.HeartbeatCall, body: bytes
    ) -> tuple[str, dict[str, str], bytes]:
        """Status, headers and body of the answer, whatever becomes of the call: it is not made twice."""
        engine = self._services.engine
        try:
            if isinstance(call, pushes.HeartbeatCall):
                call.give(engine)
                return _NO_CONTENT, {}, b""
            text = json.dumps(call.give(engine, body), ensure_ascii=False, default=str) + "\n"
            return _OK, {"Content-Type": "application/json"}, text.encode()
        except Exception as error:
            refusal = problem_response(error)
            headers = dict(refusal.headers.items())
            del headers["Content-Length"]
            return refusal.status, headers, refusal.get_data()

    def _send(
        self, request: WireRequest, reply: Reply, status: str, headers: dict[str, str], body: bytes
    ) -> None:
        """Send an answer with what all answers carry (application.py)."""
        services = self._services
        vary = []
        if services.settings.gzip and len(body) >= COMPRESS_FROM_BYTES:
            vary.append("Accept-Encoding")
            if negotiation.accepts_gzip(request.headers.get("Accept-Encoding")):
                body = gzip.compress(body, 1, mtime=0)
                headers["Content-Encoding"] = "gzip"
        if self._cors:
            vary.append("Origin")
            headers.update(self._cors.headers(request.headers.get("Origin")))
        if vary:
            headers["Vary"] = ", ".join(vary)
        if status != _NO_CONTENT:
            headers["Content-Length"] = str(len(body))
        headers.setdefault("ETag", f'"{services.store.version}"')
        headers.setdefault(*NOSNIFF)
        reply.start(status, list(headers.items()))
        reply.end((body,))


def _target(path: str, query: bytes) -> _Target | None:
    """The target of an address; None for another resource, and for what is not plain."""
    heartbeat = path.endswith(_HEARTBEAT)
    stem = path.removesuffix(_HEARTBEAT) if heartbeat else path
    if stem == "/streams":
        name = None
    elif stem.startswith("/streams/") and NAME.match(stem, len("/streams/")):
        name = stem.removeprefix("/streams/")
    else:
        return None
    parameters: dict[str, str] = {}
    try:
        for key, value in protocol.fields_of(query) if query else ():
            parameters.setdefault(key, value)
    except QuadrillError:
        return None
    rule = ("/streams" if name is None else "/streams/<part:name>") + (_HEARTBEAT if heartbeat else "")
    return _Target(name, heartbeat, rule, parameters)


_kept_target = lru_cache(maxsize=1024)(_target)
