"""Shrinking of a set that suffices to a smaller one that suffices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from .limits import Deadline

T = TypeVar("T")


def shrunk(items: Sequence[T], suffices: Callable[[Sequence[T]], bool], deadline: Deadline) -> list[T]:
    """Return a part of ``items`` that suffices; without enough time, a larger one.

    Parts of decreasing size, in the end single items, are left out if the rest suffices.

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
