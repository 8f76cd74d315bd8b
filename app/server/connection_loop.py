"""The thread that owns each client's connection until a request is complete, and again after the answer.

    accept --> idle --> head --> body (up to 64 KB) --> dispatch to workers --> idle, or drain and close

A client that sends slowly, or nothing, costs only a socket and its received bytes, because no worker waits
for a request head. The numbers of open connections and of incomplete requests are limited, in total and for
each client address. Over a limit, the connection that has waited longest is closed if it has waited for a
second; otherwise a new connection is rejected with status 503, while an incomplete request stays.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from ..http.observer import RequestObserver
from .connection import Connection, Timeouts
from .connection_counts import ConnectionCounts
from .proxies import TrustedProxies
from .refused import RefusedError
from .reply import refusal

try:
    import resource
except ImportError:  # the module `resource` does not exist on Windows
    resource = None  # type: ignore[assignment]

log = logging.getLogger("quadrill.server")

LOOK_SECONDS = 0.25
"""Seconds between two checks for connections whose deadline has passed."""
BUSY_SECONDS = 0.05
"""Maximum seconds that the connection loop sleeps while requests are queued or the fast lane is busy."""
DRAIN_SECONDS = 3.0
PAUSE_SECONDS = 0.25
"""Seconds for which no connection is accepted after the system has run out of file descriptors."""
_ACCEPTED_AT_ONCE = 64
_OTHER_FILES = 256
_YOUNG_SECONDS = 1.0
_NO_ROOM = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Upper bounds on open connections and incomplete requests.

    Attributes:
        connections: maximum number of open connections, without event streams.
        of_address: maximum number of open connections of one client address.
        unfinished: maximum number of requests that are not received completely.
        unfinished_of_address: maximum number of incomplete requests of one client address.
    """

    connections: int = 8192
    of_address: int = 1024
    unfinished: int = 1024
    unfinished_of_address: int = 128


def within_open_files(connection_limits: ConnectionLimits) -> ConnectionLimits:
    """Lower the bound on connections so that 256 file descriptors, at most half of all, remain for files."""
    if resource is None:
        return connection_limits
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return connection_limits
    return replace(
        connection_limits, connections=min(connection_limits.connections, most - min(most // 2, _OTHER_FILES))
    )


class ConnectionLoop:
    """Accepts clients' connections and reads requests, in the thread that calls `run`.

    Attributes:
        counts: number of open connections of each client.
    """

    def __init__(
        self,
        listener: socket.socket,
        timeouts: Timeouts,
        connection_limits: ConnectionLimits,
        dispatch: Callable[[Connection], None],
        look_after_workers: Callable[[float], bool],
        observer: RequestObserver | None = None,
        proxies: TrustedProxies | None = None,
    ) -> None:
        """Make a connection loop; no connection is accepted before `run`.

        Args:
            listener: a listening socket.
            timeouts: the time limits for clients and the maximum size of a request head.
            connection_limits: limits on connections and incomplete requests.
            dispatch: passes a connection with a complete request to a worker.
            look_after_workers: called with the time in each round of the loop; returns True while requests
                wait or the fast lane is busy.
            observer: notified of each rejected request.
            proxies: trusted proxies, whose connections count for the clients that they name.
        """
        listener.setblocking(False)
        self._listener = listener
        self._timeouts = timeouts
        self._limits = connection_limits
        self.counts = ConnectionCounts(connection_limits.of_address)
        self._dispatch = dispatch
        self._look_after_workers = look_after_workers
        self._observer = observer
        self._proxies = proxies or TrustedProxies()
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        # The lock guards the maps of waiting connections and incomplete requests, because workers return
        # connections from other threads. Both maps of connections are in order of insertion, so the
        # connection that has waited longest comes first, up to the fraction of a second that a connection has
        # waited in the fast lane before.
        self._lock = threading.Lock()
        self._held: dict[Connection, float] = {}
        self._unfinished: dict[Connection, None] = {}
        self._ending = False
        self._closed = False
        self._paused_until = 0.0

    @property
    def connections(self) -> int:
        """Number of open connections, including those that a worker serves."""
        return self.counts.total

    # --- methods that worker threads call -------------------------------------------------------------------

    def put(self, connection: Connection, since: float = 0.0) -> None:
        """Return a connection to the loop; if its next request is already complete, dispatch it at once.

        Args:
            connection: an open connection that may send further requests.
            since: time since which the connection waits, by the monotonic clock; 0 for now.
        """
        try:
            connection.request = connection.next_request()
        except RefusedError as error:
            self.refuse(connection, error)
            return
        if self._ending:
            self.close(connection)
            return
        if connection.request is not None:
            self._dispatch(connection)
            return
        if connection.trusted:
            self.counts.count_for_proxy(connection)
        now = since or time.monotonic()
        connection.deadline = now + self._timeouts.request
        if self._hold(connection, now):
            self._note_unfinished(connection, now)

    def refuse(self, connection: Connection, error: RefusedError) -> None:
        """Send the error answer for a malformed or unacceptable request, and end the connection."""
        log.debug("refused a request of %s: %s", connection.address, error)
        if self._observer is not None:
            self._observer.refused(error.status, connection.client, error.detail)
        self.drain(connection, refusal(error.status, error.detail))

    def drain(self, connection: Connection, last_words: bytes = b"") -> None:
        """End a connection whose client may still send.

        Closing the connection at once would reset it, and the client would not see its answer.
        """
        connection.last_words(last_words)
        connection.draining = True
        now = time.monotonic()
        connection.deadline = now + DRAIN_SECONDS
        self._hold(connection, now)

    def close(self, connection: Connection) -> None:
        """Close a client's connection and remove it from the counts."""
        with self._lock:
            self._forget(connection)
        self.counts.remove(connection)
        connection.close()

    # --- the loop -------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Accept connections and read requests until `stop` is called."""
        selector = self._selector
        selector.register(self._woken, selectors.EVENT_READ)
        selector.register(self._listener, selectors.EVENT_READ)
        next_look = 0.0
        waiting = False
        while not self._ending:
            try:
                ready = selector.select(BUSY_SECONDS if waiting else LOOK_SECONDS)
                now = time.monotonic()
                for key, _events in ready:
                    if key.data is not None:
                        self._read(key.data, now)
                    elif key.fileobj is self._listener:
                        self._accept(now)
                if now >= next_look:
                    next_look = now + LOOK_SECONDS
                    self._end_overdue(now)
                    self._accept_again(now)
                waiting = self._look_after_workers(now)
            except Exception:
                # If the thread of the connection loop ended, the server would answer no further request.
                log.exception("the thread that reads requests met an error")
                time.sleep(BUSY_SECONDS)
        self._close_all()

    def stop(self) -> None:
        """Make `run` return; the loop accepts no further connection and closes the waiting connections."""
        self._ending = True
        with contextlib.suppress(OSError):
            # `run` may have noticed the stop already and closed the socket that would wake it.
            self._wake.send(b"x")

    def close_unstarted(self) -> None:
        """Close the sockets of a connection loop that was never run."""
        if not self._closed:
            self._close_all()

    def _close_all(self) -> None:
        with self._lock:
            self._closed = True
            held = list(self._held)
        for connection in held:
            self.close(connection)
        self._selector.close()
        for each in (self._listener, self._wake, self._woken):
            each.close()

    def _accept(self, now: float) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                sock, address = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionError):
                return
            except OSError as error:
                if error.errno in _NO_ROOM:
                    self._pause(now, error)
                return
            self._add(sock, address, now)

    def _add(self, sock: socket.socket, address: tuple[str, int], now: float) -> None:
        trusted = address[0] in self._proxies
        connection = Connection(sock, address[0], address[1], self._timeouts, trusted=trusted)
        of_one = not trusted and self.counts.is_full(connection.address)
        if of_one or self.connections >= self._limits.connections:
            one_of = connection.address if of_one else None
            if not self._drop_idle(now, one_of):
                what = "from this address" if of_one else "to this server"
                connection.last_words(refusal(503, f"there are too many connections {what}"))
                connection.close()
                return
        self.counts.add(connection)
        connection.deadline = now + self._timeouts.request
        # A client's first request has often arrived together with the connection.
        self._take(connection, now)

    def _read(self, connection: Connection, now: float) -> None:
        if connection not in self._held:
            # This connection was closed earlier in the same round of the loop.
            return
        if connection.draining:
            if not connection.discard():
                self.close(connection)
            return
        self._take(connection, now)

    def _take(self, connection: Connection, now: float) -> None:
        """Receive a client's data; dispatch the connection if its request is complete, else wait for more."""
        try:
            if not connection.receive():
                self.close(connection)
                return
            request = connection.next_request()
        except RefusedError as error:
            self._release(connection)
            self.refuse(connection, error)
        except OSError as error:
            log.debug("a client is gone: %s", error)
            self.close(connection)
        except Exception:
            log.exception("a request could not be read")
            self.close(connection)
        else:
            if request is not None:
                self._release(connection)
                connection.request = request
                self._dispatch(connection)
            elif connection in self._held or self._hold(connection, now):
                self._note_unfinished(connection, now)

    def _note_unfinished(self, connection: Connection, now: float) -> None:
        """Set the deadline of an incomplete request, which counts from the first byte of the request."""
        if connection.in_body:
            began = self._held.get(connection, now) if connection in self._unfinished else now
            connection.deadline = began + self._timeouts.request
        if connection in self._unfinished or not (connection.in_head or connection.in_body):
            return
        if connection.in_head:
            connection.deadline = now + min(self._timeouts.header, self._timeouts.request)
        with self._lock:
            if connection not in self._held:
                return
            self._held[connection] = now
            self._unfinished[connection] = None
            victim = self._over_limit(connection, now)
        if victim is not None:
            self._too_slow(victim)

    def _over_limit(self, latest: Connection, now: float) -> Connection | None:
        """Return the connection with the oldest incomplete request, to be rejected over a limit after 1 s."""
        connection_limits, unfinished = self._limits, self._unfinished
        found = None
        if len(unfinished) > connection_limits.unfinished:
            found = next(iter(unfinished))
        elif len(unfinished) > connection_limits.unfinished_of_address and not latest.names_no_client:
            of_one = [each for each in unfinished if each.client == latest.client]
            if len(of_one) > connection_limits.unfinished_of_address:
                found = of_one[0]
        return found if found is not None and now - self._held[found] >= _YOUNG_SECONDS else None

    def _end_overdue(self, now: float) -> None:
        for connection in [each for each in list(self._held) if each.deadline < now]:
            if connection in self._unfinished:
                self._too_slow(connection)
            else:
                self.close(connection)

    def _too_slow(self, connection: Connection) -> None:
        self._release(connection)
        what = "body" if connection.in_body else "head"
        self.refuse(connection, RefusedError(408, f"the {what} of the request came too slowly"))

    # --- open connections -----------------------------------------------------------------------------------

    def _hold(self, connection: Connection, now: float) -> bool:
        with self._lock:
            if not self._closed:
                try:
                    self._selector.register(connection.socket, selectors.EVENT_READ, connection)
                except (OSError, ValueError, KeyError) as error:
                    log.warning("a connection cannot be watched and is closed: %s", error)
                else:
                    self._held[connection] = now
                    return True
        self.close(connection)
        return False

    def _release(self, connection: Connection) -> None:
        with self._lock:
            self._forget(connection)

    def _forget(self, connection: Connection) -> None:
        if self._held.pop(connection, None) is not None:
            self._unfinished.pop(connection, None)
            with contextlib.suppress(KeyError, ValueError):
                self._selector.unregister(connection.socket)

    def _drop_idle(self, now: float, address: str | None) -> bool:
        """Close the longest idle connection (of one address); return False if none was idle for a second."""
        with self._lock:
            idle = self._idle_first(self._held.items(), now, address)
        if idle is None:
            return False
        self.close(idle)
        return True

    def _idle_first(
        self, held: Iterable[tuple[Connection, float]], now: float, address: str | None
    ) -> Connection | None:
        for connection, since in held:
            if now - since < _YOUNG_SECONDS:
                # The first request of a connection younger than a second may be on its way.
                continue
            if connection not in self._unfinished and address in (None, connection.address):
                return connection
        return None

    def _pause(self, now: float, error: OSError) -> None:
        """Accept nothing for 250 ms: without free file descriptors, a ready listener makes the loop spin."""
        self._drop_idle(now, None)
        if not self._paused_until:
            log.warning("no connection can be accepted: %s", error)
            self._selector.unregister(self._listener)
        self._paused_until = now + PAUSE_SECONDS

    def _accept_again(self, now: float) -> None:
        if self._paused_until and now >= self._paused_until:
            self._paused_until = 0.0
            self._selector.register(self._listener, selectors.EVENT_READ)
