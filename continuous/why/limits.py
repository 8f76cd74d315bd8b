"""Limits on the search for the reason of one row."""

from __future__ import annotations

import time
from dataclasses import dataclass

from quadrill.store.errors import LimitError


@dataclass(frozen=True, slots=True)
class WhyLimits:
    """Limits on the search for the reason of one row.

    Attributes:
        ms: milliseconds of the whole search.
        shrink_ms: milliseconds in which a reason that is known to suffice is made smaller.
        elements: stream elements, the newest ones, that are read again.
        matches: quads of the store that one triple pattern may match.
        changes: quads of later commits that are undone.
        listed: elements, and quads, of the answer.
        rows: rows of one evaluation.
    """

    ms: int = 10_000
    shrink_ms: int = 2_000
    elements: int = 20_000
    matches: int = 100_000
    changes: int = 200_000
    listed: int = 1_000
    rows: int = 1_000_000


WHY_LIMITS = WhyLimits()
"""The limits of a server."""


class Deadline:
    """The end of the time of one search."""

    def __init__(self, ms: int) -> None:
        self._end = time.monotonic() + ms / 1000
        self._ms = ms

    @property
    def left_ms(self) -> int:
        """Milliseconds until the deadline, at least 1."""
        return max(1, int((self._end - time.monotonic()) * 1000))

    @property
    def over(self) -> bool:
        """True once the time is over."""
        return time.monotonic() > self._end

    def check(self) -> None:
        """Raise LimitError once the time is over."""
        if self.over:
            raise LimitError(
                f"the search for the reason took longer than {self._ms} ms",
                code="query-timeout",
                hint="ask again when the server has less work, or for a row of a smaller window",
            )
