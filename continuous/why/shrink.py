"""Reduction of a list that passes a test to a shorter list that passes the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .limits import Deadline

T = TypeVar("T")


def shrunk(items: Sequence[T], suffices: Callable[[Sequence[T]], bool], deadline: Deadline) -> list[T]:
    """Return a short part of ``items`` that passes the test ``suffices``, which ``items`` passes.

    Runs of decreasing length, in the end single items, are left out if the rest passes the test. At the
    deadline, the part found so far is returned.

    >>> shrunk(range(100), lambda chosen: {3, 70} <= set(chosen), Deadline(1000))
    [3, 70]
    """
    kept = list(items)
    size = max(1, len(kept) // 2)
    while kept:
        place = 0
        while place < len(kept):
            if deadline.over:
                return kept
            rest = kept[:place] + kept[place + size :]
            if suffices(rest):
                kept = rest
            else:
                place += size
        if size == 1:
            break
        size //= 2
    return kept
