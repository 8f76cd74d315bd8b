"""Slices of the engine's time: work that may be suspended where it says so, and resumed later.

The engine's thread runs the work of readers in fibers (greenlets). Work calls `yield_control` where it
may stand still: between two evaluations, and inside one where operators look at the budget. There a fiber
whose slice is over returns control to the engine, which resumes it later.
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
"""Seconds that a resumed fiber may use although tasks wait: less would cost more than it gives."""

_WAIT_S, _WAIT_OUTSIDE_S = 0.002, 0.05
"""Seconds that a fiber waits for another process before the engine looks for tasks; outside of fibers."""


class WorkSlice:
    """The slice of the fiber at work.

    Attributes:
        until: when it is over, by the monotonic clock; infinite outside of fibers.
        inside: how many fibers are suspended in the middle of an evaluation.
    """

    __slots__ = ("inside", "until")

    def __init__(self) -> None:
        self.until = inf
        self.inside = 0


SLICE = WorkSlice()
"""The slice at work. Several engines in one process only shorten each other's slices."""
RUN = 256
"""Transactions that a generated loop takes between two pauses."""
CHUNK = 64
"""Items of a loop that are worked off between two calls of `pause`."""
_SORTED = 1024
"""Items that are sorted between two pauses: some milliseconds where keys are compared by Python."""


class Fiber(greenlet):
    """Work that can be suspended.

    Attributes:
        inside: it is suspended in the middle of an evaluation.
        waiting: the engine's queue: the slice of a resumed fiber ends early when a task waits there.
        hurry_from: from when on it does, by the monotonic clock.
        until: the end of its slice, by the monotonic clock.
        began: the CPU time of the thread when it began the job at work, in seconds.
        reader: for whom it works, with what that was given.
        suspended: it was suspended once: what it works for has a backlog.
        ready: where it waits for another process: gives True when it can go on.
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
        """Begin a slice; with ``waiting`` it ends early when something waits there."""
        now = time.monotonic()
        self.until = now + seconds if seconds else -inf
        self.waiting = waiting
        self.hurry_from = min(now + _MIN_RESUMED_S, self.until) if waiting is not None else self.until
        SLICE.until = self.hurry_from


def yield_control(now: float, *, inside: bool = False) -> None:
    """Let others go on if the slice of this fiber is over at ``now``; nothing outside of a fiber.

    ``inside``: in the middle of an evaluation, whose ids are in local variables alone.

    Raises:
        GreenletExit: the work is abandoned.
        Exception: what the engine has decided to end it with.
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
    """True where the caller's work can be suspended."""
    return isinstance(getcurrent(), Fiber)


def wait_for(ready: Callable[[float], bool], *, at_once: bool = False) -> None:
    """Let others go on until a process has something to say, or for a moment; outside of a fiber it waits.

    The caller repeats this until ``ready``, which waits for at most so many seconds. ``at_once``: others go
    on right away, because it is they who make it ready.

    Raises:
        GreenletExit, Exception: as `yield_control`.
    """
    fiber = getcurrent()
    if not isinstance(fiber, Fiber):
        ready(_WAIT_OUTSIDE_S)
        return
    if fiber.waiting is None and not fiber.suspended:
        # Most answers come within the slice.
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
    """Let others go on if the slice is over, as `yield_control` does."""
    if (now := time.monotonic()) > SLICE.until:
        yield_control(now, inside=inside)


def chunks(items: Sequence[T]) -> Iterator[Sequence[T]]:
    """The items in chunks, with a `pause` before each but the first."""
    for start in range(0, len(items), CHUNK):
        if start:
            pause()
        yield items[start : start + CHUNK]


def pausing(items: Iterable[T], chunk: int = CHUNK) -> Iterator[T]:
    """The items, with a pause in the middle of an evaluation behind each ``chunk`` of them."""
    for place, item in enumerate(items, 1):
        yield item
        if not place % chunk:
            pause(inside=True)


def sorted_in_slices(items: Iterable[T], key: Callable[[T], Any]) -> list[T]:
    """The items as `sorted` orders them, with pauses in the middle of an evaluation.

    Runs of `_SORTED` items are sorted each, and merged where there are several.
    """
    found = list(items)
    runs = [
        sorted(run, key=key)
        for run in pausing((found[start : start + _SORTED] for start in range(0, len(found), _SORTED)), 1)
    ]
    return runs[0] if len(runs) == 1 else list(pausing(merge(*runs, key=key)))


PAUSE = partial(pause, inside=True)
"""A pause in the middle of an evaluation."""
