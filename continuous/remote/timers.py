"""Timers of fetches: dates in APScheduler; each fetch runs in a separate thread that no caller waits for."""

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
"""Maximum number of concurrent fetches; a hanging fetch delays others at most until its time-out."""


class Timers:
    """The timers of fetches, with at most one date per source key.

    Fetches do not run in the scheduler's thread pool, which would delay process exit.
    """

    def __init__(self, clock: Clock, run: Callable[[str], None], threads: Threads) -> None:
        """Create timers of fetches that do not run before `start`.

        Args:
            clock: the clock of the dates, which are in milliseconds.
            run: called with a key at the key's date.
            threads: starts the threads that call ``run``; without threads, `run_due` calls ``run``.
        """
        self._clock = clock
        self._run = run
        self._threads = threads
        self._due: dict[str, int] = {}
        self._room = threading.BoundedSemaphore(_AT_ONCE)
        self._scheduler: BackgroundScheduler | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Start the scheduler, with all fetch dates that were set before; does nothing without threads."""
        with self._lock:
            if not self._threads.threaded or self._scheduler is not None:
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
        """Stop the scheduler of fetches; no further fetches start."""
        with self._lock:
            scheduler, self._scheduler = self._scheduler, None
        if scheduler is not None:
            # A scheduler that shuts down between starting a job and removing the job raises an error. While
            # the scheduler starts a job, it holds its job lock, so `get_jobs`, which takes that lock, waits
            # for a started job.
            scheduler.pause()
            scheduler.get_jobs()
            scheduler.shutdown(wait=False)

    def set(self, key: str, due_ms: int | None) -> None:
        """Set or move the fetch date of a source's key; None cancels the date."""
        if due_ms is None:
            self.cancel(key)
            return
        with self._lock:
            self._due[key] = due_ms
            if self._scheduler is not None:
                self._schedule(key, due_ms)

    def cancel(self, key: str) -> None:
        """Cancel the fetch date of a source's key, if it has a date."""
        with self._lock:
            self._due.pop(key, None)
            if self._scheduler is not None:
                try:
                    self._scheduler.remove_job(key)
                except JobLookupError:
                    return

    def run_due(self) -> None:
        """Call ``run`` for every source key whose date has passed; used only without threads."""
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
        """Start the fetch of a source's key in a separate thread.

        The scheduler starts fetches while it holds a lock that `set` waits for, so starting a fetch must not
        block.
        """
        self._due.pop(key, None)
        self._threads.start(partial(self._work, key), "quadrill-fetch")

    def _work(self, key: str) -> None:
        with self._room:
            self._run(key)
