"""Adapter from the front to Flask: converts a request into a WSGI environment (PEP 3333)."""

from __future__ import annotations

import io
import sys
from collections.abc import Iterable
from typing import Any
from urllib.parse import unquote

from flask import Flask

from ..http.answers import WholeAnswer
from ..http.request import SERVER_NAME, Request, decoded
from ..wiring import Services

REQUEST = "quadrill.request"
"""Key of the `Request` in the WSGI environment."""
_ALWAYS: dict[str, Any] = {
    "SERVER_NAME": SERVER_NAME,
    "SERVER_PROTOCOL": "HTTP/1.1",
    "wsgi.errors": sys.stderr,
    "wsgi.input_terminated": True,
    "wsgi.multiprocess": False,
    "wsgi.multithread": True,
    "wsgi.run_once": False,
    "wsgi.url_scheme": "http",
    "wsgi.version": (1, 0),
}


class Page:
    """The route handler that passes requests to the Flask application of the web page."""

    def __init__(self, application: Flask) -> None:
        self._application = application

    def __call__(self, services: Services, request: Request) -> WholeAnswer:
        """Run the page's Flask application, and collect the answer in memory because pages are small."""
        answer = WholeAnswer()

        def start_response(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> Any:
            answer.status = int(status[:3])
            answer.headers = dict(headers)
            return body.append

        body: list[bytes] = []
        found: Iterable[bytes] = self._application.wsgi_app(self._environ(request), start_response)
        try:
            body.extend(found)
        finally:
            close = getattr(found, "close", None)
            if close is not None:
                close()
        for name in ("Content-Length", "Date"):  # the HTTP server sets these headers itself
            answer.headers.pop(name, None)
        answer.body = b"".join(body)
        if not answer.body and answer.headers.get("Content-Type", "").startswith("text/html"):
            del answer.headers["Content-Type"]  # an empty body needs no content type, but Flask sets one
        return answer

    def _environ(self, request: Request) -> dict[str, Any]:
        environ: dict[str, Any] = {
            f"HTTP_{name.upper().replace('-', '_')}": value
            for name, value in request.headers.items()
            # Header names with underscores are dropped, because WSGI cannot distinguish them from names with
            # hyphens.
            if "_" not in name and name not in ("Content-Type", "Content-Length")
        }
        return environ | {
            **_ALWAYS,
            "CONTENT_LENGTH": "0",
            "CONTENT_TYPE": request.headers.get("Content-Type", ""),
            "PATH_INFO": decoded(request.path).encode("utf-8").decode("latin-1"),
            "QUERY_STRING": request.query_string.decode("latin-1"),
            # Flask gets a HEAD request as GET, and the server omits the body of the answer.
            "REQUEST_METHOD": "GET" if request.head_only else request.method,
            "REQUEST_URI": request.target,
            "SCRIPT_NAME": unquote(request.prefix).encode("utf-8").decode("latin-1"),
            "REMOTE_ADDR": request.client,
            "SERVER_PORT": str(request.port),
            # Views of the page read the body from the `Request`, which enforces the size limits.
            "wsgi.input": io.BytesIO(),
            REQUEST: request,
        }
