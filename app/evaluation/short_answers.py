"""Short answers one after the other: threads that compute at once take the interpreter from each other."""

from __future__ import annotations

import threading
import time

from ..http.request import FastLaneThread

WAIT_SECONDS = 0.02
"""Seconds that an answer waits for the ones before it; what takes longer is not short."""
APART_SECONDS = 0.5
"""Seconds in which no answer waits after one has waited in vain."""


class ShortAnswerLock:
    """Lets one thread answer at a time, as far as answers are short; one that has waited in vain goes on.

    Python runs one thread at a time anyway. Eight that answer at once hand the interpreter to each other at
    every system call, several times in each answer; one after the other they do so once.
    """

    def __init__(self, wait: float = WAIT_SECONDS, apart: float = APART_SECONDS) -> None:
        self._lock = threading.Lock()
        self._wait = wait
        self._apart = apart
        self._apart_until = 0.0

    def hold(self, lane: FastLaneThread | None = None) -> LockLease:
        """The lock when it is free soon, or a hold of nothing; in either case one may answer.

        ``lane`` is the thread of short answers when it asks.
        """
        if self._lock.acquire(blocking=False):
            return LockLease(self._lock, lane)
        if time.monotonic() >= self._apart_until:
            if self._lock.acquire(timeout=self._wait):
                return LockLease(self._lock, lane)
            self._apart_until = time.monotonic() + self._apart
        return LockLease(None, lane)


class LockLease:
    """The lock until it is released, at the latest at the end of the context."""

    __slots__ = ("_lane", "_lock")

    def __init__(self, lock: threading.Lock | None, lane: FastLaneThread | None = None) -> None:
        self._lock = lock
        self._lane = lane

    def __enter__(self) -> LockLease:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    @property
    def is_held(self) -> bool:
        """False where the lock was not free, and once it is released."""
        return self._lock is not None

    def release_early(self) -> None:
        """Let the next one answer, and those that wait for the lane: this answer is not short."""
        self._release()
        if self._lane is not None:
            self._lane.step_aside()
            self._lane = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
