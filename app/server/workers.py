"""Worker threads that answer queued requests, with additional threads while all workers wait.

A worker may wait for a slow client, for a worker process or for the engine. If no request leaves the workers'
queue for 50 ms, the server adds threads, up to a limit, which is higher while workers wait for clients. At
the limit of threads, the server disconnects the clients that have kept workers waiting longest, after a
second at the earliest, and at most one client for each queued request. Additional worker threads end when
they have been idle for some seconds.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from operator import itemgetter
from queue import Empty, SimpleQueue
from typing import Protocol

from .connection import Connection

log = logging.getLogger("quadrill.server")

STUCK_SECONDS = 0.05
"""Seconds without progress of the workers' queue after which the server adds threads."""
IDLE_SECONDS = 5.0
CUT_SECONDS = 1.0
"""Seconds for which a client may keep a worker waiting before it may be disconnected."""


class BackgroundWork(Protocol):
    """Work of low priority in worker threads, such as the later parts of large answers."""

    def waiting(self) -> int:
        """Return the number of workers that only wait for background work of other threads."""

    def pause(self) -> None:
        """Suspend the background work for some milliseconds, so that queued requests are answered first."""


class Workers:
    """A queue of connections with a complete request, and the threads that answer the requests.

    Attributes:
        taken: number of connections that workers have taken out of the queue.
        none_waits: returns True if the queue of connections is empty.
    """

    def __init__(
        self,
        name: str,
        threads: int,
        most: int,
        work: Callable[[Workers, Connection], object],
        *,
        most_for_clients: int = 0,
        stack_bytes: int = 0,
        idle_seconds: float = IDLE_SECONDS,
        background: BackgroundWork | None = None,
    ) -> None:
        """Make a pool of worker threads without starting them.

        Args:
            name: the name of the worker threads.
            threads: number of permanent worker threads.
            most: maximum number of worker threads, without the further ones of ``most_for_clients``.
            most_for_clients: maximum number of further threads, which replace threads that wait for a client
                to send or to receive.
            work: called with the pool and a connection; answers the request and gives the connection to its
                next owner.
            stack_bytes: stack size of each thread in bytes; 0 for the default of the platform.
            idle_seconds: seconds without work after which an additional thread ends.
            background: work of low priority in the worker threads, which pauses while requests are queued.
        """
        self._name = name
        self._least = threads
        self._most = max(threads, most)
        self._most_for_clients = most_for_clients
        self._work = work
        self._stack_bytes = stack_bytes
        self._idle_seconds = idle_seconds
        self._background = background
        self._queue: SimpleQueue[Connection | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._present: dict[threading.Thread, Connection] = {}
        self.taken = 0
        self._seen_taken = 0
        self._stuck_since = self._saturated_since = 0.0
        self._ending = False
        self.none_waits = self._queue.empty

    @property
    def threads(self) -> int:
        """The current number of worker threads."""
        return len(self._threads)

    @property
    def busy(self) -> int:
        """The number of worker threads that currently have a connection."""
        return len(self._present)

    def start(self) -> None:
        """Start the permanent worker threads."""
        self._add(self._least)

    def put(self, connection: Connection) -> None:
        """Enqueue a connection with a complete request for the workers."""
        self._queue.put(connection)

    def look(self, now: float) -> bool:
        """Check whether requests leave the queue; if none does, add threads or disconnect slow clients.

        Returns: True while connections are queued.
        """
        if self._queue.empty():
            self._stuck_since = self._saturated_since = 0.0
            return False
        self._pause_background(now)
        if not self._stuck_since or self.taken != self._seen_taken:
            self._seen_taken = self.taken
            self._stuck_since = now
        elif now - self._stuck_since >= STUCK_SECONDS:
            self._stuck_since = now
            waits = sum(each.waits_since > 0 for each in list(self._present.values()))
            waits += self._background.waiting() if self._background is not None else 0
            room = self._most + min(waits, self._most_for_clients) - len(self._threads)
            queued = self._queue.qsize()
            if room > 0:
                self._add(min(room, queued))
            else:
                self._cut_slowest(now, queued)
        return True

    def stop(self) -> None:
        """Make the worker threads end after their current requests and the requests queued so far."""
        with self._lock:
            self._ending = True
            count = len(self._threads)
        for _ in range(count):
            self._queue.put(None)

    def join(self, until: float) -> bool:
        """Wait for the worker threads to end; return False if one still runs at the time ``until``."""
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in list(self._threads))

    def cut_waiting(self) -> None:
        """Disconnect every client that a worker waits for."""
        for connection in list(self._present.values()):
            if connection.waits_since:
                connection.cut()

    def _add(self, number: int) -> None:
        before = threading.stack_size(self._stack_bytes)
        try:
            with self._lock:
                for _ in range(0 if self._ending else number):
                    thread = threading.Thread(target=self._run, name=self._name, daemon=True)
                    thread.start()
                    self._threads.add(thread)
        except RuntimeError as error:
            log.warning("no further worker can be started: %s", error)
        finally:
            threading.stack_size(before)

    def _run(self) -> None:
        me = threading.current_thread()
        queue, present = self._queue, self._present
        while True:
            try:
                connection = queue.get(
                    timeout=self._idle_seconds if len(self._threads) > self._least else None
                )
            except Empty:
                if self._is_surplus(me):
                    return
                continue
            if connection is None:
                break
            self.taken += 1
            present[me] = connection
            try:
                self._work(self, connection)
            except Exception:
                log.exception("a worker failed")
            finally:
                del present[me]
        with self._lock:
            self._threads.discard(me)

    def _is_surplus(self, me: threading.Thread) -> bool:
        with self._lock:
            if len(self._threads) <= self._least or self._ending:
                return False
            self._threads.discard(me)
            return True

    def _pause_background(self, now: float) -> None:
        """Pause background work if requests have been queued without a break for 50 ms."""
        self._saturated_since = self._saturated_since or now
        if self._background is not None and now - self._saturated_since >= STUCK_SECONDS:
            self._background.pause()

    def _cut_slowest(self, now: float, number: int) -> None:
        waits = [(each.waits_since or now, each) for each in list(self._present.values())]
        for since, slowest in sorted(waits, key=itemgetter(0))[:number]:
            if now - since < CUT_SECONDS:
                return
            log.warning(
                "the connection of a slow client at %s is cut, because other requests wait for a worker",
                slowest.client,
            )
            slowest.cut()
