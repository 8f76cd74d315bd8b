"""Answers of the short cuts for what changes something: in one piece, with what all answers carry."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from typing import NamedTuple

from ..http import cors, negotiation
from ..http.errors import problem_response
from ..http.middleware import NOSNIFF
from ..http.reply import Reply
from ..http.wire import WireRequest
from ..wiring import Services

COMPRESS_FROM_BYTES = 1024
NO_CONTENT = "204 NO CONTENT"


class PlainAnswer(NamedTuple):
    """The status line, the headers and the body of an answer."""

    status: str
    headers: dict[str, str]
    body: bytes = b""


def answer_of(work: Callable[[], PlainAnswer]) -> PlainAnswer:
    """What some work answers, or the problem of its error: it must not be done once more the ordinary way."""
    try:
        return work()
    except Exception as error:
        refusal = problem_response(error)
        headers = dict(refusal.headers.items())
        del headers["Content-Length"]
        return PlainAnswer(refusal.status, headers, refusal.get_data())


class PlainAnswers:
    """Sends such answers as the application does (application.py)."""

    def __init__(self, services: Services) -> None:
        self._store = services.store
        self._gzip = services.settings.gzip
        self._cors = cors.Policy(services.settings)

    def send(self, request: WireRequest, reply: Reply, answer: PlainAnswer) -> None:
        """Send an answer.

        Raises:
            OSError: the client is gone.
        """
        status, headers, body = answer
        vary = []
        if self._gzip and len(body) >= COMPRESS_FROM_BYTES:
            vary.append("Accept-Encoding")
            if negotiation.accepts_gzip(request.headers.get("Accept-Encoding")):
                body = gzip.compress(body, 1, mtime=0)
                headers["Content-Encoding"] = "gzip"
        if self._cors:
            vary.append("Origin")
            headers.update(self._cors.headers(request.headers.get("Origin")))
        if vary:
            headers["Vary"] = ", ".join(vary)
        if status != NO_CONTENT:
            headers["Content-Length"] = str(len(body))
        headers.setdefault("ETag", f'"{self._store.version}"')
        headers.setdefault(*NOSNIFF)
        reply.start(status, list(headers.items()))
        reply.end((body,))
