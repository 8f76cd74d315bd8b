"""What a function gave for short texts and for numbers: those of a stream's records come again and again."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Given = TypeVar("Given", str, float)
Found = TypeVar("Found")

_LONG = 300
"""Characters of what is not remembered."""


class MemoisedFunction(dict[Given, Found]):
    """The results of a function of one argument, made when they are asked for by ``[argument]``.

    Arguments are of one type, since 1, 1.0 and True are one key. When there are too many it begins anew.
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
