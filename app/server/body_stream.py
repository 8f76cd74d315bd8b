"""Large request bodies, which are received while the handler of the request reads them."""

from __future__ import annotations

import io
import time
from typing import Any, Protocol

from ..http.errors import HttpError
from .chunked import ChunkedBody
from .refused import RefusedError

SLOWEST_BYTES_PER_SECOND = 64 << 10
"""Minimum rate at which a client that occupies a worker has to send or receive, beyond its time-out."""
_RECEIVED_AT_ONCE = 64 << 10


class BodySource(Protocol):
    """The connection from which a `BodyStream` receives a request body."""

    data: bytes | bytearray

    def receive_more(self, most: int, seconds: float) -> bytes: ...  # noqa: D102

    def invite(self) -> None: ...  # noqa: D102


class BodyStream(io.RawIOBase):
    """The large body of one HTTP request, as a readable stream.

    Attributes:
        received: number of bytes of the body that were read so far; of a chunked body, the number of encoded
            bytes that were received since the stream was made.
        chunks: the decoder of a chunked body; None for any other body.
        lines: True if single lines of the body may be processed as they arrive.
        finished: True after the end of the body; further received bytes belong to the next request.
    """

    def __init__(
        self,
        source: BodySource,
        timeout: float,
        length: int,
        chunks: ChunkedBody | None,
        *,
        lines: bool = False,
        invited: bool = True,
    ) -> None:
        """Make a stream of the body of one request.

        Args:
            source: the connection that receives the body.
            timeout: seconds for the whole body, in addition to its time at the slowest rate.
            length: number of bytes of a body that is not chunked.
            chunks: the decoder of a chunked body, with the bytes received so far.
            lines: True if single lines of the body may be processed as they arrive.
            invited: False if the client waits for ``100 Continue`` before it sends the body; the stream sends
                that line before it first reads.
        """
        super().__init__()
        self._source = source
        self._timeout = timeout
        self._began = time.monotonic()
        self._left = length
        self.chunks = chunks
        self.lines = lines
        self.received = 0
        self.finished = False
        self._failed: HttpError | None = None
        self._invited = invited

    def readable(self) -> bool:
        """Return True, because a request body is always readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read available bytes of the body into ``buffer``; wait for the client within its time limit.

        Raises: HttpError 400 when the body is malformed or ends early, 408 when the client sends too slowly.
        """
        if self.finished:
            return 0
        piece = self._plain(len(buffer)) if self.chunks is None else self._unchunked(self.chunks, len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)

    def _plain(self, most: int) -> bytes:
        most = min(most, self._left)
        data = self._source.data
        if data:
            piece = bytes(data[:most])
            self._source.data = data[most:]
            self.received += len(piece)
        else:
            piece = self._receive(most)
        self._left -= len(piece)
        self.finished = not self._left
        return piece

    def _unchunked(self, chunks: ChunkedBody, most: int) -> bytes:
        while not chunks.decoded and not chunks.ended:
            piece = self._receive(_RECEIVED_AT_ONCE)
            try:
                chunks.feed(piece)
            except RefusedError as error:
                raise HttpError(error.status, error.detail, code="bad-body") from error
        if chunks.decoded:
            return chunks.take(most)
        self._source.data = chunks.rest
        self.finished = True
        return b""

    def _receive(self, most: int) -> bytes:
        if self._failed is not None:
            # A failed read has lost bytes, so the handler must not take the rest for the whole body.
            raise self._failed
        if not self._invited:
            self._invited = True
            self._source.invite()
        allowed = self._timeout + self.received / SLOWEST_BYTES_PER_SECOND
        left = self._began + allowed - time.monotonic()
        try:
            piece = self._source.receive_more(most, min(left, self._timeout))
        except TimeoutError as error:
            raise self._lost(408, "the body of the request came too slowly", "request-timeout") from error
        except OSError as error:
            raise self._lost(400, "the client went away within its request", "bad-body") from error
        if not piece:
            raise self._lost(400, "the body of the request ends early", "bad-body")
        self.received += len(piece)
        return piece

    def _lost(self, status: int, detail: str, code: str) -> HttpError:
        self._failed = HttpError(status, detail, code=code)
        return self._failed
