"""Answers that take their connection away from the worker: it goes to the thread of long-lived pushes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Response

from ..http.connection import Connection
from ..http.errors import problem_response
from ..http.gateway import CONNECTION, HOME
from .live_push import EndingError, Home, LivePush
from .loop import PushLoop

Make = Callable[[Connection, Home, dict[str, str]], LivePush]
"""Makes the push of a connection; gets the headers that every answer carries, too."""


class TakenOver(Response):
    """A response that is written by a long-lived push, from its first byte."""

    def __init__(self, loop: PushLoop, make: Make, status: int) -> None:
        super().__init__(b"", status=status)
        self.headers.clear()
        self._loop = loop
        self._make = make

    def __call__(self, environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """The WSGI application: hand the connection over."""
        connection: Connection = environ[CONNECTION]
        request = connection.request
        assert request is not None
        headers = {name: value for name, value in self.headers.items() if name.lower() != "content-length"}
        push = self._make(connection, environ[HOME], headers)
        start_response(self.status, list(self.headers))
        request.lent = True
        if not self._loop.adopt(push):
            request.lent = False
            return problem_response(EndingError())(environ, start_response)
        return ()
