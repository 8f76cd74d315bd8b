"""Schedule of Python's collections of cyclic garbage, which avoids long pauses of the server.

Python runs a full collection whenever the old generation has grown by a quarter; with large windows and
tables a full collection takes a second, in which no thread computes. The module `garbage` freezes
(`gc.freeze`) the objects that survive a collection of the two young generations, so that collections scan
only newer objects. Frozen cyclic garbage (dropped queries, closed connections) is found by the full
collection every ten minutes.

Python starts a garbage collection when allocations exceed deallocations by a threshold. A window that loses
as many rows as it receives rarely reaches the collector's threshold, and then each collection scans tens of
thousands of new objects. So the module `garbage` also collects young objects periodically, a few thousand at
a time, and less often while the server is idle and few objects are new.

Most computations create no reference cycles, so that a collection would find no garbage. While the last young
collections found no garbage, three of four are replaced by freezing the young objects without a scan: a full
collection finds the cycles among these objects.
"""

from __future__ import annotations

import gc
import threading
import time

FULL_SECONDS = 600.0
YOUNG_SECONDS = 0.02
IDLE_TIMES = 8
"""Factor by which the pause between collections of young objects is longer while the server is idle."""
_IDLE_SECONDS = 0.001
SAMPLED = 4
"""After this number of young collections without garbage, only one in this number is run."""
_THRESHOLDS = (700, 2, 10)


class CollectionSchedule:
    """Schedule that, while started, collects young Python objects often, and all objects rarely."""

    def __init__(self, interval_s: float = FULL_SECONDS, young_s: float = YOUNG_SECONDS) -> None:
        """Create a stopped schedule with the seconds between full (``interval_s``) and young collections."""
        self._interval_s = interval_s
        self._young_s = young_s
        self._before: tuple[int, int, int] | None = None
        # Number of young collections since the last one that found garbage, and of skipped young collections
        # since the last run.
        self._clean = self._unseen = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Freeze all present objects and start the garbage collections; a second call does nothing."""
        if self._before is not None:
            return
        self._before = gc.get_threshold()
        gc.callbacks.append(self._collected)
        gc.set_threshold(*_THRESHOLDS)
        gc.freeze()
        gc.enable()
        self._thread = threading.Thread(target=self._run, name="quadrill-garbage", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the scheduled collections and restore the former state of Python's garbage collector."""
        if self._before is None or self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()
        self._before = None

    def collect_young(self) -> None:
        """Collect recently created objects, or only freeze them if recent collections found no garbage."""
        if self._clean >= SAMPLED and self._unseen < SAMPLED - 1:
            gc.freeze()
            self._unseen += 1
        else:
            gc.collect(1)
            self._unseen = 0

    def collect_all(self) -> int:
        """Run a full garbage collection, frozen objects included; return the number of garbage objects."""
        gc.unfreeze()
        return gc.collect()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Record whether a garbage collection found garbage; Python calls this function in any thread."""
        if phase == "stop" and info["generation"]:
            gc.freeze()
            self._clean = 0 if info["collected"] else self._clean + 1

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        wait, computed = self._young_s, time.process_time()
        while not self._stopping.wait(min(wait, self._interval_s)):
            if time.monotonic() < due:
                self.collect_young()
            else:
                self.collect_all()
                due = time.monotonic() + self._interval_s
            before, computed = computed, time.process_time()
            idle = computed - before < _IDLE_SECONDS
            wait = min(2 * wait, IDLE_TIMES * self._young_s) if idle else self._young_s
