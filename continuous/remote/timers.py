"""Timers of fetches: dates in APScheduler, each fetch in a thread that nothing waits for."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from apscheduler.executors.debug import DebugExecutor
from apscheduler.jobstores.base import JobLookupError
from apscheduler.schedulers.background import BackgroundScheduler

from quadrill.store.threads import Threads

from ..clock import Clock

_AT_ONCE = 32
"""Fetches at a time. Each ends at its time-out, so those that hang hold the others up no longer than that."""


class Timers:
    """One date per key. The scheduler's own pool is not used: a process waits for the threads of a pool."""

    def __init__(self, clock: Clock, run: Callable[[str], None], threads: Threads) -> None:
        """Make timers that do not run yet.

        Args:
            clock: whose milliseconds the dates are.
            run: called with a key when its date has come.
            threads: where it is called; without any by whoever calls `run_due`.
        """
        self._clock = clock
        self._run = run
        self._threads = threads
        self._due: dict[str, int] = {}
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._scheduler: BackgroundScheduler | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Dates that are set, and those set later, are kept from now on."""
        with self._lock:
            if not self._threads.beside or self._scheduler is not None:
                return
            self._scheduler = BackgroundScheduler(
                timezone=UTC,
                daemon=True,
                executors={"default": DebugExecutor()},
                job_defaults={"misfire_grace_time": None, "coalesce": True},
            )
            self._scheduler.start()
            for key, due in self._due.items():
                self._schedule(key, due)

    def stop(self) -> None:
        """Forget all dates."""
        with self._lock:
            scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            # One that stops between beginning a job and forgetting it fails over it: what it has begun is
            # waited for, at the lock that it holds for that.
            scheduler.pause()
            scheduler.get_jobs()
            scheduler.shutdown(wait=False)

    def set(self, key: str, due_ms: int | None) -> None:
        """Set, move or (None) drop the date of a key."""
        if due_ms is None:
            self.cancel(key)
            return
        with self._lock:
            self._due[key] = due_ms
            if self._scheduler is not None:
                self._schedule(key, due_ms)

    def cancel(self, key: str) -> None:
        """Drop the date of a key."""
        with self._lock:
            self._due.pop(key, None)
            if self._scheduler is not None:
                try:
                    self._scheduler.remove_job(key)
                except JobLookupError:
                    return

    def run_due(self) -> None:
        """Run everything whose date has come; without threads only."""
        now = self._clock.now_ms()
        for key, due in list(self._due.items()):
            if due <= now and self._due.pop(key, None) is not None:
                self._run(key)

    def _schedule(self, key: str, due_ms: int) -> None:
        assert self._scheduler is not None
        wait = timedelta(milliseconds=max(0, due_ms - self._clock.now_ms()))
        self._scheduler.add_job(
            self._begin, "date", run_date=datetime.now(UTC) + wait, args=[key], id=key,
            replace_existing=True,
        )  # fmt: skip

    def _begin(self, key: str) -> None:
        """Called by the scheduler, which must go on at once: it holds a lock that `set` waits for."""
        self._due.pop(key, None)
        self._threads.start(partial(self._work, key), "quadrill-fetch")

    def _work(self, key: str) -> None:
        with self._room:
            self._run(key)
