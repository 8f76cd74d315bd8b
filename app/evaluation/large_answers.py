"""How many large answers are computed at a time, so that small ones beside them are soon answered.

A hundred clients may ask for everything at once. Were all those answers computed at a time, each small query
would wait for a hundred turns at the interpreter. What is behind the first kilobytes of an answer is computed
in one of a few places; who waits for its client leaves its place to another, first to those that have written
little. While requests are in line for a worker, all of them pause for a moment now and then.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

SMALL_BYTES = 16 << 10
"""An answer up to this size needs no place."""
LOOK_SECONDS = 0.25
"""How often one that waits for a place looks whether it is still wanted."""
PAUSE_SECONDS = 0.05
"""A pause for requests that are in line; there is one between two blocks at most."""
BEHIND_SECONDS_PER_BYTE = 0.05 / (256 << 10)
MOST_BEHIND_SECONDS = 1.0
"""An answer stands in line as if it had come so much later, by what it has written: none waits for ever."""


class LargeAnswers:
    """A few places for those that compute; safe to use from any thread."""

    def __init__(self, places: int) -> None:
        self._lock = threading.Lock()
        self._free = places
        self._numbers = itertools.count()
        self._line: list[tuple[float, int, threading.Lock]] = []
        self.paused_until = 0.0

    def waiting(self) -> int:
        """How many wait for a place."""
        return len(self._line)

    def pause(self) -> None:
        """Let requests that are in line go first, for a moment from now on."""
        self.paused_until = time.monotonic() + PAUSE_SECONDS

    def enter(self, written: int, is_over: Callable[[], bool]) -> bool:
        """Wait for a place.

        Args:
            written: bytes of the answer so far.
            is_over: asked now and then whether the answer is not wanted any more.

        Returns:
            False without a place, when it is over.
        """
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            given = threading.Lock()
            given.acquire()
            behind = min(written * BEHIND_SECONDS_PER_BYTE, MOST_BEHIND_SECONDS)
            waits = (time.monotonic() + behind, next(self._numbers), given)
            heapq.heappush(self._line, waits)
        while not given.acquire(timeout=LOOK_SECONDS):
            if is_over():
                with self._lock:
                    if waits in self._line:
                        self._line.remove(waits)
                        heapq.heapify(self._line)
                        return False
                # It was given at this very moment.
        return True

    def leave(self) -> None:
        """Give a place back, to the next in line."""
        with self._lock:
            if self._line:
                heapq.heappop(self._line)[-1].release()
            else:
                self._free += 1
