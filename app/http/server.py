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
import logging
import socket
import sys
import threading
from collections.abc import Callable, Sized
from typing import Any

from cheroot import wsgi as cheroot_wsgi

from quadrill.store.errors import QuadrillError

from .connection import AnswerBrokenError, Connection, Shortcut

log = logging.getLogger("quadrill.server")

CONNECTION = "quadrill.connection"
KEEP_ALIVE_CONNECTIONS = 2000
EVALUATION_STACK_BYTES = 16 << 20
_CANCEL_SECONDS = 1.0
_END_SECONDS = 0.01


class AddressError(QuadrillError):
    """The server cannot listen on its address."""

    code = "address"


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
    ConnectionClass = Connection
    shortcut: Shortcut | None = None
    waiting: Sized = ()
    """Connections that no worker has taken yet."""
    keep_alive_conn_limit = KEEP_ALIVE_CONNECTIONS

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:
        """Cheroot's messages go to our log; broken answers are told where they break."""
        if isinstance(sys.exc_info()[1], AnswerBrokenError):
            log.warning("an answer was cut: %s", sys.exc_info()[1])
            return
        log.log(level, "%s", msg, exc_info=traceback and level >= logging.ERROR)


class Server:
    """A listening server around a WSGI application, with a short cut past it.

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
        shortcut: Shortcut | None = None,
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
        self._http.shortcut = shortcut
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
            self._http.waiting = self._http.requests._queue.queue
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
        self._wake(ending)
        ending.join(float(self._http.shutdown_timeout))
        if ending.is_alive():
            cancel()
            ending.join(_CANCEL_SECONDS)
        if self._thread is not None:
            self._thread.join(_CANCEL_SECONDS)
        return not ending.is_alive()

    def _wake(self, ending: threading.Thread) -> None:
        """Let the thread that waits for connections see the end, which it looks for twice a second."""
        ending.join(_END_SECONDS)
        address = self._http.bind_addr
        if ending.is_alive() and isinstance(address, tuple):
            with contextlib.suppress(OSError):
                socket.create_connection(address[:2], timeout=_CANCEL_SECONDS).close()


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
