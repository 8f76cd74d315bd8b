"""The one-shot queries that run now: listed, timed, and stopped on request or when their client leaves."""

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
"""Age from which an evaluation is stopped when its client leaves: most end sooner, and checks cost time."""
_NUMBER = re.compile("[0-9]{1,18}")


class CancelledError(ReportedError):
    """Somebody stopped the query."""

    code = "cancelled"


@dataclass(slots=True, eq=False)
class Process:
    """One evaluation, on since ``started`` on the monotonic clock.

    ``lane`` is ``inline`` or ``worker``; ``stop`` ends a worker at once; ``error`` is what to end with once
    somebody has stopped the process; ``recipient`` is the client that waits for its answer, if any.
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
        """Raise CancelledError once somebody has stopped the process."""
        if self.error is not None:
            # A new one: `error` would keep the frames and iterators of an evaluation beyond its thread.
            raise CancelledError(self.error.message)

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

    Every request passes here twice, so the list has no lock: each access is one step of the interpreter. The
    lock keeps the beginning of an answer apart from the check whether its client is still there.
    """

    def __init__(self) -> None:
        self._ids = itertools.count(1)
        self._running: dict[int, Process] = {}
        self._checking = threading.Lock()

    def begin(self, kind: str, text: str, user: str) -> Process:
        """Enter an evaluation for the client whose request this thread answers; :meth:`end` must follow."""
        process = Process(next(self._ids), kind, text, user, time.monotonic(), recipient=current_recipient())
        self._running[process.id] = process
        return process

    def answering(self, process: Process) -> None:
        """Note that the answer begins while the evaluation goes on."""
        if process.recipient is not None:
            with self._checking:
                process.recipient.begun = True

    def end(self, process: Process) -> None:
        """Strike an evaluation off the list."""
        with self._checking:
            self._running.pop(process.id, None)

    def stop_departed(self, now: float) -> None:
        """Stop the evaluations whose client has left; to be called several times a second.

        Args:
            now: on the monotonic clock.
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
