"""The one-shot queries that run now: listed, timed, and stopped on request."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from quadrill.store.errors import NotFoundError, QuadrillError


class CancelledError(QuadrillError):
    """Somebody stopped the query."""

    code = "cancelled"


@dataclass(slots=True, eq=False)
class Process:
    """One evaluation. ``lane`` is ``inline`` or ``worker``; ``stop`` ends a worker at once."""

    id: int
    kind: str
    text: str
    user: str
    started_ms: int
    started: float = field(default_factory=time.monotonic)
    lane: str = "inline"
    error: CancelledError | None = None
    stop: Callable[[], None] | None = None

    def cancelled(self) -> CancelledError | None:
        """The error to end with once somebody has stopped the process."""
        return self.error

    def interrupt(self, reason: str) -> None:
        """Stop: a worker at once, an inline evaluation at its next block."""
        self.error = CancelledError(reason)
        stop = self.stop
        if stop is not None:
            stop()

    def describe(self) -> dict[str, Any]:
        """The process as the API lists it; ``seconds`` it has run."""
        return {
            "id": str(self.id),
            "kind": self.kind,
            "text": self.text,
            "user": self.user,
            "started": self.started_ms,
            "seconds": round(time.monotonic() - self.started, 3),
            "lane": self.lane,
            "stopping": self.error is not None,
        }


class Processes:
    """The list of running evaluations; safe to use from any thread."""

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._running: dict[int, Process] = {}
        self._lock = threading.Lock()

    def begin(self, kind: str, text: str, user: str) -> Process:
        """Enter an evaluation; :meth:`end` must follow."""
        process = Process(next(self._ids), kind, text, user, time.time_ns() // 1_000_000)
        with self._lock:
            self._running[process.id] = process
        return process

    def end(self, process: Process) -> None:
        """Strike an evaluation off the list."""
        with self._lock:
            self._running.pop(process.id, None)

    def list(self) -> list[dict[str, Any]]:
        """The running evaluations, oldest first."""
        with self._lock:
            return [process.describe() for process in self._running.values()]

    def cancel_all(self) -> None:
        """Stop every evaluation that can be stopped; the server ends."""
        with self._lock:
            running = list(self._running.values())
        for process in running:
            process.interrupt("the query was stopped because the server stops")

    def cancel(self, process_id: str) -> None:
        """Stop an evaluation.

        Raises: NotFoundError when no such evaluation runs.
        """
        with self._lock:
            process = (
                self._running.get(int(process_id)) if process_id.isdigit() and len(process_id) < 19 else None
            )
        if process is None:
            raise NotFoundError(f"no process {process_id} is running", code="unknown-process")
        process.interrupt("the query was stopped by request")
