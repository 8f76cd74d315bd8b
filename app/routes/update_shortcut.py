"""The short cut for updates: from the connection to the store without a web framework.

As those for queries and pushes it declines what is not plain and what is refused before the store is asked;
an update that fails is answered here, since it must not be made twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from quadrill.store.changes.commit import Commit
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
        wanted = self._wanted(request)
        if wanted is None:
            return False
        call, user = wanted

        def update() -> PlainAnswer:
            self._services.engine.require_room()
            return _answered(self._services.endpoint.update(call, user))

        self._end(request, reply, remote, started, update)
        return True

    def take_quickly(
        self, request: WireRequest, reply: Reply, remote: str, aside: Callable[[], None]
    ) -> bool | Callable[[], None]:
        """Put a short update in line; what ends the answer commits all that are there."""
        started = time.perf_counter()
        wanted = self._wanted(request)
        if wanted is None or not self._services.endpoint.is_short_update(wanted[0]):
            return False
        call, user = wanted
        in_line: list[Callable[[], Commit]] = []

        def begin() -> PlainAnswer:
            self._services.engine.require_room()
            in_line.append(self._services.endpoint.update_in_line(call, user, aside))
            return PlainAnswer(NO_CONTENT, {})

        refusal = answer_of(begin)
        work = (lambda: _answered(in_line[0]())) if in_line else (lambda: refusal)
        return partial(self._end, request, reply, remote, started, work)

    def _wanted(self, request: WireRequest) -> tuple[protocol.SparqlCall, str] | None:
        """The update that is asked for, and who asks; None for what is not plain or refused."""
        # Who prefers a document gets it the ordinary way.
        if request.method != "POST" or request.headers.get("Prefer"):
            return None
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
            identity = services.security.authorise("write", request, None, again=request.counted)
            request.counted = True
        except QuadrillError:
            return None
        return call, identity.label if identity is not None else ""

    def _end(
        self, request: WireRequest, reply: Reply, remote: str, started: float, work: Callable[[], PlainAnswer]
    ) -> None:
        try:
            self._answers.send(request, reply, answer_of(work))
        finally:
            seconds = time.perf_counter() - started
            self._observer.ended("POST", PATH, reply.status or 500, seconds, remote, request.target)


def _answered(commit: Commit) -> PlainAnswer:
    return PlainAnswer(NO_CONTENT, {"ETag": f'"{commit.version}"'})
