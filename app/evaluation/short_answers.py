"""A lock that serialises short answers, because concurrent threads compete for the interpreter lock."""

from __future__ import annotations

import threading
import time

from ..http.request import FastLaneThread

WAIT_SECONDS = 0.02
"""Maximum seconds that an answer waits for the lock; a holder that takes longer is not short."""
APART_SECONDS = 0.5
"""After one answer has waited in vain, the seconds in which no answer waits for the lock."""


class ShortAnswerLock:
    """A lock that one short answer holds at a time; an answer that has waited in vain runs without the lock.

    Python runs one thread at a time anyway. Eight concurrent answers pass the interpreter lock to each other
    at every system call, several times in each answer; serialised answers pass the interpreter lock only
    once.
    """

    def __init__(self, wait: float = WAIT_SECONDS, apart: float = APART_SECONDS) -> None:
        self._lock = threading.Lock()
        self._wait = wait
        self._apart = apart
        self._apart_until = 0.0

    def hold(self, lane: FastLaneThread | None = None) -> LockLease:
        """Return a lease of the lock, or an empty lease if the lock is not free in time.

        With either lease the caller may answer. ``lane`` is the fast lane if its thread is the caller.
        """
        if self._lock.acquire(blocking=False):
            return LockLease(self._lock, lane)
        if time.monotonic() >= self._apart_until:
            if self._lock.acquire(timeout=self._wait):
                return LockLease(self._lock, lane)
            self._apart_until = time.monotonic() + self._apart
        return LockLease(None, lane)


class LockLease:
    """A lease of the lock, which ends at the latest with the context."""

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
        """True while this lease holds the lock."""
        return self._lock is not None

    def release_early(self) -> None:
        """Release the lock, and the connections of the fast lane, because this answer is not short."""
        self._release()
        if self._lane is not None:
            self._lane.step_aside()
            self._lane = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
