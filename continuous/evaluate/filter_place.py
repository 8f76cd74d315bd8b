"""The choice whether conditions with uncertainty functions are evaluated before or behind the joins.

Heuristic H4 of the RSP-QL* paper of 2021 evaluates them behind the joins. That is faster where fewer rows
leave the joins than enter them, and slower where the joins make many rows of each.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal as OneOf
from typing import TypeVar

from ..errors import BudgetError
from ..plan.fan_out import FanOut
from ..plan.plan import Plan

Place = OneOf["early", "late"]
Answer = TypeVar("Answer")

_FIRST = 64
_MOST = 8_192
"""Steps before the first measurement of a plan, and between two at most; each interval is twice the last."""
_ROWS = 64
"""Rows that a measurement needs."""
_LATE_BELOW = 0.5
_EARLY_ABOVE = 1.0
"""Rows that each row becomes in the joins. `benchmarks.uncertainty`: late is 2.5 times faster at 0.1, equal
at one, and three times slower at ten. Between the two bounds the plan stays, so that it changes rarely."""


class FilterPlace:
    """Where the uncertain filters of one query are evaluated.

    Attributes:
        place: in the present plan.
        is_auto: it follows the measured fan-out of the joins.
        fan_out: rows that each row became in the joins when it was measured last; None before.
    """

    def __init__(self, asked: OneOf["early", "late", "auto"]) -> None:
        self.is_auto = asked == "auto"
        self.place: Place = "late" if asked == "late" else "early"
        self.fan_out: float | None = None
        self._measured: FanOut | None = None
        self._every = self._next = _FIRST

    def begin(self, plan: Plan) -> FilterPlace | None:
        """Count the rows of a new plan; None where the place stays: as asked, or nothing could move."""
        measured = FanOut(plan) if self.is_auto else None
        # Without a filter behind or before a join there is nothing to choose.
        self._measured = measured if measured is not None and measured.pairs else None
        self._next = self._every
        return self if self._measured is not None else None

    @property
    def is_due(self) -> bool:
        """True when it is time to measure."""
        return self._measured is not None and self._measured.plan.figures.steps >= self._next

    def changes(self) -> bool:
        """Measure; True when the filters belong into the other place, which is ``place`` from now on."""
        assert self._measured is not None
        self._every = min(2 * self._every, _MOST)
        self._next += self._every
        found = self._measured.measure(_ROWS)
        if found is None:
            return False
        self.fan_out = round(found, 3)
        better: Place = "late" if found < _LATE_BELOW else "early" if found > _EARLY_ABOVE else self.place
        changed, self.place = better != self.place, better
        return changed

    def planned(self, go_on: Callable[[], Answer]) -> Answer:
        """Make the plan for the present place by ``go_on``; filters that cost too much late stay early."""
        try:
            return go_on()
        except BudgetError:
            # Without the filters the joins make more rows than one evaluation may.
            self.place, self.is_auto = "early", False
            return go_on()
