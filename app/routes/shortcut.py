"""The short cut for queries: from the connection to the evaluation without a web framework.

    bytes -> wire.parse -> security, protocol.posted -> SparqlEndpoint.answer -> wire.Reply

Each step but the first and the last is the one that Flask's views take as well (sparql.py); here is only
what Flask does around them. What is not a plain query over a plain connection is declined: nothing has been
sent or changed then, and the same bytes go the ordinary way, which also tells every error of a request.
docs/decisions/0050-server.md has the reasons and the figures.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from functools import lru_cache

from quadrill.store.errors import QuadrillError

from ..evaluation.answer import OK, Client, client_of
from ..http import cors, protocol
from ..http.middleware import NOSNIFF, RequestObserver
from ..http.reply import Reply
from ..http.turn import Turn
from ..http.wire import Fields, WireRequest
from ..wiring import Services

log = logging.getLogger("quadrill.server")
PATHS = {"/query": (protocol.QUERY,), "/sparql": (protocol.QUERY, protocol.UPDATE)}
"""The resources that take queries, and what may be posted to them directly."""


class QueryShortcut:
    """Answers plain queries; safe to use from any thread."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._cors = cors.Policy(services.settings)
        self._observer = RequestObserver(services.metrics)
        # A client repeats its headers: what they say of the answer is worked out once.
        self._client = lru_cache(maxsize=1024)(self._client_of)
        self._turn = Turn()

    def fits(self, request: WireRequest) -> bool:
        """True for the resources that take queries, unless the body is large: who asks is looked at first."""
        return request.stream is None and request.path in PATHS

    def take(self, request: WireRequest, reply: Reply, remote: str) -> bool:
        """Answer a request to a resource that `fits`; False when it has to go the ordinary way.

        Raises:
            AnswerBrokenError: the answer ended early; the connection must be cut.
            OSError: the client is gone.
        """
        return self._answered(request, reply, remote, None)

    def take_quickly(
        self, request: WireRequest, reply: Reply, remote: str, aside: Callable[[], None]
    ) -> bool:
        """Answer a request to a resource that `fits` if it is short; see `server.Shortcut`."""
        return self._answered(request, reply, remote, aside)

    def _answered(
        self, request: WireRequest, reply: Reply, remote: str, aside: Callable[[], None] | None
    ) -> bool:
        """Answer; False when it goes the ordinary way, or with ``aside`` is not short."""
        started = time.perf_counter()
        services = self._services
        try:
            call = self._call(request)
            if call is None:
                return False
            identity = services.security.authorise("read", request, None, again=request.counted)
            request.counted = True
            user = identity.label if identity is not None else ""
            client = self._client(request.fields)
            found = services.endpoint.looked_up(call, client)
            if found is None:
                asked = services.endpoint.asked(call)
                if asked.heavy and aside is not None:
                    return False
        except QuadrillError:
            return False
        try:
            if found is not None:
                reply.start(OK, found.headers)
                reply.end((found.body,))
            elif asked.heavy:
                reply.end(services.endpoint.answer(asked, client, user).send(reply.start))
            else:
                with self._turn.take(aside) as turn:
                    answer = services.endpoint.answer(asked, client, user)
                    answer.turn = turn
                    reply.end(answer.send(reply.start))
        finally:
            seconds = time.perf_counter() - started
            self._observer.ended(
                request.method, request.path, reply.status or 500, seconds, remote, request.target
            )
        return True

    def _call(self, request: WireRequest) -> protocol.SparqlCall | None:
        """The query that is asked; None for what is no query, or asked by another method."""
        if request.method not in ("GET", "POST"):
            return None
        if request.method == "GET":
            call = protocol.SparqlCall(protocol.fields_of(request.query_string))
            return call if call.values("query") and not request.fields.body_length else None
        call = protocol.posted(
            PATHS[request.path],
            method="POST",
            content_type=request.headers.get("Content-Type"),
            query_string=request.query_string,
            read=request.read,
            settings=self._services.settings,
        )
        return None if request.path == "/sparql" and call.is_update else call

    def _client_of(self, fields: Fields) -> Client:
        headers = fields.values
        client = client_of(self._services.settings, headers.get("Accept"), headers.get("Accept-Encoding"))
        carried = dict([*client.headers.items(), NOSNIFF])
        if self._cors:
            carried["Vary"] += ", Origin"
            carried.update(self._cors.headers(headers.get("Origin")))
        return client._replace(headers=carried)
