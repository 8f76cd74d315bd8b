"""CORS: the pages of other sites that may call the server, from the setting ``cors_origins``.

The value ``*`` of ``cors_origins`` lets every page read without credentials; pages of a listed origin may
also write.
The Fetch standard defines CORS: https://fetch.spec.whatwg.org/#http-cors-protocol.
"""

from __future__ import annotations

from ..config import Settings

_METHODS = "GET, HEAD, POST, PUT, PATCH, DELETE, QUERY, OPTIONS"
_READING = "GET, HEAD, POST, QUERY, OPTIONS"
_HEADERS = (
    "Accept, Authorization, Content-Encoding, Content-Type, Idempotency-Key, If-Match, If-None-Match, "
    "Last-Event-ID, Prefer"
)
_EXPOSED = "ETag, Location, Retry-After, Content-Encoding, Preference-Applied, Quadrill-Violations"
_MAX_AGE = "3600"


class CorsPolicy:
    """The web origins whose pages may call the server, and the headers for them."""

    def __init__(self, settings: Settings) -> None:
        self._listed = frozenset(settings.cors_origins)

    def headers(self, origin: str | None, *, preflight: bool = False) -> list[tuple[str, str]]:
        """Return the CORS headers of an answer to a page of ``origin``; none if the page may not call."""
        if origin is None or not (origin in self._listed or "*" in self._listed):
            return []
        named = origin in self._listed
        found = [("Access-Control-Allow-Origin", origin if named else "*")]
        if named:
            found.append(("Access-Control-Allow-Credentials", "true"))
        found.append(("Access-Control-Expose-Headers", _EXPOSED))
        if preflight:
            found += [
                ("Access-Control-Allow-Methods", _METHODS if named else _READING),
                ("Access-Control-Allow-Headers", _HEADERS),
                ("Access-Control-Max-Age", _MAX_AGE),
            ]
        return found
