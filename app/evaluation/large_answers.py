"""A limit on the large answers computed at a time, so that small answers are not delayed.

A hundred clients may request the whole store at once. If a hundred large answers were computed at a time,
each small query would wait for a hundred other threads at the interpreter lock. The part of an answer after
its first 16 KiB is computed only while the answer holds one of a few slots. An answer that waits for its
client releases its slot, and answers that have written little get the next free slot. While requests are
queued for a worker, all large answers pause for 50 ms at most once in each block.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

SMALL_BYTES = 16 << 10
"""First bytes of an answer, which are computed without a slot for large answers."""
LOOK_SECONDS = 0.25
"""Seconds between two checks whether an answer that waits for a slot was stopped."""
PAUSE_SECONDS = 0.05
"""Seconds that a large answer pauses for queued requests, at most once between two blocks."""
BEHIND_SECONDS_PER_BYTE = 0.05 / (256 << 10)
MOST_BEHIND_SECONDS = 1.0
"""Maximum seconds by which the bytes that an answer has written delay it in the queue for a slot.

The bound on its delay in the queue keeps a large answer from waiting for ever."""


class LargeAnswers:
    """A fixed number of slots for large answers that are being computed; safe to use from any thread."""

    def __init__(self, places: int) -> None:
        self._lock = threading.Lock()
        self._free = places
        self._numbers = itertools.count()
        self._line: list[tuple[float, int, threading.Lock]] = []
        self.paused_until = 0.0

    def waiting(self) -> int:
        """Return the number of large answers that wait for a slot."""
        return len(self._line)

    def pause(self) -> None:
        """Make large answers pause for the next 50 ms, so that queued requests are served first."""
        self.paused_until = time.monotonic() + PAUSE_SECONDS

    def enter(self, written: int, is_over: Callable[[], bool]) -> bool:
        """Wait for a slot, in which a large answer may be computed.

        Args:
            written: bytes that the answer has already written.
            is_over: called periodically; returns True if the large answer was stopped or has timed out.

        Returns: True when the answer has a slot; False if the answer ended while it waited.
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
                # An answer that is no longer in the queue got its slot between the time-out and the check.
        return True

    def leave(self) -> None:
        """Release a slot for large answers, and pass it to the first answer in the queue, if any."""
        with self._lock:
            if self._line:
                heapq.heappop(self._line)[-1].release()
            else:
                self._free += 1
