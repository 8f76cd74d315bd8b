"""Limits on the search for the reason of one row."""

from __future__ import annotations

import time
from dataclasses import dataclass

from quadrill.store.documents.times import readable_duration
from quadrill.store.errors import LimitError


@dataclass(frozen=True, slots=True)
class WhyLimits:
    """Limits on the search for the reason of one row.

    Attributes:
        ms: maximum time of the whole search, in milliseconds.
        shrink_ms: maximum time for making a sufficient reason smaller, in milliseconds.
        elements: maximum number of stream elements that are read again, the newest ones.
        matches: maximum number of quads of the store that one triple pattern matches.
        changes: maximum number of quads of later commits that are undone.
        listed: maximum number of elements, asserted quads and inferred quads in the answer, each.
        rows: maximum number of rows of one evaluation.
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
    """The time at which one search must end."""

    def __init__(self, ms: int) -> None:
        self._end = time.monotonic() + ms / 1000
        self._ms = ms

    @property
    def left_ms(self) -> int:
        """Milliseconds until the deadline, at least 1."""
        return max(1, int((self._end - time.monotonic()) * 1000))

    @property
    def over(self) -> bool:
        """True once the deadline has passed."""
        return time.monotonic() > self._end

    def check(self) -> None:
        """Raise LimitError if the deadline has passed."""
        if self.over:
            raise LimitError(
                f"the search for the reason took longer than {readable_duration(self._ms)}",
                code="query-timeout",
                hint="ask again when the server has less work, or for a row of a smaller window",
            )
