"""What one query has cost in the last minute, and what it may: rows, CPU time and emitted bytes.

A minute is one of the tasks' own times, so that a replay, which is faster, finds the same sums.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, NoReturn, Protocol

from quadrill.store.feeds.feed import Feed

from ..errors import BudgetError
from ..rows import QueryLimits

SPAN_S = 60
_NAMES = ("max_rows_per_minute", "max_cpu_per_minute", "max_bytes_per_minute")


class Cost(NamedTuple):
    """Totals since a query began."""

    rows: int
    cpu_ms: int
    bytes: int


@dataclass(slots=True, eq=False)
class MinuteCosts:
    """The costs of one query, by the second in which the tasks came.

    Attributes:
        marks: (second, total cost before it), oldest first, those of the last minute.
        due: they are to be compared with the limits: ``always`` behind each input, or once a second.
    """

    marks: deque[tuple[int, Cost]] = field(default_factory=deque)
    due: bool = False
    always: bool = False

    def check(self, now_ms: int, total: Cost, limits: QueryLimits) -> None:
        """Take the total cost so far, of tasks up to a time.

        Raises:
            BudgetError: the last minute cost more than a limit.
        """
        self.due = self.always
        marks, second = self.marks, now_ms // 1000
        if marks and second < marks[-1][0]:
            second = marks[-1][0]  # the clock was set back
        if not marks or second > marks[-1][0]:
            marks.append((second, total))
        while second - marks[0][0] >= SPAN_S and len(marks) > 1:
            marks.popleft()
        since = marks[0][1]
        for name, most, now, before in zip(
            _NAMES, (limits.minute_rows, limits.minute_ms, limits.minute_bytes), total, since, strict=True
        ):
            if 0 < most < now - before:
                raise BudgetError(_message(name, now - before, most), again=False, limit=most)


def _message(name: str, found: int, most: int) -> str:
    if name == "max_cpu_per_minute":
        return (
            f"the query took {found} ms of CPU time for the input of a minute, "
            f"its limit ({name}) is {most} ms"
        )
    what = "made {} rows" if name == "max_rows_per_minute" else "emitted {} bytes"
    return f"the query {what.format(found)} in a minute, its limit ({name}) is {most}"


class CostedQuery(Protocol):
    """A query, as far as its costs go: it counts the seconds that it has ``spent``."""

    costs: MinuteCosts
    spent: float
    feed: Feed
    emission: Any
    evaluator: Any


def check_costs(running: CostedQuery, now_ms: int) -> None:
    """Raise BudgetError when a query has cost more in the last minute than it may."""
    counts, budget = running.emission.counts, running.evaluator.budget
    emitted = counts.rows_inserted + counts.rows_deleted + counts.answers
    cost = Cost(
        max(budget.rows, emitted), int((running.spent + budget.elsewhere) * 1000), running.feed.characters
    )
    # In a replay a query must not fail earlier than it did.
    limits = replace(budget.limits, minute_ms=int(budget.limits.minute_ms * budget.grace))
    running.costs.check(now_ms, cost, limits)


def too_large(name: str, memory: int, size: int) -> NoReturn:
    """Raise BudgetError because the windows of a query hold too much."""
    raise BudgetError(
        f"the windows of {name} hold {size} quads, its limit (memory) is {memory}; "
        "make a window smaller or the limit greater",
        limit=memory,
    )
