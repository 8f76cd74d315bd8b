"""The common part of all answers: ETag, Vary, CORS, nosniff, compression and length."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Callable, Mapping
from http import HTTPStatus

from ..config import Settings
from ..http import cors, negotiation
from ..http.answers import WholeAnswer
from ..http.request import Request
from ..server.reply import Reply

COMPRESS_FROM_BYTES = 1024
"""Minimum bytes of an answer's body to be compressed; compression of a smaller body saves too little."""
_LEVEL = 1
_COMPRESSIBLE = ("text/", "application/", "image/svg+xml")
_PACKED = ("application/x-tar",)
_EMPTY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
"""HTTP statuses of answers without a body."""


def packed_well(body: bytes) -> bytes:
    """Compress an answer's body at the highest level, because the result is cached and sent often."""
    return gzip.compress(body, mtime=0)


class AnswerFinisher:
    """Completes HTTP answers with the common headers, compresses their bodies and sends them."""

    def __init__(self, settings: Settings, version: Callable[[], int]) -> None:
        """Make a finisher of answers; ``version`` is a function that returns the version of the store."""
        self._gzip = settings.gzip
        self._cors = cors.CorsPolicy(settings) if settings.cors_origins else None
        self._version = version

    def send(self, request: Request, reply: Reply, answer: WholeAnswer) -> None:
        """Add the common headers to a whole answer, compress its body and send the answer.

        Raises: OSError when the client has disconnected.
        """
        headers, body = answer.headers, answer.body
        if answer.status in _EMPTY:
            headers.pop("Content-Type", None)
            body = None
        elif body is not None:
            if (
                len(body) >= COMPRESS_FROM_BYTES
                and answer.status != HTTPStatus.PARTIAL_CONTENT
                and self._compresses(request, headers)
            ):
                body = gzip.compress(body, _LEVEL, mtime=0)
            headers["Content-Length"] = str(len(body))
        self.complete(request, headers, answer.version)
        reply.send(answer.status, headers, body)

    def complete(self, request: Request, headers: dict[str, str], version: int | None = None) -> None:
        """Add the headers that every HTTP answer has: ETag, nosniff and CORS."""
        if "ETag" not in headers:
            headers["ETag"] = f'"{self._version() if version is None else version}"'
        headers.setdefault("X-Content-Type-Options", "nosniff")
        if self._cors is not None:
            _vary(headers, "Origin")
            fields = request.headers
            preflight = request.method == "OPTIONS" and "Access-Control-Request-Method" in fields
            headers.update(self._cors.headers(fields.get("Origin"), preflight=preflight))

    def output(self, request: Request, reply: Reply) -> StreamOutput:
        """Return the target to which a streamed answer sends its blocks."""
        return StreamOutput(self, request, reply)

    def begin(self, request: Request, reply: Reply, headers: dict[str, str], version: int | None) -> bool:
        """Begin an answer of unknown length; return True if the caller has to compress the blocks."""
        compresses = self._compresses(request, headers)
        self.complete(request, headers, version)
        reply.start(headers)
        return compresses

    def _compresses(self, request: Request, headers: dict[str, str]) -> bool:
        """Return True if an answer's body has to be compressed, and then set its header Content-Encoding."""
        media_type = headers.get("Content-Type", "")
        if not (self._gzip and media_type.startswith(_COMPRESSIBLE)) or media_type.startswith(_PACKED):
            return False
        if "Content-Encoding" in headers:
            return False
        _vary(headers, "Accept-Encoding")
        if not negotiation.accepts_gzip(request.headers.get("Accept-Encoding")):
            return False
        headers["Content-Encoding"] = "gzip"
        return True


class StreamOutput:
    """The target of a streamed answer, which compresses the blocks if the client accepts gzip."""

    def __init__(self, finish: AnswerFinisher, request: Request, reply: Reply) -> None:
        self._finish = finish
        self._request = request
        self._reply = reply
        self._compressor: zlib._Compress | None = None

    def begin(self, headers: Mapping[str, str], version: int | None) -> None:
        """Set status line and headers of the answer, which are sent with the first block."""
        if self._finish.begin(self._request, self._reply, dict(headers), version):
            self._compressor = zlib.compressobj(_LEVEL, wbits=31)

    def write(self, block: bytes) -> None:
        """Compress an answer's block if necessary and send it. Raises: OSError if the client disconnected."""
        packed = block if self._compressor is None else self._compressor.compress(block)
        if packed:
            self._reply.write(packed)

    def end(self) -> None:
        """Send the rest of the compressed answer. Raises: OSError when the client has disconnected."""
        rest = b"" if self._compressor is None else self._compressor.flush()
        if rest:
            self._reply.write(rest)
        self._reply.end()


def _vary(headers: dict[str, str], name: str) -> None:
    """Add a header name to the header ``Vary`` of an answer."""
    known = headers.get("Vary")
    if known is None:
        headers["Vary"] = name
    elif name not in (each.strip() for each in known.split(",")):
        headers["Vary"] = f"{known}, {name}"
