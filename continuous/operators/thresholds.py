"""Rows in the order of a number: what a join looks into where a condition compares a column of theirs.

    FILTER(?v > ?limit)      with the rows (:a, 10), (:b, 20), (:c, 30) of ?who ?limit
    ?v = 25                  finds (:a, 10) and (:b, 20)

What is found holds all rows that the condition can be true for, and few others: the filter over the join
looks at each. Numbers of all types have one order here, as doubles; comparing is about as exact as single
precision, since that is what numbers may be promoted to. Rows without a number are found always.
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
"""The number that a term is, by its id; None for one that is none, or not finite."""
Relation: TypeAlias = OneOf["<", ">", "="]
_SLACK = 1e-6
_LEAST = 1e-30
_MANY = 32
_FIRST: Any = (-inf,)
_LAST: Any = (inf,)
"""Before and behind all rows."""


@dataclass(frozen=True, slots=True)
class Bound:
    """A condition that compares a column of an input's rows with a variable of another input."""

    column: int
    relation: Relation
    given: str


class RowsInOrder:
    """Rows by the number in one column; ``rows`` has all of them with their weights."""

    def __init__(self, column: int, number_of: NumberOf) -> None:
        self._column = column
        self.number_of = number_of
        self.rows: Delta = {}
        self.numbered: list[tuple[float, IdRow]] = []
        self.others: dict[IdRow, None] = {}

    def update(self, change: Delta) -> None:
        """Take a change of the rows."""
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
        if len(added) > _MANY:
            self.numbered += added
            self.numbered.sort()
        else:
            for each in added:
                insort(self.numbered, each)

    def span(self, relation: str, number: float) -> tuple[int, int]:
        """Between which places a column may be in this relation to a number."""
        slack = abs(number) * _SLACK + _LEAST
        begin = 0 if relation == "<" else bisect_left(self.numbered, (number - slack, _FIRST))
        end = None if relation == ">" else bisect_right(self.numbered, (number + slack, _LAST))
        return begin, len(self.numbered) if end is None else end


class BoundedRows:
    """Finds rows by bounds: those within the one that leaves the fewest."""

    def __init__(self, bounds: Sequence[tuple[RowsInOrder, str]]) -> None:
        self._bounds = bounds

    def get(self, given: Sequence[int], default: Delta) -> Delta:
        """The rows for ids of the variables that are compared with, as the index of a join gives them."""
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
