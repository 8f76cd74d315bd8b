"""Memoised functions of short texts and numbers, because records of a stream repeat their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given", str, float)
Found = TypeVar("Found")

_LONG = 300
"""Length in characters from which arguments and results are not memoised, to save memory."""


class MemoisedFunction(dict[Given, Found]):
    """Memoised results of a function of one argument: ``[argument]`` computes a result on first access.

    All arguments of a memoised function must have one type, because 1, 1.0 and True are equal keys. A
    dictionary of memoised results is cleared when it is full.
    """

    def __init__(self, function: Callable[[Given], Found], *, most: int = 4_096) -> None:
        self._function: Callable[[Given], Found] = function
        self._most = most

    def __missing__(self, argument: Given) -> Found:
        found = self._function(argument)
        if (not isinstance(argument, str) or len(argument) < _LONG) and len(str(found)) < _LONG:
            if len(self) >= self._most:
                self.clear()
            self[argument] = found
        return found
