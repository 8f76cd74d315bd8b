"""Pages of other sites that may call the server: the setting ``cors_origins``.

``*`` lets every page read without credentials; an origin that is listed may also write.
Source: the Fetch standard, https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

from flask import Flask, Response, request

from .config import Settings

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, QUERY, OPTIONS"
_READING = "GET, HEAD, POST, QUERY, OPTIONS"
_HEADERS = "Accept, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID"
_EXPOSED = "ETag, Location, Retry-After, Content-Encoding"
_MAX_AGE = "3600"


def install(app: Flask, settings: Settings) -> None:
    """Add the headers to answers for allowed origins; answer preflight requests."""
    listed = frozenset(settings.cors_origins)
    if not listed:
        return

    @app.after_request
    def _allow(response: Response) -> Response:
        origin = request.headers.get("Origin")
        response.vary.add("Origin")
        if origin is None or not (origin in listed or "*" in listed):
            return response
        named = origin in listed
        response.headers["Access-Control-Allow-Origin"] = origin if named else "*"
        if named:
            response.headers["Access-Control-Allow-Credentials"] = "true"
        response.headers["Access-Control-Expose-Headers"] = _EXPOSED
        if request.method == "OPTIONS" and "Access-Control-Request-Method" in request.headers:
            response.headers["Access-Control-Allow-Methods"] = _METHODS if named else _READING
            response.headers["Access-Control-Allow-Headers"] = _HEADERS
            response.headers["Access-Control-Max-Age"] = _MAX_AGE
        return response
