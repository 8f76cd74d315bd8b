"""Rows sorted by a number, which a join searches if a condition compares a column of the rows.

    FILTER(?v > ?limit)      with the rows (:a, 10), (:b, 20), (:c, 30) of ?who ?limit
    ?v = 25                  finds (:a, 10) and (:b, 20)

The search by a number finds all rows for which the condition can be true, and a few others, which the filter
above the join removes. Numbers of all types are ordered as doubles, with the tolerance of single precision,
because SPARQL may promote numbers to single precision. Rows without a number are always found by a search,
because the filter must decide on them.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, TypeAlias
from typing import Literal as OneOf

from ..rows import Delta, IdRow

NumberOf: TypeAlias = Callable[[int], float | None]
"""A function that returns the number for a term id; None for a term that is not a finite number."""
Relation: TypeAlias = OneOf["<", ">", "="]
_RELATIVE_TOLERANCE = 1e-6
"""Relative tolerance of comparisons of sorted numbers: more than the rounding of single precision."""
_ABSOLUTE_TOLERANCE = 1e-30
"""Absolute tolerance of comparisons of sorted numbers, for numbers near zero."""
_SORT_ABOVE = 32
"""Number of added rows above which one sort of the whole list replaces single insertions."""
_FIRST: Any = (-inf,)
_LAST: Any = (inf,)
"""Sentinels that sort before and after every row with a number."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison of column ``column`` of an input's rows with variable ``variable`` of another input."""

    column: int
    relation: Relation
    variable: str


class RowsInOrder:
    """Rows sorted by the number in one column; ``rows`` contains all rows with their weights."""

    def __init__(self, column: int, number_of: NumberOf) -> None:
        self._column = column
        self.number_of = number_of
        self.rows: Delta = {}
        self.numbered: list[tuple[float, IdRow]] = []
        self.others: dict[IdRow, None] = {}

    def update(self, change: Delta) -> None:
        """Apply a delta to the rows that are sorted by number."""
        added: list[tuple[float, IdRow]] = []
        for row, weight in change.items():
            before = self.rows.get(row, 0)
            if before + weight:
                self.rows[row] = before + weight
            else:
                del self.rows[row]
            if before and before + weight:
                continue
            number = self.number_of(row[self._column])
            if number is None:
                self.others.pop(row, None) if before else self.others.setdefault(row)
            elif before:
                del self.numbered[bisect_left(self.numbered, (number, row))]
            else:
                added.append((number, row))
        if len(added) > _SORT_ABOVE:
            self.numbered += added
            self.numbered.sort()
        else:
            for each in added:
                insort(self.numbered, each)

    def span(self, relation: str, number: float) -> tuple[int, int]:
        """Return the range of positions whose numbers may be in the given relation to ``number``."""
        slack = abs(number) * _RELATIVE_TOLERANCE + _ABSOLUTE_TOLERANCE
        begin = 0 if relation == "<" else bisect_left(self.numbered, (number - slack, _FIRST))
        end = None if relation == ">" else bisect_right(self.numbered, (number + slack, _LAST))
        return begin, len(self.numbered) if end is None else end


class BoundedRows:
    """Selects join rows by several comparisons: the rows of the comparison with the shortest range."""

    def __init__(self, bounds: Sequence[tuple[RowsInOrder, str]]) -> None:
        self._bounds = bounds

    def get(self, given: Sequence[int], default: Delta) -> Delta:
        """Return the rows for the term ids of the compared variables, with the signature of ``dict.get``."""
        best: tuple[int, int, int, RowsInOrder] | None = None
        for (rows, relation), term_id in zip(self._bounds, given, strict=True):
            number = rows.number_of(term_id)
            if number is not None:
                begin, end = rows.span(relation, number)
                if best is None or end - begin < best[0]:
                    best = end - begin, begin, end, rows
        if best is None:
            return self._bounds[0][0].rows
        length, begin, end, rows = best
        if not length and not rows.others:
            return default
        weights = rows.rows
        found = {row: weights[row] for _, row in rows.numbered[begin:end]}
        for row in rows.others:
            found[row] = weights[row]
        return found
