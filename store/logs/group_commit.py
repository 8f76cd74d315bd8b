"""The delay of a group commit: a writer waits a moment so that more records share its write and its fsync."""

from __future__ import annotations

import threading
import time
from collections.abc import Sized


class GroupCommitDelay:
    """The wait for further records before a log writes a group; callers of its methods hold the log's lock.

    Attributes:
        expected: number of records that the next group waits for.
        gathering: whether the writer is waiting for records now.
        enough: notified when a waiting writer has as many records as it expects.
        waiters: number of threads that wait for the thread that writes.
    """

    def __init__(self, lock: threading.Lock, interval_ms: int) -> None:
        """Create a delay that ends ``interval_ms`` after the last sync; ``lock`` is the lock of the log."""
        self._interval_s = interval_ms / 1000
        self.expected = 1
        self.gathering = False
        self.enough = threading.Condition(lock)
        self.waiters = 0

    def gather(self, records: Sized, synced_at: float) -> None:
        """Wait until ``records`` has the expected length or the interval since the last sync has passed.

        Other threads append to ``records`` during the wait; ``synced_at`` is the monotonic time of the last
        sync.
        """
        until = synced_at + self._interval_s
        self.gathering = True
        while len(records) < self.expected and (pause := until - time.monotonic()) > 0:
            self.enough.wait(pause)
        self.gathering = False
