"""The short cut for updates: from the connection to the store without a web framework.

As those for queries and pushes it declines what is not plain and what is refused before the store is asked;
an update that fails is answered here, since it must not be made twice.
"""

from __future__ import annotations

import time

from quadrill.store.errors import QuadrillError

from ..http import protocol
from ..http.middleware import RequestObserver
from ..http.reply import Reply
from ..http.wire import WireRequest
from ..wiring import Services
from .plain_answers import NO_CONTENT, PlainAnswer, PlainAnswers, answer_of

PATH = "/update"


class UpdateShortcut:
    """Answers plain updates; safe to use from any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._answers = PlainAnswers(services)
        self._observer = RequestObserver(services.metrics)

    def fits(self, request: WireRequest) -> bool:
        """True for the resource of updates, unless the body is large: who asks is looked at first."""
        return request.stream is None and request.path == PATH

    def take(self, request: WireRequest, reply: Reply, remote: str) -> bool:
        """Answer an update; False when it has to go the ordinary way.

        Raises:
            OSError: the client is gone.
        """
        started = time.perf_counter()
        # Who prefers a document gets it the ordinary way.
        if request.method != "POST" or request.headers.get("Prefer"):
            return False
        services = self._services
        try:
            call = protocol.posted(
                (protocol.UPDATE,),
                method="POST",
                content_type=request.headers.get("Content-Type"),
                query_string=request.query_string,
                read=request.read,
                settings=services.settings,
            )
            identity = services.security.authorise("write", request, None)
        except QuadrillError:
            return False
        user = identity.label if identity is not None else ""

        def update() -> PlainAnswer:
            services.engine.require_room()
            commit = services.endpoint.update(call, user)
            return PlainAnswer(NO_CONTENT, {"ETag": f'"{commit.version}"'})

        try:
            self._answers.send(request, reply, answer_of(update))
        finally:
            seconds = time.perf_counter() - started
            self._observer.ended("POST", PATH, reply.status or 500, seconds, remote, request.target)
        return True
