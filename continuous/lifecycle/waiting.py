"""Bounded waits for the results of an input."""

from __future__ import annotations

import time

from ..durable.tasks import Task
from ..queries.catalogue import is_awaited
from .parts import EngineParts

WAIT_S = 58.0
"""Seconds that a push or a heartbeat waits for its results, because ``?wait=true`` has to answer within 60
s."""
_POLL_S = 0.01
"""Seconds between two checks whether the static parts of queries have been read."""


def deadline_in(seconds: float | None = None) -> float:
    """Return the time of the monotonic clock that many seconds from now, by default `WAIT_S`."""
    return time.monotonic() + (WAIT_S if seconds is None else seconds)


def are_results_out(parts: EngineParts, task: Task | None, stream: str, timeout: float | None = None) -> bool:
    """Wait until the results of a push are in the feeds; return False after ``timeout`` seconds.

    The wait for a push's results includes queries that read the stream and still read their static parts.
    For a push without accepted elements, such as a repeated push, ``task`` is None, and the wait is for all
    earlier inputs.
    """
    until = deadline_in(timeout)
    if not (_is_all_processed(parts, until) if task is None else is_processed(parts, task, until)):
        return False
    pending = parts.router.pending
    if not pending or not is_awaited(stream, pending):
        return True
    while is_awaited(stream, pending):
        if time.monotonic() > until:
            return False
        time.sleep(_POLL_S)
    # A query that has just begun may still process the inputs that were collected for it.
    return _is_all_processed(parts, until)


def is_processed(parts: EngineParts, task: Task, until: float) -> bool:
    """Wait for a queued task; return False if the task is not done at ``until``.

    Raises:
        Exception: the error that the task raised.
    """
    # The engine's thread executes the task itself, so the thread cannot wait for the task.
    if parts.sequencer.inside:
        return True
    parts.sequencer.drain()
    return parts.tasks.is_done_within(task, max(0.0, until - time.monotonic()))


def _is_all_processed(parts: EngineParts, until: float) -> bool:
    """Wait for all inputs accepted so far; return False if they are not processed at ``until``."""
    if parts.sequencer.inside:
        return True
    task = Task()
    parts.tasks.follow_commits()
    parts.tasks.put(task)
    return is_processed(parts, task, until)
