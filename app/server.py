"""The HTTP server: cheroot's thread pool, and sockets of event streams handed over to the fan-out thread.

docs/decisions/0050-server.md tells why cheroot. What is added here:

- a view that answers with :class:`HandedOver` leaves its socket to the fan-out thread; the worker goes on;
- faults that never reach the application (a malformed request line, oversize headers) are problem documents;
- a request must arrive within ``request_timeout`` seconds as a whole, so that slow clients free their worker;
- an error after the first byte of an answer breaks the connection: a cut answer never looks complete.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from cheroot import server as cheroot_server
from cheroot import wsgi as cheroot_wsgi
from cheroot.makefile import MakeFile, StreamReader

from quadrill.store.errors import QuadrillError

from .errors import MEDIA_TYPE

log = logging.getLogger("quadrill.server")

CONNECTION = "quadrill.connection"
KEEP_ALIVE_CONNECTIONS = 2000
EVALUATION_STACK_BYTES = 16 << 20
_UNREAD_TO_KEEP = 1 << 20
_DRAIN_SECONDS = 3.0
_CANCEL_SECONDS = 1.0


class AddressError(QuadrillError):
    """The server cannot listen on its address."""

    code = "address"


class AnswerBrokenError(Exception):
    """An answer ended early after its first byte was sent: the connection must be cut."""


class _DeadlineSocket(socket.SocketIO):
    """Reads of one request share a deadline, so that a byte now and then does not hold a worker for ever."""

    def __init__(self, sock: socket.socket, mode: str, allowed: float) -> None:
        super().__init__(sock, mode)  # type: ignore[arg-type]
        self._allowed = allowed
        self._socket = sock
        self.deadline: float | None = None

    def readinto(self, buffer: Any) -> int | None:
        """Read what is there, waiting no longer than the request may still take."""
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


class _Reader(StreamReader):
    def __init__(self, raw: _DeadlineSocket) -> None:
        super(StreamReader, self).__init__(raw)
        self.bytes_read = 0


class _Request(cheroot_server.HTTPRequest):
    def parse_request(self) -> None:
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


class _Connection(cheroot_server.HTTPConnection):
    RequestHandlerClass = _Request

    def __init__(self, server: Any, sock: socket.socket, makefile: Any = MakeFile) -> None:
        super().__init__(server, sock, makefile)
        self._raw = _DeadlineSocket(sock, "r", server.timeout)
        self.rfile = _Reader(self._raw)
        self.handed_over = False
        self._request: _Request | None = None

    def start_request(self, request: _Request) -> None:
        """A request begins: it has to be here as a whole within the server's time-out."""
        self._request = request
        self._raw.deadline = time.monotonic() + self.server.timeout

    def extend_deadline(self, seconds: float) -> None:
        """A body is expected to take longer."""
        self._raw.deadline = time.monotonic() + seconds

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


class _Gateway(cheroot_wsgi.Gateway_10):
    def get_environ(self) -> dict[str, Any]:  # type: ignore[override]  # its stub says None
        environ: dict[str, Any] = super().get_environ()  # type: ignore[no-untyped-call]
        environ[CONNECTION] = self.req.conn
        # The path as it came: percent-decoding of graph names is done once, by us.
        environ["RAW_URI"] = environ["REQUEST_URI"]
        length = int(environ.get("CONTENT_LENGTH") or 0)
        if length > 1 << 20:
            # One megabyte a second is the slowest upload that may hold a worker.
            self.req.conn.extend_deadline(self.req.server.timeout + length / (1 << 20))
        return environ


class _HttpServer(cheroot_wsgi.Server):
    ConnectionClass = _Connection
    keep_alive_conn_limit = KEEP_ALIVE_CONNECTIONS

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Cheroot's messages go to our log; broken answers are told where they break."""
        if isinstance(sys.exc_info()[1], AnswerBrokenError):
            log.warning("an answer was cut: %s", sys.exc_info()[1])
            return
        log.log(level, "%s", msg, exc_info=traceback and level >= logging.ERROR)


class Server:
    """A listening server around a WSGI application.

    Raises: AddressError when the address cannot be listened on.
    """

    def __init__(
        self,
        application: Callable[..., Any],
        *,
        host: str,
        port: int,
        threads: int = 16,
        timeout: float = 30.0,
        max_header_bytes: int = 65536,
        shutdown_timeout: float = 3.0,
    ) -> None:
        self._http = _HttpServer(
            (host, port),
            application,
            numthreads=threads,
            max=threads,
            request_queue_size=1024,
            timeout=timeout,  # type: ignore[arg-type]  # cheroot takes any number
            shutdown_timeout=shutdown_timeout,  # type: ignore[arg-type]
        )
        self._http.gateway = _Gateway
        self._http.max_request_header_size = max_header_bytes
        self._http.server_name = "Quadrill"
        self._thread: threading.Thread | None = None
        self._host = host

    def bind(self) -> None:
        """Listen and start the workers; requests are answered from :meth:`serve` on.

        Evaluation runs on the workers' stacks, which are made the same on every platform: a nested query
        recurses in Oxigraph, and a full stack would end the process. The store moves what is deeper than
        its limit to a thread of its own.
        """
        before = threading.stack_size(EVALUATION_STACK_BYTES)
        try:
            self._http.prepare()
        except OSError as error:
            raise _address_error(self._host, self._http.bind_addr[1], error) from error
        finally:
            threading.stack_size(before)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._http.bind_addr[1])

    @property
    def url(self) -> str:
        """The server's address."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/"

    def serve(self) -> None:
        """Serve until :meth:`stop` is called from elsewhere."""
        self._http.serve()

    def start(self) -> None:
        """Serve in a thread of its own."""
        self._thread = threading.Thread(target=self.serve, name="quadrill-accept", daemon=True)
        self._thread.start()

    def stop(self, cancel: Callable[[], None] = lambda: None) -> bool:
        """Take no further requests and wait for the running ones, at most ``shutdown_timeout`` seconds.

        Args:
            cancel: called then; what still runs afterwards has a second to end.

        Returns:
            False when a request still runs: Oxigraph evaluates something that nothing can interrupt.
        """
        ending = threading.Thread(target=self._http.stop, name="quadrill-stop", daemon=True)
        ending.start()
        ending.join(float(self._http.shutdown_timeout))
        if ending.is_alive():
            cancel()
            ending.join(_CANCEL_SECONDS)
        if self._thread is not None:
            self._thread.join(_CANCEL_SECONDS)
        return not ending.is_alive()


def _address_error(host: str, port: int, error: OSError) -> AddressError:
    text = str(error)
    if f"[Errno {errno.EADDRINUSE}]" in text or error.errno == errno.EADDRINUSE:
        return AddressError(
            f"port {port} on {host} is in use by another program",
            code="port-in-use",
            hint="Choose another one with --port, or 0 for a free one.",
        )
    if f"[Errno {errno.EACCES}]" in text:
        return AddressError(
            f"port {port} on {host} may not be opened by this user", hint="Choose a port above 1023."
        )
    return AddressError(f"cannot listen on {host} port {port}: {text}")
