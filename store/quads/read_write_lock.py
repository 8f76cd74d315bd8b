"""The lock between readers that need several reads of one version and commits that become visible."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class ReadWriteLock:
    """A lock for many readers or one writer; waiting writers have priority, and readers may nest.

    Single queries of the store do not acquire the lock: a query compares `sequence` before and after it takes
    its snapshot.

    Attributes:
        sequence: incremented when a writer enters and leaves, so an odd number means that a writer is inside.
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
        """True if the calling thread holds the lock for reading the store."""
        return bool(getattr(self._held, "depth", 0))

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Keep commits from becoming visible inside the block, so that several reads see one version."""
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
        """Wait until all readers of the store have left, and keep new readers out inside the block."""
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
