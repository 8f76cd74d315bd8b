"""The one-shot queries that run now: listed, timed, and stopped on request."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrill.store.errors import NotFoundError, QuadrillError

_NUMBER = re.compile("[0-9]{1,18}")


class CancelledError(QuadrillError):
    """Somebody stopped the query."""

    code = "cancelled"


@dataclass(slots=True, eq=False)
class Process:
    """One evaluation, on since ``started`` on the monotonic clock.

    ``lane`` is ``inline`` or ``worker``; ``stop`` ends a worker at once; ``error`` is what to end with once
    somebody has stopped the process.
    """

    id: int
    kind: str
    text: str
    user: str
    started: float
    lane: str = "inline"
    error: CancelledError | None = None
    stop: Callable[[], None] | None = None

    def interrupt(self, reason: str) -> None:
        """Stop: a worker at once, an inline evaluation at its next block."""
        self.error = CancelledError(reason)
        stop = self.stop
        if stop is not None:
            stop()

    def describe(self) -> dict[str, Any]:
        """The process as the API lists it; ``seconds`` it has run."""
        seconds = time.monotonic() - self.started
        return {
            "id": str(self.id),
            "kind": self.kind,
            "text": self.text,
            "user": self.user,
            "started": round((time.time() - seconds) * 1000),
            "seconds": round(seconds, 3),
            "lane": self.lane,
            "stopping": self.error is not None,
        }


class Processes:
    """The list of running evaluations; safe to use from any thread.

    Every request passes here twice, so there is no lock: each access is one step of the interpreter.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._running: dict[int, Process] = {}

    def begin(self, kind: str, text: str, user: str) -> Process:
        """Enter an evaluation; :meth:`end` must follow."""
        process = Process(next(self._ids), kind, text, user, time.monotonic())
        self._running[process.id] = process
        return process

    def end(self, process: Process) -> None:
        """Strike an evaluation off the list."""
        self._running.pop(process.id, None)

    def list(self) -> list[dict[str, Any]]:
        """The running evaluations, oldest first."""
        return [process.describe() for process in list(self._running.values())]

    def cancel_all(self) -> None:
        """Stop every evaluation that can be stopped; the server ends."""
        for process in list(self._running.values()):
            process.interrupt(f"the {process.kind} was stopped because the server stops")

    def cancel(self, process_id: str) -> None:
        """Stop an evaluation.

        Raises: NotFoundError when no such evaluation runs.
        """
        process = self._running.get(int(process_id)) if _NUMBER.fullmatch(process_id) else None
        if process is None:
            raise NotFoundError(f"no process {process_id} is running", code="unknown-process")
        process.interrupt(f"the {process.kind} was stopped by request")
