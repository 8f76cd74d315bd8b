"""The cost of one query in the last minute, compared with its limits: rows, CPU time, emitted characters.

The minute of a query's costs is measured in the times of the tasks, so a replay, which runs faster, computes
the same sums.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

from quadrill.store.documents.times import readable_duration
from quadrill.store.feeds.feed import Feed

from ..errors import BudgetError
from ..rows import QueryLimits

SPAN_S = 60
_NAMES = ("max_rows_per_minute", "max_cpu_per_minute", "max_bytes_per_minute")


class Cost(NamedTuple):
    """The total cost of a query since it began."""

    rows: int
    cpu_ms: int
    bytes: int


@dataclass(slots=True, eq=False)
class MinuteCosts:
    """The cost of one query in the last minute, recorded per second of the tasks' times.

    Attributes:
        marks: pairs of a second and the total cost before that second, oldest first, for the last minute.
        due: True if the costs must be compared with the limits after the next input.
        always: True to compare after each input; False to compare once a second.
    """

    marks: deque[tuple[int, Cost]] = field(default_factory=deque)
    due: bool = False
    always: bool = False

    def check(self, now_ms: int, total: Cost, limits: QueryLimits) -> None:
        """Store the query's total cost up to a time, and compare the last minute's cost with the limits.

        Raises:
            BudgetError: the cost of the last minute exceeds a limit.
        """
        self.due = self.always
        marks, second = self.marks, now_ms // 1000
        if marks and second < marks[-1][0]:
            # The wall clock was set back, so the cost counts for the newest recorded second.
            second = marks[-1][0]
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
            f"its limit ({name}) is {readable_duration(most)}"
        )
    what = "made {} rows" if name == "max_rows_per_minute" else "emitted {} bytes"
    return f"the query {what.format(found)} in a minute, its limit ({name}) is {most}"


class CostedQuery(Protocol):
    """The attributes of a running query that `check_costs` reads; ``spent`` is CPU time in seconds."""

    costs: MinuteCosts
    spent: float
    feed: Feed
    emission: Any
    evaluator: Any


def check_costs(running: CostedQuery, now_ms: int) -> None:
    """Raise BudgetError if the cost of a query in the last minute exceeds a limit."""
    counts, budget = running.emission.counts, running.evaluator.budget
    emitted = counts.rows_inserted + counts.rows_deleted + counts.answers
    cost = Cost(
        max(budget.rows, emitted),
        int((running.spent + budget.elsewhere) * 1000),
        running.feed.history.characters,
    )
    # In a replay the CPU limit is higher, because a query must not fail earlier than before the restart.
    limits = replace(budget.limits, minute_ms=int(budget.limits.minute_ms * budget.grace))
    running.costs.check(now_ms, cost, limits)


def check_size(name: str, memory: int, size: int) -> None:
    """Raise BudgetError if the windows of a query contain more quads than its memory limit.

    The number of quads ``size`` includes the triples that follow from the contents of the windows.
    """
    if size > memory:
        raise BudgetError(
            f"the windows of {name} hold {size} quads, its limit (memory) is {memory}; "
            "make a window smaller or the limit greater",
            limit=memory,
        )
