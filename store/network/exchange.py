"""Outbound HTTP exchanges that a hostile peer cannot prolong or inflate.

Every read and write of a connection ends at the deadline of the whole exchange, however the bytes are spread
over time, and when the caller is to stop. Bodies are unpacked here, within a limit of bytes: httpx would
unpack each received block as a whole.
"""

from __future__ import annotations

import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import httpcore
import httpx

from .unpacking import Unpacker

_LOOK_S = 0.25
"""Seconds of silence between two checks whether the caller is to stop."""
_SHORTEST_S = 0.001
_PIECE = 4 << 10
"""Bytes that are unpacked or sent at once: packed ones may stand for a thousand times as many."""


class EndedError(Exception):
    """The caller was told to stop within an exchange."""


class UnpackError(ValueError):
    """A body is not packed as its header says, or by an encoding that was not asked for."""


class BodyTooLongError(ValueError):
    """A body is longer than its limit, packed or unpacked."""


class Exchanges:
    """An HTTP client for one exchange at a time, each with a deadline; used by one thread.

    It follows no redirects and uses no proxies or credentials of the environment.
    """

    def __init__(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Make a client; ``ended`` tells whether the caller is to stop, asked several times a second."""
        self._bounds = _Bounds(ended)
        transport = httpx.HTTPTransport(verify=_NO_CONTEXT)
        # httpx has no parameter for the streams below it.
        transport._pool = httpcore.ConnectionPool(
            max_connections=1, max_keepalive_connections=1, network_backend=_Backend(self._bounds)
        )
        self._client = httpx.Client(
            transport=transport, trust_env=False, headers={"Accept-Encoding": "gzip, deflate"}
        )

    def close(self) -> None:
        """Close the connection that is kept for the next exchange."""
        self._client.close()

    def __enter__(self) -> Exchanges:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def exchange(
        self,
        method: str,
        url: str,
        seconds: float,
        *,
        headers: Mapping[str, str],
        content: bytes | None = None,
        form: Mapping[str, str] | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request and receive the head of its answer; read the body by `blocks`.

        The connection is closed with the block unless all of the body was read.

        Raises:
            httpx.HTTPError: the other side cannot be reached, or speaks no HTTP; httpx.TimeoutException
                at the deadline.
            EndedError: the caller was told to stop.
        """
        self._bounds.begin(seconds)
        with self._client.stream(
            method, url, headers=dict(headers), content=content, data=form, timeout=seconds
        ) as answer:
            yield answer

    def allow_silence(self, seconds: float) -> None:
        """From here on the exchange has no deadline; the other side may be silent for so many seconds."""
        self._bounds.silence(seconds)


def blocks(answer: httpx.Response, most: int) -> Iterator[bytes]:
    """The body of an answer, unpacked, as it comes.

    Raises:
        BodyTooLongError: it has more than ``most`` bytes, as it comes or unpacked; 0 is no limit.
        UnpackError: it is not packed as it says.
        httpx.HTTPError, EndedError: as `Exchanges.exchange`.
    """
    encoding = answer.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity", "gzip", "x-gzip", "deflate"):
        raise UnpackError(f"the body is packed as {encoding}, which was not asked for")
    unpacker = None if encoding in ("", "identity") else Unpacker()
    received = made = 0
    for raw in answer.iter_raw():
        received += len(raw)
        for start in range(0, len(raw), _PIECE):
            piece = raw[start : start + _PIECE]
            if unpacker is not None:
                # No byte of deflate stands for more than 1,032.
                piece = _unpacked(unpacker, piece, most - made + 1 if most else _PIECE * 1_100)
            made += len(piece)
            if most and max(received, made) > most:
                raise BodyTooLongError(f"the body is longer than the limit of {most:,} bytes")
            yield piece


def drain(answer: httpx.Response, most: int) -> None:
    """Read up to ``most`` bytes of an unneeded body without unpacking it, so that the connection is kept.

    A longer body is cut off with the connection.
    """
    received = 0
    for raw in answer.iter_raw():
        received += len(raw)
        if received > most:
            return


def _unpacked(unpacker: Unpacker, piece: bytes, most: int) -> bytes:
    try:
        return unpacker.unpack(piece, most)
    except zlib.error as error:
        raise UnpackError(f"the body is not packed as it says: {error}") from error


_NO_CONTEXT = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Given to the pool of httpx that is replaced; that of httpcore makes its own when a connection needs TLS."""


class _Bounds:
    """When the present exchange ends."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        self._ended = ended
        self._deadline: float | None = None
        self._silence = 0.0

    def begin(self, seconds: float) -> None:
        self._deadline, self._silence = time.monotonic() + seconds, seconds

    def silence(self, seconds: float) -> None:
        self._deadline, self._silence = None, seconds

    def until(self) -> float:
        """The moment at which a call that begins now has to end; raises EndedError."""
        if self._ended():
            raise EndedError
        return time.monotonic() + self._silence if self._deadline is None else self._deadline


class _Backend(httpcore.NetworkBackend):
    """Opens connections whose calls end at the bounds of the exchange."""

    def __init__(self, bounds: _Bounds) -> None:
        self._bounds = bounds
        self._inner = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = max(_SHORTEST_S, self._bounds.until() - time.monotonic())
        options = [*(socket_options or ()), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)]
        stream = self._inner.connect_tcp(host, port, left, local_address, options)
        return _Stream(stream, self._bounds)


class _Stream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the bounds of the exchange."""

    def __init__(self, inner: httpcore.NetworkStream, bounds: _Bounds) -> None:
        self._inner = inner
        self._bounds = bounds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        until = self._bounds.until()
        while True:
            left = until - time.monotonic()
            try:
                return self._inner.read(max_bytes, min(_LOOK_S, max(_SHORTEST_S, left)))
            except httpcore.ReadTimeout:
                if left <= _LOOK_S:
                    raise
                self._bounds.until()

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        # In pieces: the time-out of one call begins anew with each part of it that is sent.
        until = self._bounds.until()
        for start in range(0, len(buffer), _PIECE):
            piece = buffer[start : start + _PIECE]
            self._inner.write(piece, max(_SHORTEST_S, until - time.monotonic()))
            self._bounds.until()

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        left = max(_SHORTEST_S, self._bounds.until() - time.monotonic())
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._bounds)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
