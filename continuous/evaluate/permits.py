"""Permits for evaluations in child processes: a bounded number run at once, and the others are queued.

A permit allows one evaluation to run in a child process. Permits are granted in order of arrival, and a query
has one evaluation at a time, so every waiting query gets a permit before another query gets its second one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, get_ident

_LEAST, _MOST = 2, 8
"""Least and greatest number of permits for child processes of this process."""


class EvaluationPermit:
    """A permit for an evaluation in a child process, granted or awaited.

    The thread that waits for a permit calls `ready`, and the running evaluation calls `is_due`.

    Attributes:
        thread: the id of the thread that asked for the permit.
    """

    def __init__(self, pool: PermitPool) -> None:
        self.thread = get_ident()
        self._pool = pool
        self._granted = Event()
        self._granted_at = 0.0

    def ready(self, seconds: float) -> bool:
        """Wait for the permit for at most ``seconds``; return True once the permit is granted."""
        return self._granted.wait(seconds) if seconds else self._granted.is_set()

    def is_due(self, seconds: float) -> bool:
        """True if the permit was held for more than ``seconds`` and other evaluations wait."""
        return self._pool.waiting > 0 and time.monotonic() - self._granted_at > seconds

    def grant(self) -> None:
        """Grant this permit to the evaluation that waits for it."""
        self._granted_at = time.monotonic()
        self._granted.set()


class PermitPool:
    """A pool of permits for evaluations in child processes; may be used in any thread.

    Attributes:
        size: the number of permits, without extra permits for threads that already hold one.
    """

    def __init__(self, size: int) -> None:
        self.size = size
        self._lock = Lock()
        self._running = set[EvaluationPermit]()
        self._queue: dict[EvaluationPermit, None] = {}

    @property
    def running(self) -> int:
        """The number of granted permits for child processes."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """The number of evaluations that wait for a permit."""
        return len(self._queue)

    @contextmanager
    def request(self) -> Iterator[EvaluationPermit]:
        """Queue for a permit, and return the permit to the pool at the end of the ``with`` block.

        The caller must wait for `EvaluationPermit.ready` before it starts a child process.
        """
        permit = EvaluationPermit(self)
        with self._lock:
            self._queue[permit] = None
            self._grant_next()
        try:
            yield permit
        finally:
            with self._lock:
                self._queue.pop(permit, None)
                self._running.discard(permit)
                self._grant_next()

    def grant_extra(self, permit: EvaluationPermit) -> None:
        """Grant an extra permit to a thread that already holds a permit, which cannot wait for itself."""
        with self._lock:
            if permit in self._queue and any(each.thread == permit.thread for each in self._running):
                self._grant(permit)

    def _grant_next(self) -> None:
        while self._queue and len(self._running) < self.size:
            self._grant(next(iter(self._queue)))

    def _grant(self, permit: EvaluationPermit) -> None:
        del self._queue[permit]
        self._running.add(permit)
        permit.grant()


PERMITS = PermitPool(min(max(os.cpu_count() or 1, _LEAST), _MOST))
"""The permits of this process: as many as the machine has cores, but at least 2 and at most 8."""
