"""Worker threads, which may wait: when all of them do, others take the requests that are in line.

A worker waits for a client that reads or sends slowly, for a process that evaluates, for the engine. When
nothing was taken out of a line for a moment, threads are added, up to a limit, and more for workers that wait
for clients; beyond it the clients that have kept workers waiting longest are cut, as many as are in line.
Threads that were added end when they have nothing to do.
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
"""A line that does not move for so long gets further threads."""
IDLE_SECONDS = 5.0
CUT_SECONDS = 1.0
"""A client is not cut before it has kept a worker waiting for so long, beyond what its bytes may take."""


class BackgroundWork(Protocol):
    """What workers do that is not urgent: the later parts of large answers."""

    def waiting(self) -> int:
        """How many workers only wait, for others that do such work."""

    def pause(self) -> None:
        """Let others go first, for a moment."""


class Workers:
    """A line of connections, each with a whole request, and the threads that answer them.

    Attributes:
        taken: how many were taken out of the line.
        none_waits: tells that no connection is in line.
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
        """Make workers; the threads begin with `start`.

        Args:
            name: of the threads.
            threads: how many there are.
            most: how many there may be while all wait.
            most_for_clients: how many more there may be in place of those that wait for a client to send or
                to receive.
            work: called with this and a connection: answers its request, and gives the connection away.
            stack_bytes: of each thread; 0 for what the platform gives.
            idle_seconds: a thread that was added ends when it had nothing to do for so long.
            background: work of these threads that those in line go before.
        """
        self._name = name
        self._least = threads
        self._most = max(threads, most)
        self._most_for_clients = most_for_clients
        self._work = work
        self._stack_bytes = stack_bytes
        self._idle_seconds = idle_seconds
        self._background = background
        self._line: SimpleQueue[Connection | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads: set[threading.Thread] = set()
        self._present: dict[threading.Thread, Connection] = {}
        self.taken = 0
        self._seen_taken = 0
        self._stuck_since = self._saturated_since = 0.0
        self._ending = False
        self.none_waits = self._line.empty

    @property
    def threads(self) -> int:
        """How many there are now."""
        return len(self._threads)

    @property
    def busy(self) -> int:
        """How many have a connection now."""
        return len(self._present)

    def start(self) -> None:
        """Start the threads."""
        self._add(self._least)

    def put(self, connection: Connection) -> None:
        """Put a connection in line."""
        self._line.put(connection)

    def look(self, now: float) -> bool:
        """See whether the line moves, and help when it does not; True while connections are in line."""
        if self._line.empty():
            self._stuck_since = self._saturated_since = 0.0
            return False
        self._let_pass(now)
        if not self._stuck_since or self.taken != self._seen_taken:
            self._seen_taken = self.taken
            self._stuck_since = now
        elif now - self._stuck_since >= STUCK_SECONDS:
            self._stuck_since = now
            waits = sum(each.waits_since > 0 for each in list(self._present.values()))
            waits += self._background.waiting() if self._background is not None else 0
            room = self._most + min(waits, self._most_for_clients) - len(self._threads)
            in_line = self._line.qsize()
            if room > 0:
                self._add(min(room, in_line))
            else:
                self._cut_slowest(now, in_line)
        return True

    def stop(self) -> None:
        """Let each thread end after what it does now."""
        with self._lock:
            self._ending = True
            count = len(self._threads)
        for _ in range(count):
            self._line.put(None)

    def join(self, until: float) -> bool:
        """Wait for the threads; False when some still run at that time."""
        for thread in list(self._threads):
            thread.join(max(0.0, until - time.monotonic()))
        return not any(thread.is_alive() for thread in list(self._threads))

    def cut_waiting(self) -> None:
        """Cut every client that a worker waits for."""
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
        line, present = self._line, self._present
        while True:
            try:
                connection = line.get(
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

    def _let_pass(self, now: float) -> None:
        """Work in the background pauses while the line is not empty, even when it moves."""
        self._saturated_since = self._saturated_since or now
        if self._background is not None and now - self._saturated_since >= STUCK_SECONDS:
            self._background.pause()

    def _cut_slowest(self, now: float, number: int) -> None:
        waits = [(each.waits_since or now, each) for each in list(self._present.values())]
        for since, slowest in sorted(waits, key=itemgetter(0))[:number]:
            if now - since < CUT_SECONDS:
                return
            log.warning(
                "a client at %s keeps a worker waiting and is cut: others are in line", slowest.client
            )
            slowest.cut()
