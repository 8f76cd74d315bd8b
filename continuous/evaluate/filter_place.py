"""The choice whether filters with uncertainty functions are evaluated before or after the joins.

Heuristic H4 of the RSP-QL* paper of 2021: evaluate uncertain filters after the joins. Late filters (after the
joins) are faster where fewer rows leave the joins than enter the joins, and slower where the joins multiply
the rows.
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

_FIRST_INTERVAL = 64
_LONGEST_INTERVAL = 8_192
"""Steps of a plan before the first measurement of the fan-out, and the longest interval.

Each interval between two measurements of the fan-out is twice as long as the last one.
"""
_LEAST_ROWS = 64
"""Least number of rows that a measurement of the fan-out needs."""
_LATE_BELOW = 0.5
_EARLY_ABOVE = 1.0
"""Joined rows per input row below which late filters are chosen, and above which early filters are chosen.

`benchmarks.uncertainty` measured late filters as 2.5 times faster at a fan-out of 0.1, equal at 1, and three
times slower at 10. A fan-out between the two bounds leaves the filters in place, so that the plan changes
rarely.
"""


class FilterPlace:
    """The place, before or after the joins, at which the uncertain filters of one query are evaluated.

    Attributes:
        place: the place of the filters in the present plan: early is before the joins, late is after the
            joins.
        is_auto: True if the place follows the measured fan-out of the joins.
        fan_out: joined rows per input row at the last measurement; None before the first measurement.
    """

    def __init__(self, setting: OneOf["early", "late", "auto"]) -> None:
        self.is_auto = setting == "auto"
        self.place: Place = "late" if setting == "late" else "early"
        self.fan_out: float | None = None
        self._measurement: FanOut | None = None
        self._interval = self._next_at = _FIRST_INTERVAL

    def begin(self, plan: Plan) -> FilterPlace | None:
        """Start to count the rows at the uncertain filters of a new plan.

        Returns None if the place of the filters is fixed or the plan has no filter to move.
        """
        measured = FanOut(plan) if self.is_auto else None
        # A plan without an uncertain filter next to a join leaves no choice of the place.
        self._measurement = measured if measured is not None and measured.pairs else None
        self._next_at = self._interval
        return self if self._measurement is not None else None

    @property
    def is_due(self) -> bool:
        """True if the plan has run enough steps for the next measurement of the joins' fan-out."""
        return self._measurement is not None and self._measurement.plan.figures.steps >= self._next_at

    def update_place(self) -> bool:
        """Measure the fan-out of the joins and update ``place``; return True if the filters have to move."""
        assert self._measurement is not None
        self._interval = min(2 * self._interval, _LONGEST_INTERVAL)
        self._next_at += self._interval
        fan_out = self._measurement.measure(_LEAST_ROWS)
        if fan_out is None:
            return False
        self.fan_out = round(fan_out, 3)
        better: Place = "late" if fan_out < _LATE_BELOW else "early" if fan_out > _EARLY_ABOVE else self.place
        changed, self.place = better != self.place, better
        return changed

    def build(self, rebuild: Callable[[], Answer]) -> Answer:
        """Build a plan, by the function ``rebuild``, for the present place of the filters.

        If the plan with late filters raises BudgetError, build a plan with early filters.
        """
        try:
            return rebuild()
        except BudgetError:
            # With late filters, the joins make more rows than the limit of one evaluation.
            self.place, self.is_auto = "early", False
            return rebuild()
