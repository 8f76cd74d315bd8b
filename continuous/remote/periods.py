"""How often a source is fetched, and who says so.

    the query or its registration  >  a description in the data  >  what fetches have found  >  the setting

Fetches tell how often a source changes: so many of them found other content. The estimate is that of Cho and
Garcia-Molina, "Estimating frequency of change" (ACM TOIT 3(3), 2003, section 4): of n looks, one every I, X
found a change, and the source changes log((n + 0.5) / (n - X + 0.5)) times in I. Plain X / n would miss
changes that one look found together.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from .settings import RemoteSettings

By: TypeAlias = OneOf["query", "description", "measured", "setting"]

_SHARE = 4
"""A source is fetched so often between two changes; descriptions are read alike (`described`)."""
_KEPT = 0.875
"""What a look counts is less by this with each later one, so that the newest eight or so decide."""
_LEAST_LOOKS = 3.0
"""Less than this, and the setting counts: it is reached by four looks."""
_HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Period:
    """Time between two fetches.

    Attributes:
        every_ms: milliseconds, None for by hand only.
        by: who says so.
    """

    every_ms: int | None
    by: By

    @property
    def urgency(self) -> tuple[bool, int]:
        """The least is the most urgent."""
        return self.every_ms is None, self.every_ms or 0


@dataclass(slots=True)
class Measured:
    """How often fetches of one source found other content than the one before.

    Attributes:
        looks: good fetches behind another one, and
        changes: those of them that found other content; both with weights that shrink.
        span_ms: the time from each of them back to the one before, with the same weights.
        every_ms: the period that they lead to, None before there were enough.
    """

    looks: float = 0.0
    changes: float = 0.0
    span_ms: float = 0.0
    every_ms: int | None = None

    def take(self, waited_ms: int, changed: bool, settings: RemoteSettings) -> None:
        """A good fetch, so long after the one before.

        The period is of whole seconds and becomes at most twice or half as long at once.
        """
        if waited_ms <= 0:
            return
        self.looks = self.looks * _KEPT + 1
        self.changes = self.changes * _KEPT + changed
        self.span_ms = self.span_ms * _KEPT + waited_ms
        if self.looks < _LEAST_LOOKS:
            return
        before = settings.within(self.every_ms or settings.every_ms)
        rate = self._rate()
        wanted = 1 / (_SHARE * rate) if rate else math.inf
        seconds = round(min(max(wanted, before / 2), before * 2) / 1000)
        self.every_ms = settings.within(seconds * 1000)

    def period(self, settings: RemoteSettings) -> Period:
        """What counts where neither a query nor a description says it."""
        if self.every_ms is None:
            return Period(settings.every_ms, "setting")
        return Period(settings.within(self.every_ms), "measured")

    @property
    def per_hour(self) -> float | None:
        """Changes an hour; None before there were enough looks."""
        return None if self.every_ms is None else self._rate() * _HOUR_MS

    def _rate(self) -> float:
        """Changes a millisecond."""
        found = math.log((self.looks + 0.5) / (self.looks - self.changes + 0.5))
        return found * self.looks / self.span_ms

    def to_json(self) -> list[float | None]:
        """For checkpoints."""
        return [self.looks, self.changes, self.span_ms, self.every_ms]

    @classmethod
    def from_json(cls, members: list[float | None]) -> Measured:
        """`to_json` back."""
        looks, changes, span_ms, every_ms = members
        assert looks is not None and changes is not None and span_ms is not None
        return cls(looks, changes, span_ms, None if every_ms is None else int(every_ms))
