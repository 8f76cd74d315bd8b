"""One thread that answers the short requests of busy clients, one after the other.

    a worker has answered a short request --adopt--> wait for all, read, answer; at the end of a round
                                                     one wait for the log, then the delayed answers
    a long, incomplete or missing request --> back to the workers and the connection loop

Concurrent threads pass the interpreter lock to each other at every system call, and pass connections to each
other; one thread for short requests saves both costs. No request may block the thread of the fast lane: if an
answer takes long, all other connections leave the lane, and for 250 ms the workers answer every request.
"""

from __future__ import annotations

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from ..http.request import Request
from .connection import Connection
from .connection_owner import ConnectionOwner
from .refused import RefusedError

log = logging.getLogger("quadrill.server")

LONG_SECONDS = 0.02
"""Seconds after which an answer counts as long, and the other connections leave the fast lane."""
APART_SECONDS = 0.25
"""Seconds for which the fast lane takes no connections after a long answer."""
IDLE_SECONDS = 0.25
"""Seconds without a request after which a connection leaves the fast lane for the connection loop."""
_LOOK_SECONDS = 0.1
_FURTHER = 8
"""Maximum number of further polls for requests before the fast lane waits for the log to sync."""

Later: TypeAlias = Callable[[], bool]
"""Waits for the journal and completes a short answer; returns True if the connection stays open."""
Answer: TypeAlias = Callable[[Connection, Request], "bool | Later | None"]
"""Answers a short request in the fast lane. An answering function returns True if the connection stays open,
False if it is closed or has another owner, a function that completes the answer later, or None for a request
that is not short.
"""


class FastLane:
    """The fast lane: the thread that answers short requests, and its connections.

    If an answer takes too long, all other connections leave the fast lane.
    """

    def __init__(
        self,
        answer: Answer,
        dispatch: Callable[[Connection], None],
        home: ConnectionOwner,
        *,
        stack_bytes: int = 0,
        idle: float = IDLE_SECONDS,
        apart: float = APART_SECONDS,
    ) -> None:
        """Make a fast lane without connections, whose thread is not started.

        Args:
            answer: answers a short request, in the thread of the fast lane.
            dispatch: passes a connection whose request is not short to a worker.
            home: the owner to which idle connections return.
            stack_bytes: stack size of the fast lane's thread in bytes; 0 for the default of the platform.
            idle: seconds without a request after which a connection returns to ``home``.
            apart: seconds for which the fast lane takes no connections after a long answer.
        """
        self._make_answer = answer
        self._dispatch = dispatch
        self._home = home
        self._stack_bytes = stack_bytes
        self._idle_seconds, self._apart_seconds = idle, apart
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        # The lock guards waiting connections, delayed answers, the end of the pause, and the selector's
        # registrations.
        self._lock = threading.Lock()
        self._waits: dict[Connection, float] = {}
        self._owed: deque[tuple[Connection, Later]] = deque()
        self._apart_until = 0.0
        self._ending = False
        # The start time and the connection of the fast lane's current answer; 0 and None between answers.
        self._since = 0.0
        self._present: Connection | None = None
        self._thread = threading.Thread(target=self._run, name="quadrill-quick", daemon=True)

    @property
    def busy(self) -> bool:
        """True while the fast lane has connections."""
        return bool(self._waits or self._since)

    def start(self) -> None:
        """Start the thread of the fast lane."""
        before = threading.stack_size(self._stack_bytes)
        try:
            self._thread.start()
        finally:
            threading.stack_size(before)

    def stop(self) -> None:
        """Return all connections to the connection loop, and end the thread after the current answer."""
        self._ending = True
        self._release_idle()
        with contextlib.suppress(OSError):
            self._wake.send(b"x")

    def join(self, until: float) -> bool:
        """Wait until ``until`` for the end of the thread; return False if it still answers a request."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, until - time.monotonic()))
        return not self._thread.is_alive()

    def cut_waiting(self) -> None:
        """Cut the connection of the client for which the fast lane's thread waits."""
        present = self._present
        if present is not None and present.waits_since:
            present.cut()

    # --- methods that other threads call --------------------------------------------------------------------

    def adopt(self, connection: Connection) -> bool:
        """Add a connection whose last request was short; return False if the fast lane rejects it."""
        now = time.monotonic()
        with self._lock:
            if self._ending or now < self._apart_until or self._is_long(now):
                return False
            return self._watch(connection, now)

    def look(self, now: float) -> bool:
        """Release waiting connections if the current answer is long; return True while the lane is busy."""
        if self._is_long(now):
            self.step_aside()
        return self.busy

    def _is_long(self, now: float) -> bool:
        since = self._since
        return since > 0 and now - since > LONG_SECONDS

    def step_aside(self) -> None:
        """Return waiting connections to the connection loop, and complete delayed answers in new threads."""
        with self._lock:
            self._apart_until = time.monotonic() + self._apart_seconds
            owed = [*self._owed]
            self._owed.clear()
            for connection, _later in owed:
                self._unwatch(connection)
        for each in owed:
            threading.Thread(target=self._end_apart, args=each, name="quadrill-owed", daemon=True).start()
        self._release_idle()

    def _end_apart(self, connection: Connection, later: Later) -> None:
        if later():
            self._home.put(connection)

    # --- methods that run in the thread of the fast lane ----------------------------------------------------

    def _run(self) -> None:
        next_look = 0.0
        while not self._ending:
            try:
                self._round(self._ready(_LOOK_SECONDS if self._waits else None))
                now = time.monotonic()
                if now >= next_look:
                    next_look = now + _LOOK_SECONDS
                    self._release_idle(now - self._idle_seconds)
            except Exception:
                log.exception("the thread of short answers met an error")
                time.sleep(_LOOK_SECONDS)
        self._release_idle()
        self._selector.close()
        for each in (self._wake, self._woken):
            each.close()

    def _ready(self, seconds: float | None) -> list[Connection]:
        """Wait at most ``seconds`` for data of clients; return the connections that have received data."""
        ready = self._selector.select(seconds)
        found = [key.data for key, _events in ready if key.data is not None]
        if len(found) < len(ready):
            self._woken.recv(4096)
        return found

    def _round(self, ready: list[Connection]) -> None:
        """Answer the requests of one round; the answers that wait for the journal share one wait."""
        self._answer_all(ready)
        for _ in range(_FURTHER):
            if not self._owed or not (further := self._ready(0)):
                break
            self._answer_all(further)
        while (first := self._first_owed()) is not None:
            connection, later = first
            self._begin(connection)
            goes_on = later()
            self._since = 0.0
            if goes_on:
                self._wait_for(connection)
            else:
                self._forget(connection)

    def _answer_all(self, ready: list[Connection]) -> None:
        """Receive the data of all ready connections of the fast lane, then answer their requests.

        The fast lane receives all data first: as soon as a push gives work to the engine's thread, that
        thread takes the interpreter lock at each system call, and later pushes would have to wait.
        """
        with self._lock:
            for connection in ready:
                if connection in self._waits:
                    _receive(connection)
        for connection in ready:
            with self._lock:
                if self._waits.pop(connection, None) is None:
                    continue  # another thread has returned this connection to its owner
            self._answer(connection)

    def _first_owed(self) -> tuple[Connection, Later] | None:
        with self._lock:
            return self._owed.popleft() if self._owed else None

    def _answer(self, connection: Connection) -> None:
        """Answer the request that a connection has received, then wait for its next request."""
        try:
            request = connection.next_request()
            if request is not None:
                self._begin(connection)
                goes_on = self._make_answer(connection, request)
                self._since = 0.0
                if goes_on is None or goes_on is False:
                    self._forget(connection)
                    if goes_on is None:
                        connection.request = request
                        self._dispatch(connection)
                    return
                if goes_on is not True:
                    with self._lock:
                        self._owed.append((connection, goes_on))
                    return
        except RefusedError as error:
            self._forget(connection)
            self._home.refuse(connection, error)
        except Exception:
            log.exception("a short request failed")
            self._since = 0.0
            self._forget(connection)
            self._home.close(connection)
        else:
            if connection.ended:
                self._forget(connection)
                self._home.close(connection)
            else:
                self._wait_for(connection)

    def _begin(self, connection: Connection) -> None:
        self._present = connection
        self._since = time.monotonic()

    def _wait_for(self, connection: Connection) -> None:
        """Keep a connection for its next request; return it to the loop if the request has come in part."""
        now = time.monotonic()
        with self._lock:
            if (
                now >= self._apart_until
                and not self._ending
                and not (connection.in_head or connection.in_body)
            ):
                self._waits[connection] = now
                return
            self._unwatch(connection)
        self._home.put(connection)

    # --- methods that add and remove connections of the fast lane -------------------------------------------

    def _watch(self, connection: Connection, now: float) -> bool:
        try:
            self._selector.register(connection.socket, selectors.EVENT_READ, connection)
        except (OSError, ValueError, KeyError):
            return False
        if not self._waits:
            # wake the thread, which sleeps without a time-out while the fast lane is empty
            self._wake.send(b"x")
        self._waits[connection] = now
        return True

    def _forget(self, connection: Connection) -> None:
        with self._lock:
            self._unwatch(connection)

    def _unwatch(self, connection: Connection) -> None:
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(connection.socket)

    def _release_idle(self, before: float | None = None) -> None:
        """Return the connections that have waited since before ``before`` (None: all) to their owner."""
        with self._lock:
            gone = [item for item in self._waits.items() if before is None or item[1] < before]
            for connection, _since in gone:
                del self._waits[connection]
                self._unwatch(connection)
        for connection, since in gone:
            self._home.put(connection, since)


def _receive(connection: Connection) -> None:
    try:
        connection.ended = not connection.receive()
    except OSError as error:
        log.debug("a client is gone: %s", error)
        connection.ended = True
