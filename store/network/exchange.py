"""Outbound HTTP exchanges that a hostile peer cannot prolong or inflate.

One deadline applies to the whole HTTP exchange: host look-up, connection, TLS, and every read and write. The
caller can also stop an HTTP exchange at any time. The bodies of responses are decompressed here up to a
maximum size, because httpx would decompress each received block completely.
"""

from __future__ import annotations

import select
import socket
import ssl
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

import httpcore
import httpx

from .connections import LOOK_S, connect, wait_ready
from .unpacking import Unpacker

T = TypeVar("T")

_SHORTEST_S = 0.001
_PIECE = 4 << 10
"""Number of compressed bytes per decompression step; the output may be a thousand times as large."""


class ExchangeStoppedError(Exception):
    """The caller was stopped during an outbound HTTP exchange."""


class UnpackError(ValueError):
    """A response body has an encoding that the request did not accept, or is not compressed as stated."""


class BodyTooLongError(ValueError):
    """A compressed or decompressed response body is longer than the limit."""


class Exchanges:
    """An HTTP client for one exchange at a time, each with a deadline; used by one thread.

    The HTTP client follows no redirects and ignores proxies and credentials of the environment.
    """

    def __init__(self, ended: Callable[[], bool] = lambda: False) -> None:
        """Create an HTTP client; the function ``ended`` returns True to stop an exchange."""
        self._bounds = _Bounds(ended)
        transport = httpx.HTTPTransport(verify=_NO_CONTEXT)
        # httpx has no parameter for a network backend, so the private connection pool is replaced.
        transport._pool = httpcore.ConnectionPool(
            max_connections=1, max_keepalive_connections=1, network_backend=_Backend(self._bounds)
        )
        self._client = httpx.Client(
            transport=transport, trust_env=False, headers={"Accept-Encoding": "gzip, deflate"}
        )

    def close(self) -> None:
        """Close the HTTP client and its idle connection."""
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
        """Send an HTTP request and receive the headers of the response; `blocks` reads the body.

        At the end of the ``with`` block the connection is closed unless the body was read completely.

        Raises:
            httpx.HTTPError: the server cannot be reached or does not speak HTTP; the subclass
                httpx.TimeoutException: the deadline has passed.
            ExchangeStoppedError: the callback ``ended`` of this client returned True.
        """
        self._bounds.begin(seconds)
        with self._client.stream(
            method, url, headers=dict(headers), content=content, data=form, timeout=seconds
        ) as answer:
            yield answer

    def allow_silence(self, seconds: float) -> None:
        """Replace the deadline of the current exchange by a maximum time without data, in seconds."""
        self._bounds.silence(seconds)


def blocks(answer: httpx.Response, most: int) -> Iterator[bytes]:
    """Yield the decompressed body of a response as it arrives.

    Raises:
        BodyTooLongError: the compressed or decompressed body exceeds ``most`` bytes; 0 is no limit.
        UnpackError: the body is not compressed as its header says, or has an encoding that was not accepted.
        httpx.HTTPError, ExchangeStoppedError: for the reasons given in `Exchanges.exchange`.
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
                # One byte of deflate data expands to at most 1,032 bytes.
                piece = _unpacked(unpacker, piece, most - made + 1 if most else _PIECE * 1_100)
            made += len(piece)
            if most and max(received, made) > most:
                raise BodyTooLongError(f"the body is longer than the limit of {most:,} bytes")
            yield piece


def drain(answer: httpx.Response, most: int) -> None:
    """Read and discard up to ``most`` bytes of a response body, so that the connection can be reused.

    The connection is closed if the response body is longer than ``most`` bytes.
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
"""A dummy TLS context for the transport of httpx, whose connection pool is replaced.

The new connection pool of httpcore creates a TLS context when a connection needs one.
"""


class _Bounds:
    """The deadline or the maximum time without data of the current HTTP exchange."""

    def __init__(self, ended: Callable[[], bool]) -> None:
        self._ended = ended
        self._deadline: float | None = None
        self._silence = 0.0

    def begin(self, seconds: float) -> None:
        self._deadline, self._silence = time.monotonic() + seconds, seconds

    def silence(self, seconds: float) -> None:
        self._deadline, self._silence = None, seconds

    def until(self) -> float:
        """Return the monotonic time at which a socket call must end.

        Raises:
            ExchangeStoppedError: the caller has stopped the HTTP exchange.
        """
        if self._ended():
            raise ExchangeStoppedError
        return time.monotonic() + self._silence if self._deadline is None else self._deadline


class _Backend(httpcore.NetworkBackend):
    """A network backend that opens connections whose calls end at the deadline of the exchange."""

    def __init__(self, bounds: _Bounds) -> None:
        self._bounds = bounds

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        with _as_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
            sock = connect(host, port, self._bounds.until(), self._bounds.until)
            for option in (*(socket_options or ()), (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)):
                sock.setsockopt(*option)
        return _BoundedStream(sock, self._bounds)


class _BoundedStream(httpcore.NetworkStream):
    """A connection whose reads and writes end at the deadline of the exchange."""

    def __init__(self, sock: socket.socket, bounds: _Bounds) -> None:
        self._sock = sock
        self._bounds = bounds

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        with _as_errors(httpcore.ReadTimeout, httpcore.ReadError):
            return self._retried(partial(self._sock.recv, max_bytes))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        with _as_errors(httpcore.WriteTimeout, httpcore.WriteError):
            rest = memoryview(buffer)
            while rest:
                rest = rest[self._retried(partial(self._sock.send, rest)) :]

    def _retried(self, call: Callable[[], T]) -> T:
        """Repeat a socket call that times out, until the deadline of the HTTP exchange."""
        until = self._bounds.until()
        while True:
            left = until - time.monotonic()
            self._sock.settimeout(min(LOOK_S, max(_SHORTEST_S, left)))
            try:
                return call()
            except TimeoutError:
                if left <= LOOK_S:
                    raise
                self._bounds.until()

    def close(self) -> None:
        self._sock.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        with _as_errors(httpcore.ConnectTimeout, httpcore.ConnectError):
            opened = self._sock
            try:
                until, check = self._bounds.until(), self._bounds.until
                opened = sock = ssl_context.wrap_socket(
                    self._sock, server_hostname=server_hostname, do_handshake_on_connect=False
                )
                sock.setblocking(False)
                while True:
                    try:
                        sock.do_handshake()
                        break
                    except ssl.SSLWantReadError:
                        wait_ready(sock, select.POLLIN, until, check)
                    except ssl.SSLWantWriteError:
                        wait_ready(sock, select.POLLOUT, until, check)
            except BaseException:
                opened.close()
                raise
        return _BoundedStream(sock, self._bounds)

    def get_extra_info(self, info: str) -> Any:
        match info:
            case "ssl_object":
                return self._sock if isinstance(self._sock, ssl.SSLSocket) else None
            case "client_addr":
                return self._sock.getsockname()
            case "server_addr":
                return self._sock.getpeername()
            case "socket":
                return self._sock
            case "is_readable":
                return self._sock.fileno() < 0 or _has_input(self._sock)
        return None


def _has_input(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


@contextmanager
def _as_errors(timed_out: type[Exception], failed: type[Exception]) -> Iterator[None]:
    """Convert TimeoutError to the exception ``timed_out`` and other socket errors to ``failed``."""
    try:
        yield
    except TimeoutError as error:
        raise timed_out(str(error)) from error
    except OSError as error:
        raise failed(str(error)) from error
