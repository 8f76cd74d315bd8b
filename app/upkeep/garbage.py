"""Python's search for cyclic garbage, so that it never stops the server for long.

Python looks through everything that is old whenever a quarter more has become old; with large windows and
tables that takes a second, during which nobody computes. Here what has survived a collection of the two young
generations is set aside (`gc.freeze`), so that a collection looks at what came since. What is set aside and
let go in cycles (queries that were dropped, connections) is found when all is looked through, every ten
minutes.

Python begins a collection when so many more objects came than went. A window that loses as many rows as it
gets hides that: its collections are rare, and each looks at tens of thousands of new objects. So the young
ones are looked at by the clock as well, a few thousand at a time; less often while next to nothing is
computed, by which few can have come.

Most of what computes makes no cycles at all. Where the last looks have found none, three times of four the
young ones are set aside unseen: a cycle among them is found when all is looked through.
"""

from __future__ import annotations

import gc
import threading
import time

LOOK_THROUGH_SECONDS = 600.0
YOUNG_SECONDS = 0.02
IDLE_TIMES = 8
"""So many times as long it is from one look to the next while next to nothing is computed."""
_IDLE_SECONDS = 0.001
SAMPLED = 4
"""So many looks that found nothing make that of so many one is taken."""
_THRESHOLDS = (700, 2, 10)


class CollectionSchedule:
    """While started, collections of this process look at young objects, and at all of them now and then."""

    def __init__(self, interval_s: float = LOOK_THROUGH_SECONDS, young_s: float = YOUNG_SECONDS) -> None:
        """``interval_s``: seconds between two looks through everything, ``young_s``: at young objects."""
        self._interval_s = interval_s
        self._young_s = young_s
        self._before: tuple[int, int, int] | None = None
        # Looks since one found something, and times since the last look at which none was taken.
        self._clean = self._unseen = 0
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, with what there is set aside; nothing happens at a second call."""
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
        """Leave everything as it was before."""
        if self._before is None or self._thread is None:
            return
        self._stopping.set()
        self._thread.join()
        gc.callbacks.remove(self._collected)
        gc.set_threshold(*self._before)
        gc.unfreeze()
        self._before = None

    def look_at_young(self) -> None:
        """Look at the objects that came since the last look, or set them aside where that is as good."""
        if self._clean >= SAMPLED and self._unseen < SAMPLED - 1:
            gc.freeze()
            self._unseen += 1
        else:
            gc.collect(1)
            self._unseen = 0

    def look_through(self) -> int:
        """Look through all objects, those that were set aside, too; how many were found to be garbage."""
        gc.unfreeze()
        return gc.collect()

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Called by Python around each collection, in whichever thread it runs."""
        if phase == "stop" and info["generation"]:
            gc.freeze()
            self._clean = 0 if info["collected"] else self._clean + 1

    def _run(self) -> None:
        due = time.monotonic() + self._interval_s
        wait, computed = self._young_s, time.process_time()
        while not self._stopping.wait(min(wait, self._interval_s)):
            if time.monotonic() < due:
                self.look_at_young()
            else:
                self.look_through()
                due = time.monotonic() + self._interval_s
            before, computed = computed, time.process_time()
            idle = computed - before < _IDLE_SECONDS
            wait = min(2 * wait, IDLE_TIMES * self._young_s) if idle else self._young_s
