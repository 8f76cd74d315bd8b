"""The pipeline of every request: route, authorise, handler, finish, observe.

    Request -> RouteTable.find -> Security.authorise -> Route.handler
            -> WholeAnswer | StreamedAnswer | Later | Takeover
            -> AnswerFinisher -> Reply, then RequestObserver at the last byte

The server calls `Front.answer` in a worker thread, and `Front.answer_short` in the fast lane. `answer_short`
runs the same handlers, but returns the completion of a `Later` (a change that waits for the log) to its
caller, so that the answers of one round share one wait for the log.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence

from ..http.answers import Later, NeedsWorker, StreamedAnswer, WholeAnswer
from ..http.bodies import too_large
from ..http.callers import PUBLIC
from ..http.observer import RequestObserver
from ..http.problems import problem_answer
from ..http.request import FastLaneThread, Request
from ..server.connection import Connection
from ..server.connection_owner import ConnectionOwner
from ..server.reply import Reply
from ..server.takeover import Takeover
from ..wiring import Services
from .finish import AnswerFinisher
from .route import Result, Route, RouteMatch, RouteTable

log = logging.getLogger("quadrill.server")


class Front:
    """Answers the HTTP requests of a server; safe to use from any thread.

    Attributes:
        pools: names of the separate thread pools that routes use.
    """

    def __init__(self, routes: Collection[Route], services: Services) -> None:
        self.pools: Sequence[str] = sorted({route.pool for route in routes if route.pool})
        self._table = RouteTable(routes, services.settings.public_url)
        self._services = services
        self._security = services.security
        self._starting = services.engine.parts.starting
        self._finish = AnswerFinisher(services.settings, lambda: services.store.reader.version)
        self._observer = RequestObserver(services.metrics)

    # --- methods that the HTTP server calls -----------------------------------------------------------------

    def pool(self, request: Request) -> str:
        """Return the name of the thread pool that processes a request; empty for the default pool."""
        route = self._table.find(request).route
        return "" if route is None else route.pool

    def may_be_short(self, request: Request) -> bool:
        """Return True if the fast lane may answer a request."""
        if request.stream is not None or not request.fields.plain:
            return False
        route = self._table.find(request).route
        return route is not None and route.short

    def answer(self, connection: Connection, request: Request, reply: Reply, home: ConnectionOwner) -> None:
        """Answer an HTTP request in the current thread, a worker.

        Raises:
            AnswerBrokenError: the answer failed after its first bytes; the connection must be cut.
            OSError: the client has disconnected.
        """
        started = time.perf_counter()
        found = self._table.find(request)
        try:
            result = self._result(found, request)
            assert not isinstance(result, NeedsWorker), "only the thread of short answers may get this"
            complete = _completed(result) if isinstance(result, Later) else result
            self._send(complete, connection, request, reply, home)
        finally:
            self._ended(found, request, reply, started)

    def answer_short(
        self,
        connection: Connection,
        request: Request,
        reply: Reply,
        home: ConnectionOwner,
        lane: FastLaneThread,
    ) -> bool | Callable[[], None]:
        """Answer a short request in the thread of the fast lane.

        Returns: False if a worker thread has to process the request; True if the request was answered; else a
            function that waits for the log and sends the answer.

        Raises: AnswerBrokenError or OSError, when the connection must be cut or the client has left.
        """
        started = time.perf_counter()
        if not (self.may_be_short(request) and self._security.knows(request)):
            return False
        found = self._table.find(request)
        request.lane = lane
        result = self._result(found, request)
        request.lane = None
        if isinstance(result, NeedsWorker):
            return False

        def send(complete: WholeAnswer | StreamedAnswer | Takeover) -> None:
            try:
                self._send(complete, connection, request, reply, home)
            finally:
                self._ended(found, request, reply, started)

        if isinstance(result, Later):
            later = result
            return lambda: send(_completed(later))
        send(result)
        return True

    # --- the steps ------------------------------------------------------------------------------------------

    def _result(self, found: RouteMatch, request: Request) -> Result:
        """Authorise a request and run its handler; an error becomes a problem document."""
        try:
            if request.method == "OPTIONS" and found.methods:
                return WholeAnswer(200, {"Allow": ", ".join(sorted(found.methods))})
            route = found.route
            self._authorise(route, found, request)
            if route is None:
                raise found.refusal(request)
            if self._starting.active and not route.while_starting:
                self._starting.require_over()
            return route.handler(self._services, request)
        except Exception as error:
            return problem_answer(error)

    def _authorise(self, route: Route | None, found: RouteMatch, request: Request) -> None:
        """Authorise the sender of a request once, before the server reads a large body."""
        if request.caller is not None or request.method == "OPTIONS":
            return
        request.names = found.names
        needed = found.needed
        if not isinstance(needed, str):
            needed = needed(self._services, request)
        self._security.authorise(needed, request)
        if needed == PUBLIC and route is not None:
            self._limit_public_body(route, request)

    def _limit_public_body(self, route: Route, request: Request) -> None:
        limit = route.public_bytes
        most = int(getattr(self._services.settings, limit)) if isinstance(limit, str) else limit
        if request.fields.body_length > most:
            raise too_large("a request without a token", most, request.fields.body_length)
        request.most_body_bytes = most

    def _send(
        self,
        result: WholeAnswer | StreamedAnswer | Takeover,
        connection: Connection,
        request: Request,
        reply: Reply,
        home: ConnectionOwner,
    ) -> None:
        # Whole answers are recognised first, because isinstance with an abstract class takes a microsecond.
        if not isinstance(result, WholeAnswer) and isinstance(result, Takeover):
            self._finish.complete(request, result.headers)
            refused = result.take_over(request, connection, home)
            if refused is None:
                reply.status = result.status
                return
            result = refused
        if request.stream is not None and not request.stream.finished:
            # The connection ends, because the server would take the unread rest of the body for the next
            # request.
            reply.close = True
        if not isinstance(result, WholeAnswer):
            output = self._finish.output(request, reply)
            whole = result.send(output)
            if whole is None:
                output.end()
                return
            result = whole
        self._finish.send(request, reply, result)

    def _ended(self, found: RouteMatch, request: Request, reply: Reply, started: float) -> None:
        seconds = time.perf_counter() - started
        self._observer.ended(request, found.label, reply.status or 500, seconds)


def _completed(later: Later) -> WholeAnswer:
    try:
        return later.complete()
    except Exception as error:
        return problem_answer(error)
