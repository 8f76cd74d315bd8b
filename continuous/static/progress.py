"""How far the making of tables has come, told to whoever waits for it, and how it is called off.

Whoever makes a query's tables in a thread of its own enters a `Progress` there; what reads rows finds it
without having to hand it through every call in between.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from quadrill.store.errors import ConflictError

from ..element import Solution

_EACH = 1_000
"""Rows between two looks at whether the making was called off."""


class Progress:
    """The making of one query's tables. Written by the thread that makes them, read by others.

    Attributes:
        parts: static parts of the query.
        ready: those whose tables are there.
        rows: rows read for the others so far.
        limited: the limits of `budget` hold, because somebody registers the query now.
    """

    def __init__(self, *, limited: bool = False) -> None:
        self.limited = limited
        self.parts = 0
        self.ready = 0
        self.rows = 0
        self._called_off = False

    def call_off(self) -> None:
        """Call the making off; whoever makes the tables stops at the next rows."""
        self._called_off = True

    def check(self) -> None:
        """Raise ConflictError when the making was called off."""
        if self._called_off:
            raise ConflictError("the query was dropped before its static parts were read")

    def counted(self, rows: Iterable[Solution], wanted_by_others: Callable[[], bool]) -> Iterator[Solution]:
        """The same rows, counted; stops when the making was called off and nobody else wants them."""
        for number, row in enumerate(rows, 1):
            if number % _EACH == 0:
                self.rows += _EACH
                if not wanted_by_others():
                    self.check()
            yield row


_NOBODY = Progress()
_ACTIVE: ContextVar[Progress] = ContextVar("progress", default=_NOBODY)


def active() -> Progress:
    """The progress of what this thread makes; one that nobody reads when nobody entered one."""
    return _ACTIVE.get()


@contextmanager
def entered(progress: Progress) -> Iterator[None]:
    """Tables that this thread makes are part of ``progress``."""
    token = _ACTIVE.set(progress)
    try:
        yield
    finally:
        _ACTIVE.reset(token)
