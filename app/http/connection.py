"""One connection of the server: cheroot's, with deadlines, hand-over to the fan-out, and the short cut.

A worker thread keeps a connection for a moment after an answer, because the next request of a busy client is
there within microseconds and the way through cheroot's selector costs more than the request. It lets go as
soon as another connection waits, so that any number of clients is served.
"""

from __future__ import annotations

import contextlib
import json
import logging
import socket
import time
from http import HTTPStatus
from typing import Any, Protocol

from cheroot import server as cheroot_server
from cheroot.makefile import MakeFile, StreamReader

from . import wire
from .errors import MEDIA_TYPE

log = logging.getLogger("quadrill.server")

STAY_SECONDS = 0.005
"""How long a worker waits for the next request of a connection while no other connection waits."""
REST_SECONDS = 0.02
"""How long the rest of a request may take that came in several pieces, before the ordinary way reads it."""
_RECEIVED_AT_ONCE = 16 << 10
_UNREAD_TO_KEEP = 1 << 20
_DRAIN_SECONDS = 3.0


class AnswerBrokenError(Exception):
    """An answer ended early after its first byte was sent: the connection must be cut."""


class Shortcut(Protocol):
    """Answers requests without the application (routes/shortcut.py)."""

    paths: frozenset[str]

    def take(self, request: wire.WireRequest, reply: wire.Reply, remote: str) -> bool: ...  # noqa: D102


class DeadlineSocket(socket.SocketIO):
    """Reads of one request share a deadline, so that a byte now and then does not hold a worker for ever."""

    def __init__(self, sock: socket.socket, mode: str, allowed: float) -> None:
        super().__init__(sock, mode)  # type: ignore[arg-type]
        self._allowed = allowed
        self._socket = sock
        self._returned = b""
        self.deadline: float | None = None

    def give_back(self, data: bytes) -> None:
        """Bytes that were received and are to be read once more."""
        self._returned = data

    @property
    def returned(self) -> bool:
        """True while bytes that were given back are not read yet."""
        return bool(self._returned)

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, waiting no longer than the request may still take."""
        if self._returned:
            size = min(len(buffer), len(self._returned))
            buffer[:size] = self._returned[:size]
            self._returned = self._returned[size:]
            return size
        if self.deadline is not None:
            left = self.deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("timed out")
            self._socket.settimeout(min(left, self._allowed))
        try:
            return super().readinto(buffer)
        finally:
            if self.deadline is not None:
                self._socket.settimeout(self._allowed)


class _RequestReader(StreamReader):
    def __init__(self, raw: DeadlineSocket) -> None:
        super(StreamReader, self).__init__(raw)
        self._socket = raw
        self.bytes_read = 0

    def has_data(self) -> bool:
        """True when the next request may be here already, where no selector sees it."""
        return super().has_data() or self._socket.returned  # type: ignore[no-untyped-call]


class Request(cheroot_server.HTTPRequest):
    """A request that cheroot reads."""

    def parse_request(self) -> None:
        """Read the head of the next request."""
        self.conn.start_request(self)
        super().parse_request()

    def send_headers(self) -> None:
        """An answer that comes before a large body was read closes the connection afterwards.

        cheroot would read what is left into memory to keep the connection.
        """
        if self.unread() > _UNREAD_TO_KEEP:
            self.close_connection = True
        super().send_headers()

    def unread(self) -> int:
        """Bytes of the request body that nobody has read; a chunked body counts as endless."""
        if not self.ready:
            return 0
        if self.chunked_read:
            return 0 if getattr(self.rfile, "closed", False) else _UNREAD_TO_KEEP + 1
        return int(getattr(self.rfile, "remaining", 0))

    def simple_response(self, status: Any, msg: str = "") -> None:
        """A fault found before the application saw the request, as a problem document."""
        code = int(str(status)[:3])
        if code in (408, 414, 413, 400):
            self.close_connection = True
        title = HTTPStatus(code).phrase
        body = (
            json.dumps(
                {
                    "type": "urn:quadrill:problem:http",
                    "title": title,
                    "status": code,
                    "detail": msg or title,
                    "code": "http",
                }
            ).encode()
            + b"\n"
        )
        head = (
            f"{self.server.protocol} {code} {title}\r\nContent-Type: {MEDIA_TYPE}\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        with contextlib.suppress(OSError):
            self.conn.wfile.write(head.encode("latin-1") + body)


class Connection(cheroot_server.HTTPConnection):
    """A connection of a client."""

    RequestHandlerClass = Request

    def __init__(self, server: Any, sock: socket.socket, makefile: Any = MakeFile) -> None:
        super().__init__(server, sock, makefile)
        self._raw = DeadlineSocket(sock, "r", server.timeout)
        self.rfile = _RequestReader(self._raw)
        self.handed_over = False
        self._request: Request | None = None

    def start_request(self, request: Request) -> None:
        """A request begins: it has to be here as a whole within the server's time-out."""
        self._request = request
        self._raw.deadline = time.monotonic() + self.server.timeout

    def extend_deadline(self, seconds: float) -> None:
        """A body is expected to take longer."""
        self._raw.deadline = time.monotonic() + seconds

    def communicate(self) -> bool:
        """Answer requests, the present one and those that follow it closely; a worker calls this.

        Returns:
            False when the connection is to be closed.
        """
        server = self.server
        buffer = bytearray(_RECEIVED_AT_ONCE)
        while True:
            # What cheroot has read ahead, it also has to go on with.
            if not self.rfile.has_data():
                ending = self._take_all(server, memoryview(buffer))
                if ending is not None:
                    return ending
            if not super().communicate():  # type: ignore[no-untyped-call]
                return False
            if server.waiting or not server.ready:
                return bool(server.can_add_keepalive_connection)

    def _take_all(self, server: Any, buffer: memoryview) -> bool | None:
        """Answer by the short cut as long as requests come that it takes.

        Returns:
            None when the ordinary way is to read on; else whether the connection is kept.
        """
        shortcut: Shortcut | None = server.shortcut
        self.socket.settimeout(STAY_SECONDS)
        try:
            while True:
                try:
                    data = buffer[: self.socket.recv_into(buffer)].tobytes()
                except TimeoutError:
                    return bool(server.can_add_keepalive_connection)
                if not data:
                    return False
                if shortcut is None or not self._taken(shortcut, data):
                    return None
                if server.waiting or not server.ready:
                    return bool(server.can_add_keepalive_connection)
        except OSError as error:
            log.debug("a client is gone: %s", error)
        except AnswerBrokenError as error:
            log.warning("an answer was cut: %s", error)
        finally:
            self.socket.settimeout(server.timeout)
        return False

    def _taken(self, shortcut: Shortcut, data: bytes) -> bool:
        """Try the short cut; what it does not take is given back."""
        reply = wire.Reply(self.socket, self.server.server_name, self.server.timeout)
        request = wire.parse(data)
        if request is not None and request.path in shortcut.paths:
            size = request.body_at + request.fields.body_length
            if len(data) < size <= wire.MAX_REQUEST_BYTES:
                data = self._rest(data, size)
            if len(data) == size:
                request.body = data[request.body_at :]
                try:
                    if shortcut.take(request, reply, self.remote_addr or "-"):
                        return True
                except (OSError, AnswerBrokenError):
                    raise
                except Exception as error:
                    log.exception("the short cut failed")
                    if reply.begun:
                        raise AnswerBrokenError(str(error)) from error
        self._raw.give_back(data)
        return False

    def _rest(self, data: bytes, size: int) -> bytes:
        """The rest of a request's bytes: many clients send head and body in two pieces."""
        until = time.monotonic() + REST_SECONDS
        while len(data) < size and time.monotonic() < until:
            try:
                more = self.socket.recv(size - len(data))
            except TimeoutError:
                continue
            if not more:
                break
            data += more
        return data

    def take_socket(self) -> socket.socket:
        """Give the socket away; the worker will not touch it again."""
        self.handed_over = True
        if self._request is not None:
            self._request.sent_headers = True
            self._request.close_connection = True
        sock: socket.socket = self.socket
        return sock.dup()

    def close(self) -> None:
        """Close; a socket that was handed over only loses the worker's descriptor of it."""
        if self.handed_over:
            self.rfile.close()
            self.socket.close()
            return
        if self._request is not None and self._request.sent_headers and self._request.unread():
            self._drain()
        super().close()

    def _drain(self) -> None:
        """Let the client read an early answer: closing on unread input would reset the connection."""
        until = time.monotonic() + _DRAIN_SECONDS
        with contextlib.suppress(OSError):
            self.socket.shutdown(socket.SHUT_WR)
            self.socket.settimeout(0.5)
            while time.monotonic() < until and self.socket.recv(1 << 16):
                pass
