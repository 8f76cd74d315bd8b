"""The list of running queries, updates and dumps; stops them on request or when their client leaves."""

from __future__ import annotations

import itertools
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrill.store.errors import NotFoundError, ReportedError

from ..server.request_client import RequestClient, current_recipient, departed

FIRST_CHECK_SECONDS = 0.2
"""Seconds after which the server checks whether an evaluation's client has left; most end earlier."""
_NUMBER = re.compile("[0-9]{1,18}")


class CancelledError(ReportedError):
    """An evaluation was stopped by request, by the departure of its client or by the end of the server."""

    code = "cancelled"


@dataclass(slots=True, eq=False)
class Process:
    """One running query, update or dump, which began at ``started`` on the monotonic clock.

    ``lane`` is ``inline`` for an evaluation in the server, or ``worker``; ``stop`` ends the worker process
    immediately; ``error`` is the error of a stopped evaluation; ``recipient`` is the client that waits for
    the answer, or None.
    """

    id: int
    kind: str
    text: str
    user: str
    started: float
    lane: str = "inline"
    error: CancelledError | None = None
    stop: Callable[[], None] | None = None
    recipient: RequestClient | None = None

    def check(self) -> None:
        """Raise CancelledError if the query, update or dump was stopped."""
        if self.error is not None:
            # `Process.check` raises a new error because the stored error would keep the frames and iterators
            # of the evaluation alive.
            raise CancelledError(self.error.message)

    def interrupt(self, reason: str) -> None:
        """Stop the evaluation: immediately in a worker process, else at its next check.

        A query or dump checks for a stop at each block of its answer, an update between two solutions.
        """
        self.error = CancelledError(reason)
        stop = self.stop
        if stop is not None:
            stop()

    def describe(self) -> dict[str, Any]:
        """Return the evaluation as the HTTP API shows it; ``seconds`` is its running time."""
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
    """The list of running queries, updates and dumps; safe to use from any thread.

    Every request changes the list of evaluations twice, so the list has no lock: each access is one atomic
    step of the interpreter. The lock ``_checking`` prevents that an answer begins during the check whether
    its client has left.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._running: dict[int, Process] = {}
        self._checking = threading.Lock()

    def begin(self, kind: str, text: str, user: str) -> Process:
        """Add a query, update or dump of the current thread's client; the caller later calls :meth:`end`."""
        process = Process(next(self._ids), kind, text, user, time.monotonic(), recipient=current_recipient())
        self._running[process.id] = process
        return process

    def answering(self, process: Process) -> None:
        """Record that the answer is being sent while the evaluation continues."""
        if process.recipient is not None:
            with self._checking:
                process.recipient.begun = True

    def end(self, process: Process) -> None:
        """Remove an ended query, update or dump from the list of evaluations."""
        with self._checking:
            self._running.pop(process.id, None)

    def stop_departed(self, now: float) -> None:
        """Stop the evaluations whose client has left; the server calls this several times a second.

        Args:
            now: the current time of the monotonic clock, in seconds.
        """
        before = now - FIRST_CHECK_SECONDS
        if not any(each.started < before for each in list(self._running.values())):
            return
        with self._checking:
            waiting = {
                each.recipient: each
                for each in list(self._running.values())
                if each.recipient is not None and each.error is None and each.started < before
            }
            left = [waiting[recipient] for recipient in departed(list(waiting))]
        for process in left:
            process.interrupt(f"the {process.kind} was stopped because its client has left")

    def list(self) -> list[dict[str, Any]]:
        """Return the running evaluations as JSON objects, oldest first."""
        return [process.describe() for process in list(self._running.values())]

    def cancel_all(self) -> None:
        """Stop every running evaluation because the server ends."""
        for process in list(self._running.values()):
            process.interrupt(f"the {process.kind} was stopped because the server stops")

    def cancel(self, process_id: str) -> None:
        """Stop the running query, update or dump with an id.

        Raises: NotFoundError when no query, update or dump with the id is running.
        """
        process = self._running.get(int(process_id)) if _NUMBER.fullmatch(process_id) else None
        if process is None:
            raise NotFoundError(f"no process {process_id} is running", code="unknown-process")
        process.interrupt(f"the {process.kind} was stopped by request")
