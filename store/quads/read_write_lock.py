"""The gate between readers that need several queries of one version and the commits that become visible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """Many readers or one writer; a waiting writer goes first, a thread that reads already may read again.

    Single queries do not pass here: each has a snapshot, which it compares `sequence` around.

    Attributes:
        sequence: odd while a writer is inside, so that a reader sees whether one was there meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._readers = 0
        self._writers_waiting = 0
        self._writing = False
        self._held = threading.local()
        self.sequence = 0

    @property
    def held_by_thread(self) -> bool:
        """True in a thread that is reading."""
        return bool(getattr(self._held, "depth", 0))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Hold commits back while the block runs, so that several reads see one version."""
        depth: int = getattr(self._held, "depth", 0)
        with self._lock:
            while self._writing or (self._writers_waiting and not depth):
                self._changed.wait()
            self._readers += 1
        self._held.depth = depth + 1
        try:
            yield
        finally:
            self._held.depth = depth
            with self._lock:
                self._readers -= 1
                self._changed.notify_all()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Wait for the readers to leave, and keep new ones out while the block runs."""
        with self._lock:
            self._writers_waiting += 1
            try:
                while self._writing or self._readers:
                    self._changed.wait()
            finally:
                self._writers_waiting -= 1
            self._writing = True
        self.sequence += 1
        try:
            yield
        finally:
            self.sequence += 1
            with self._lock:
                self._writing = False
                self._changed.notify_all()
