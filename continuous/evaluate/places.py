"""Places for child processes of evaluations: so many live at once, and the others wait in line.

A place is for one evaluation. Who comes first is served first, and a query has one evaluation at a time, so
each has its turn before another one has its second.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Lock, get_ident

_LEAST, _MOST = 2, 8


class EvaluationPermit:
    """A place, or a wait for one. `ready` is called by whoever waits, `is_due` by whoever has it.

    Attributes:
        thread: in which it was asked for.
    """

    def __init__(self, places: Places) -> None:
        self.thread = get_ident()
        self._places = places
        self._given = Event()
        self._since = 0.0

    def ready(self, seconds: float) -> bool:
        """Wait for it for at most so many seconds; True once it is there."""
        return self._given.wait(seconds) if seconds else self._given.is_set()

    def is_due(self, seconds: float) -> bool:
        """True when it has been held for so long and others wait."""
        return self._places.waiting > 0 and time.monotonic() - self._since > seconds

    def give(self) -> None:
        """It is there from now on."""
        self._since = time.monotonic()
        self._given.set()


class Places:
    """So many places; may be used in any thread.

    Attributes:
        most: how many there are.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self._lock = Lock()
        self._held = set[EvaluationPermit]()
        self._line: dict[EvaluationPermit, None] = {}

    @property
    def held(self) -> int:
        """How many are held."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """How many wait for one."""
        return len(self._line)

    @contextmanager
    def one(self) -> Iterator[EvaluationPermit]:
        """A place for the time of a ``with``; it is to be waited for."""
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
        """Give one more than there are to a thread that cannot go on otherwise: it holds others itself."""
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
"""Those of this process: as many as the machine has cores, but at least 2 and at most 8."""
