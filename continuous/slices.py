"""Time slices: queries' work runs in fibers, which suspend themselves when their slice is over.

The engine's thread runs the work of each reader in a fiber (a greenlet). The work in a fiber calls
`yield_control` at points where the work can be suspended: between two evaluations, and inside an evaluation
when an operator checks its budget. If the fiber's slice is over, the call of `yield_control` switches to the
engine, which resumes the fiber later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from heapq import merge
from math import inf
from queue import SimpleQueue
from typing import Any, TypeVar

from greenlet import getcurrent, greenlet

T = TypeVar("T")

_MIN_RESUMED_S = 0.005
"""Minimum slice of a resumed fiber in seconds while tasks are queued; a shorter slice would mostly be
switching cost."""

_WAIT_S, _WAIT_OUTSIDE_S = 0.002, 0.05
"""Seconds that a fiber waits for a child process before the engine checks for tasks.

The second of the two values is for callers outside of fibers that wait for a child process.
"""


class WorkSlice:
    """The slice of the running fiber.

    Attributes:
        until: the monotonic time at which the slice ends; infinite outside of fibers.
        inside: the number of fibers that are suspended in the middle of an evaluation.
    """

    __slots__ = ("inside", "until")

    def __init__(self) -> None:
        self.until = inf
        self.inside = 0


SLICE = WorkSlice()
"""The slice of the running fiber.

Engines in the same process share the slice object, which can only shorten each other's slices.
"""
RUN = 256
"""Number of transactions that a generated loop processes between two pauses."""
CHUNK = 64
"""Number of items that a loop processes between two calls of `pause`."""
_SORTED = 1024
"""Number of items sorted between two pauses; a sort of this size takes a few milliseconds if keys are
compared in Python."""


class Fiber(greenlet):
    """A greenlet that runs the work of one reader and can be suspended.

    Attributes:
        inside: True while the fiber is suspended in the middle of an evaluation.
        waiting: the engine's task queue; a queued task ends the slice of a fiber that works on a backlog
            early. The attribute ``waiting`` is None for work that runs in its task.
        hurry_from: the monotonic time from which a queued task ends the slice early.
        until: the monotonic time at which the slice ends.
        began: the CPU time of the thread when the running job began, in seconds.
        job: the reader for which the fiber works, and the argument of its work.
        suspended: True after the first suspension, from which on the reader has a backlog.
        ready: while the fiber waits for a child process, a function that returns True if the fiber can
            continue.
    """

    def __init__(self, run: Callable[..., Any]) -> None:
        super().__init__(run)
        self.inside = False
        self.waiting: SimpleQueue[Any] | None = None
        self.hurry_from = inf
        self.until = inf
        self.began = 0.0
        self.job: Any = None
        self.suspended = False
        self.ready: Callable[[], bool] | None = None

    def begin(self, seconds: float, waiting: SimpleQueue[Any] | None = None) -> None:
        """Begin a slice of this fiber; a task in the queue ``waiting`` ends the slice early."""
        now = time.monotonic()
        self.until = now + seconds if seconds else -inf
        self.waiting = waiting
        self.hurry_from = min(now + _MIN_RESUMED_S, self.until) if waiting is not None else self.until
        SLICE.until = self.hurry_from


def yield_control(now: float, *, inside: bool = False) -> None:
    """Switch to the engine if the running fiber's slice is over at ``now``; outside of fibers do nothing.

    With ``inside``, the caller of `yield_control` is in the middle of an evaluation, and term ids may be in
    local variables only.

    Raises:
        GreenletExit: the suspended work is abandoned.
        Exception: the error with which the engine ends the suspended work.
    """
    fiber = getcurrent()
    if not isinstance(fiber, Fiber):
        return
    if now < fiber.until and (fiber.waiting is None or fiber.waiting.empty()):
        return
    parent = fiber.parent
    assert parent is not None
    fiber.inside = inside
    SLICE.inside += inside
    try:
        parent.switch(fiber)
    finally:
        fiber.inside = False
        SLICE.inside -= inside


def in_fiber() -> bool:
    """Return True if the caller runs in a fiber and can therefore be suspended."""
    return isinstance(getcurrent(), Fiber)


def wait_for(ready: Callable[[float], bool], *, at_once: bool = False) -> None:
    """Let other queries run until a child process may have answered; outside of fibers, block briefly.

    The caller repeats the call until the child process has answered. The function ``ready`` waits for the
    child's answer for at most its argument in seconds, and returns True if the answer is there. With
    ``at_once``, other queries run immediately, because the child's answer needs their work.

    Raises:
        GreenletExit, Exception: as from `yield_control`.
    """
    fiber = getcurrent()
    if not isinstance(fiber, Fiber):
        ready(_WAIT_OUTSIDE_S)
        return
    if fiber.waiting is None and not fiber.suspended:
        # Most answers of child processes arrive within the slice, so the fiber first waits without a switch.
        if not at_once and ready(max(fiber.until - time.monotonic(), 0.0)):
            return
    elif ready(0.0 if fiber.waiting is not None and not fiber.waiting.empty() else _WAIT_S):
        return
    parent = fiber.parent
    assert parent is not None
    fiber.ready = partial(ready, 0.0)
    try:
        parent.switch(fiber)
    finally:
        fiber.ready = None


def pause(*, inside: bool = False) -> None:
    """Let other queries run if the fiber's slice is over; raises as `yield_control`."""
    if (now := time.monotonic()) > SLICE.until:
        yield_control(now, inside=inside)


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """Return the items in chunks of `CHUNK`, with a `pause` before each chunk except the first."""
    for start in range(0, len(items), CHUNK):
        if start:
            pause()
        yield items[start : start + CHUNK]


def pausing(items: Iterable[T], chunk: int = CHUNK) -> Iterator[T]:
    """Return the items, with a pause in the middle of an evaluation after every ``chunk`` items."""
    for place, item in enumerate(items, 1):
        yield item
        if not place % chunk:
            pause(inside=True)


def sorted_in_slices(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """Sort the items as `sorted` does, with pauses in the middle of an evaluation.

    The suspendable sort function sorts runs of `_SORTED` items, and merges them if there are several.
    """
    unsorted = list(items)
    runs = [
        sorted(run, key=key)
        for run in pausing(
            (unsorted[start : start + _SORTED] for start in range(0, len(unsorted), _SORTED)), 1
        )
    ]
    return runs[0] if len(runs) == 1 else list(pausing(merge(*runs, key=key)))


PAUSE = partial(pause, inside=True)
"""Pause in the middle of an evaluation, so that other queries may run."""
