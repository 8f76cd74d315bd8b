"""A lock that serialises short answers, because concurrent threads compete for the interpreter lock."""

from __future__ import annotations

import threading
import time

from ..http.request import FastLaneThread

WAIT_SECONDS = 0.02
"""Maximum seconds that a short answer waits for the lock; an answer that holds it longer is not short."""
APART_SECONDS = 0.5
"""Seconds in which no short answer waits for the lock, after one answer has waited in vain."""


class ShortAnswerLock:
    """A lock that one short answer holds at a time; an answer that has waited in vain runs without the lock.

    Python runs one thread at a time, so short answers gain nothing from being concurrent. Eight concurrent
    answers pass the interpreter lock to each other at every system call, several times in each answer;
    serialised answers pass the interpreter lock only once.
    """

    def __init__(self, wait: float = WAIT_SECONDS, apart: float = APART_SECONDS) -> None:
        self._lock = threading.Lock()
        self._wait = wait
        self._apart = apart
        self._apart_until = 0.0

    def hold(self, lane: FastLaneThread | None = None) -> LockLease:
        """Return a lease of the lock for short answers, or an empty lease if the lock is not free in time.

        The caller may answer with a lease of the lock as well as with an empty lease. ``lane`` is the fast
        lane if its thread asks for the lease; None for other threads.
        """
        if self._lock.acquire(blocking=False):
            return LockLease(self._lock, lane)
        if time.monotonic() >= self._apart_until:
            if self._lock.acquire(timeout=self._wait):
                return LockLease(self._lock, lane)
            self._apart_until = time.monotonic() + self._apart
        return LockLease(None, lane)


class LockLease:
    """A lease of the lock for short answers, which ends at the latest when the ``with`` block ends."""

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
        """True while this lease holds the lock for short answers."""
        return self._lock is not None

    def release_early(self) -> None:
        """Release the lock for short answers and the fast lane, because this answer is not short."""
        self._release()
        if self._lane is not None:
            self._lane.step_aside()
            self._lane = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
