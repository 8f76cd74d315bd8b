"""The HTTP server: a thread that reads requests, and threads in which its handler answers them.

    connection_loop.py --whole request--> workers.py --> Handler.answer --> reply.py
                                fast_lane.py  --> Handler.answer_short, of busy clients with short requests
                           +---> separate pools for health, for metrics and for streamed bodies, which
                                 other requests cannot fill

docs/decisions/0050-server.md explains why Quadrill has a private HTTP server. An answer may take over its
connection: the writer of event streams gets the connection, and the worker takes the next request. An error
after the first byte of an answer breaks the connection, so a client never takes a partial answer for a
complete one.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from quadrill.store.errors import ReportedError

from ..http.observer import RequestObserver
from ..http.request import FastLaneThread, Request
from .connection import Connection, Timeouts
from .connection_loop import ConnectionLimits, ConnectionLoop, within_open_files
from .connection_owner import ConnectionOwner
from .fast_lane import FastLane, Later
from .proxies import TrustedProxies
from .refused import RefusedError
from .reply import AnswerBrokenError, Reply, refusal
from .request_client import CURRENT
from .workers import BackgroundWork, Workers

log = logging.getLogger("quadrill.server")

EVALUATION_STACK_BYTES = 16 << 20
"""Stack size in bytes of a worker thread, which answers requests. The stack is large because a nested query
recurses in Oxigraph, and a stack overflow would end the process. The store evaluates queries that are nested
too deeply for a worker's stack in a separate thread.
"""
STAY_SECONDS = 0.005
"""Seconds that a worker waits for the next request of a connection while no other connection waits. A busy
client sends its next request within microseconds, and a pass through the connection loop would cost more than
the request.
"""
DEPARTURE_SECONDS = 0.2
"""Seconds between two checks for clients that disconnected before they got their answer."""
_LANE_THREADS = 2
_MOST_WAITING = 4
_MOST_FOR_CLIENTS = 256
"""Maximum number of threads that wait for clients, in addition to the workers; each thread costs a stack."""
_BACKLOG = 1024
_CANCEL_SECONDS = 1.0


class AddressError(ReportedError):
    """The HTTP server cannot listen on its address and port."""

    code = "address"


@dataclass(frozen=True)
class ServerLimits:
    """Limits on threads, clients and times of an HTTP server.

    Attributes:
        threads: number of worker threads; up to four times as many while all wait, more for clients that keep
            threads waiting.
        timeouts: the time limits for clients and the maximum size of a request head.
        connection_limits: limits on connections and incomplete requests.
        shutdown_timeout: seconds that running requests get to end when the server stops.
    """

    threads: int
    timeouts: Timeouts
    connection_limits: ConnectionLimits
    shutdown_timeout: float


class RequestHandler(Protocol):
    """Protocol of the handler that answers the requests of a server; `front.pipeline.Front` is one.

    Attributes:
        pools: names of the handler's thread pools; each pool has threads of its own.
    """

    pools: Sequence[str]

    def pool(self, request: Request) -> str: ...  # noqa: D102

    def may_be_short(self, request: Request) -> bool: ...  # noqa: D102

    def answer(  # noqa: D102
        self, connection: Connection, request: Request, reply: Reply, home: ConnectionOwner
    ) -> None: ...

    def answer_short(  # noqa: D102
        self,
        connection: Connection,
        request: Request,
        reply: Reply,
        home: ConnectionOwner,
        lane: FastLaneThread,
    ) -> bool | Callable[[], None]: ...


class Server:
    """An HTTP server that listens on one address and passes requests to a handler."""

    def __init__(
        self,
        handler: RequestHandler,
        *,
        host: str,
        port: int,
        limits: ServerLimits,
        proxies: TrustedProxies,
        observer: RequestObserver,
        background: BackgroundWork,
        stop_departed: Callable[[float], None],
    ) -> None:
        """Listen on the server's address; clients' connections wait until `start` is called.

        Args:
            handler: answers the requests of the server.
            host: the host name or IP address to listen on.
            port: the TCP port; 0 for a free port.
            limits: limits on the server's threads, clients and times.
            proxies: trusted proxies, which name their clients.
            observer: counts and logs requests that are rejected before the handler gets them.
            background: work that the workers do while no request is queued.
            stop_departed: called with the time several times a second; ends work for clients that have left.

        Raises: AddressError when the server cannot listen on the address and port.
        """
        listener = _listen(host, port)
        self._host = host
        self.port: int = listener.getsockname()[1]
        self._handler = handler
        self._shutdown_timeout = limits.shutdown_timeout
        self._stop_departed = stop_departed
        self._next_check = 0.0
        self._ending = False
        threads = limits.threads
        self._workers = self._make_workers("quadrill-worker", threads, background=background)
        self._uploads = self._make_workers("quadrill-upload", _LANE_THREADS, threads * _MOST_WAITING)
        self._named = {name: self._make_workers(f"quadrill-{name}", _LANE_THREADS) for name in handler.pools}
        self._pools = (self._workers, self._uploads, *self._named.values())
        self._connection_loop = ConnectionLoop(
            listener,
            limits.timeouts,
            within_open_files(limits.connection_limits),
            self._dispatch,
            self._look_after_workers,
            observer,
            proxies,
        )
        self._quick = FastLane(
            self._answer_quickly, self._dispatch, self._connection_loop, stack_bytes=EVALUATION_STACK_BYTES
        )
        self._thread = threading.Thread(
            target=self._connection_loop.run, name="quadrill-connections", daemon=True
        )

    @property
    def url(self) -> str:
        """The URL at which the HTTP server listens."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.port}/"

    def start(self) -> None:
        """Start to accept and answer HTTP requests, in new threads."""
        for pool in self._pools:
            pool.start()
        self._quick.start()
        self._thread.start()

    def stop(self, cancel: Callable[[], None] = lambda: None) -> bool:
        """Accept no further requests; wait at most ``shutdown_timeout`` seconds for running requests.

        Args:
            cancel: called after ``shutdown_timeout``; requests that still run have another second to end.

        Returns:
            False when a request still runs: Oxigraph evaluates something that nothing can interrupt.
        """
        self._ending = True
        if not self._thread.ident:
            self._connection_loop.close_unstarted()
            return True
        self._connection_loop.stop()
        self._thread.join(_CANCEL_SECONDS)
        self._quick.stop()
        for pool in self._pools:
            pool.stop()
        if self._join(time.monotonic() + self._shutdown_timeout):
            return True
        cancel()
        for pool in self._pools:
            pool.cut_waiting()
        self._quick.cut_waiting()
        return self._join(time.monotonic() + _CANCEL_SECONDS)

    def _join(self, until: float) -> bool:
        return all([*(pool.join(until) for pool in self._pools), self._quick.join(until)])

    def _make_workers(
        self, name: str, threads: int, most: int = 0, background: BackgroundWork | None = None
    ) -> Workers:
        return Workers(
            name,
            threads,
            most or threads * _MOST_WAITING,
            self._serve,
            most_for_clients=_MOST_FOR_CLIENTS,
            stack_bytes=EVALUATION_STACK_BYTES,
            background=background,
        )

    def _dispatch(self, connection: Connection) -> None:
        assert connection.request is not None
        if not connection.trusted or self._connection_loop.counts.count_for_client(connection):
            self._pool(connection.request).put(connection)
        else:
            self._connection_loop.refuse(
                connection, RefusedError(503, "there are too many connections from this address")
            )

    def _pool(self, request: Request) -> Workers:
        name = self._handler.pool(request)
        if name:
            return self._named[name]
        return self._workers if request.stream is None else self._uploads

    def _look_after_workers(self, now: float) -> bool:
        if now >= self._next_check:
            self._next_check = now + DEPARTURE_SECONDS
            self._stop_departed(now)
        return any([*(pool.look(now) for pool in self._pools), self._quick.look(now)])

    # --- methods that run in a worker thread ----------------------------------------------------------------

    def _serve(self, workers: Workers, connection: Connection) -> None:
        """Answer the request of a connection, and its next requests while no other request is queued."""
        try:
            while (request := connection.request) is not None:
                if not self._answer(connection, request) or self._adopted(connection, request, workers):
                    return
                connection.request = request = self._next_request(connection, workers)
                if request is not None and not self._stays(connection, request, workers):
                    self._dispatch(connection)
                    return
            if self._ending or connection.ended:
                self._connection_loop.close(connection)
            else:
                self._connection_loop.put(connection)
        except Exception as error:
            self._failed(connection, error)

    def _stays(self, connection: Connection, request: Request, workers: Workers) -> bool:
        """Return True if the current worker also answers the next request of a connection."""
        return workers.none_waits() and self._pool(request) is workers and not connection.trusted

    def _failed(self, connection: Connection, error: Exception) -> None:
        """End a connection whose request or answer failed."""
        if isinstance(error, RefusedError):
            self._connection_loop.refuse(connection, error)
            return
        if isinstance(error, AnswerBrokenError):
            log.warning("an answer was cut: %s", error)
        elif isinstance(error, (ConnectionError, TimeoutError)):
            log.debug("a client is gone: %s", error)
        else:
            log.error("a request failed", exc_info=error)
        self._connection_loop.close(connection)

    def _answer(self, connection: Connection, request: Request) -> bool:
        """Answer one request; return True if the connection may send further requests."""
        reply = self._reply(connection, request)
        try:
            self._handler.answer(connection, request, reply, self._connection_loop)
        except (AnswerBrokenError, ConnectionError, TimeoutError):
            raise
        except Exception as error:
            if reply.begun or connection.handed_over or request.lent:
                raise AnswerBrokenError(repr(error)) from error
            log.exception("the handler of requests failed")
            reply.close = True
            connection.send(refusal(500, ""))
        return self._goes_on(connection, request, reply)

    def _reply(self, connection: Connection, request: Request) -> Reply:
        fields = request.fields
        CURRENT.connection, CURRENT.minor_version = connection, fields.minor_version
        request.client, request.port = connection.client, self.port
        return Reply(
            connection,
            close=fields.close or self._ending,
            bodiless=request.method == "HEAD",
            minor_version=fields.minor_version,
        )

    def _goes_on(self, connection: Connection, request: Request, reply: Reply) -> bool:
        """Return True if a connection stays open after an answer; else end the connection."""
        if request.lent:
            return False
        if not reply.close and not connection.handed_over:
            return True
        unread = request.stream is not None and not request.stream.finished
        if unread and not connection.handed_over:
            self._connection_loop.drain(connection)
        else:
            self._connection_loop.close(connection)
        return False

    def _adopted(self, connection: Connection, request: Request, workers: Workers) -> bool:
        """Pass a connection to the fast lane after a short answer, unless no other client is busy."""
        if (
            (workers.busy > 1 or self._quick.busy)
            and not connection.data
            and not self._ending
            and self._handler.may_be_short(request)
        ):
            if connection.trusted:
                self._connection_loop.counts.count_for_proxy(connection)
            return self._quick.adopt(connection)
        return False

    def _answer_quickly(self, connection: Connection, request: Request) -> bool | Later | None:
        """Answer a request in the fast lane; return None if the request needs a worker."""
        reply = self._reply(connection, request)

        try:
            rest = self._handler.answer_short(connection, request, reply, self._connection_loop, self._quick)
            if isinstance(rest, bool):
                return self._goes_on(connection, request, reply) if rest else None
        except Exception as error:
            return self._broken(connection, reply, error)
        complete = rest

        def send() -> bool:
            try:
                complete()
                return self._goes_on(connection, request, reply)
            except Exception as error:
                return self._broken(connection, reply, error)

        return send

    def _broken(self, connection: Connection, reply: Reply, error: Exception) -> bool:
        """End a connection whose short answer failed; return False because the connection is closed."""
        if not (reply.begun or isinstance(error, (ConnectionError, TimeoutError))):
            connection.last_words(refusal(500, ""))
        self._failed(connection, error)
        return False

    def _next_request(self, connection: Connection, workers: Workers) -> Request | None:
        """Return the next request of a connection if it arrives while no request waits for a worker."""
        request = connection.next_request()
        none_waits = workers.none_waits
        while request is None and none_waits() and not self._ending:
            if not connection.wait_for_data(STAY_SECONDS):
                return None
            if not connection.receive():
                connection.ended = True
                return None
            request = connection.next_request()
        return request


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        both = host == "::" and socket.has_dualstack_ipv6()
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG, dualstack_ipv6=both)
    except OSError as error:
        raise _address_error(host, port, error) from error
    # Answers are sent without Nagle's delay; accepted sockets inherit this option of the listener.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _address_error(host: str, port: int, error: OSError) -> AddressError:
    if error.errno == errno.EADDRINUSE:
        return AddressError(
            f"port {port} on {host} is in use by another program",
            code="port-in-use",
            hint="Choose another one with --port, or 0 for a free one.",
        )
    if error.errno == errno.EACCES:
        return AddressError(
            f"port {port} on {host} may not be opened by this user", hint="Choose a port above 1023."
        )
    return AddressError(f"cannot listen on {host} port {port}: {error}")
