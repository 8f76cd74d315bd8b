"""Short answers one after the other: threads that compute at once take the interpreter from each other."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

WAIT_SECONDS = 0.02
"""So long an answer waits for the ones before it; what takes longer is none of the short ones."""
APART_SECONDS = 0.5
"""So long nobody waits after one waited in vain."""


class Turn:
    """Lets one thread answer at a time, as far as answers are short: who waits in vain goes on beside it.

    Python runs one thread at a time anyway. Eight that answer at once hand the interpreter to each other at
    every system call, several times in each answer; in line they do so once.
    """

    def __init__(self, wait: float = WAIT_SECONDS, apart: float = APART_SECONDS) -> None:
        self._lock = threading.Lock()
        self._wait = wait
        self._apart = apart
        self._apart_until = 0.0

    def take(self, aside: Callable[[], None] | None = None) -> Held:
        """The turn when it comes, or nothing where it does not come soon; in either case one may answer.

        ``aside`` is called when the turn is given back early.
        """
        if self._lock.acquire(blocking=False):
            return Held(self._lock, aside)
        if time.monotonic() >= self._apart_until:
            if self._lock.acquire(timeout=self._wait):
                return Held(self._lock, aside)
            self._apart_until = time.monotonic() + self._apart
        return Held(None, aside)


class Held:
    """A turn until it is given back, at the latest at the end of the context."""

    __slots__ = ("_aside", "_lock")

    def __init__(self, lock: threading.Lock | None, aside: Callable[[], None] | None = None) -> None:
        self._lock = lock
        self._aside = aside

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self._release()

    @property
    def is_held(self) -> bool:
        """False where it did not come, and when it is given back."""
        return self._lock is not None

    def give_back(self) -> None:
        """Let the next one answer: this one is not short."""
        self._release()
        if self._aside is not None:
            self._aside()
            self._aside = None

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None
