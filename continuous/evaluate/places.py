"""Permits for evaluations in child processes: a bounded number run at once, and the others are queued.

A permit is for one evaluation. Permits are granted in order of arrival, and a query has one evaluation at a
time, so every waiting query gets a permit before another query gets its second one.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, get_ident

_LEAST, _MOST = 2, 8
"""Least and greatest number of permits of a process."""


class EvaluationPermit:
    """A granted or awaited permit. The waiting thread calls `ready`, the running evaluation calls `is_due`.

    Attributes:
        thread: the id of the thread that asked for the permit.
    """

    def __init__(self, places: Places) -> None:
        self.thread = get_ident()
        self._places = places
        self._given = Event()
        self._since = 0.0

    def ready(self, seconds: float) -> bool:
        """Wait for the permit for at most ``seconds``; return True once the permit is granted."""
        return self._given.wait(seconds) if seconds else self._given.is_set()

    def is_due(self, seconds: float) -> bool:
        """True if the permit was held for more than ``seconds`` and other evaluations wait for one."""
        return self._places.waiting > 0 and time.monotonic() - self._since > seconds

    def give(self) -> None:
        """Grant the permit."""
        self._since = time.monotonic()
        self._given.set()


class Places:
    """A pool of permits; may be used in any thread.

    Attributes:
        most: the number of permits, without extra permits for threads that already hold one.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._held = set[EvaluationPermit]()
        self._line: dict[EvaluationPermit, None] = {}

    @property
    def referenced_rows(self) -> int:
        """The number of granted permits."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """The number of evaluations that wait for a permit."""
        return len(self._line)

    @contextmanager
    def one(self) -> Iterator[EvaluationPermit]:
        """Queue for a permit, and return it at the end of the ``with`` block.

        The caller must wait for `EvaluationPermit.ready` before it starts a child.
        """
        place = EvaluationPermit(self)
        with self._lock:
            self._line[place] = None
            self._fill()
        try:
            yield place
        finally:
            with self._lock:
                self._line.pop(place, None)
                self._held.discard(place)
                self._fill()

    def give_beside(self, place: EvaluationPermit) -> None:
        """Grant an extra permit to a thread that already holds a permit, which cannot wait for itself."""
        with self._lock:
            if place in self._line and any(each.thread == place.thread for each in self._held):
                self._give(place)

    def _fill(self) -> None:
        while self._line and len(self._held) < self.most:
            self._give(next(iter(self._line)))

    def _give(self, place: EvaluationPermit) -> None:
        del self._line[place]
        self._held.add(place)
        place.give()


PLACES = Places(min(max(os.cpu_count() or 1, _LEAST), _MOST))
"""The permits of this process: as many as the machine has cores, but at least 2 and at most 8."""
