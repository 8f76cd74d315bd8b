"""Step 5 of 8: SELECT DISTINCT under an ORDER BY of variables that it does not show."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .topk import SortKey


class First:
    """Of the rows that are equal in some columns the first in order, once.

    DISTINCT keeps the first of equal rows, so a row stands where the least of its sort keys puts it. Rows
    with equal keys may differ in columns that are neither shown nor ordered by; any of them serves.
    Law: out = {least row of each group of the input}. Keeps every row of its input.
    Source: https://www.w3.org/TR/sparql11-query/#sparqlDistinct after OrderBy.
    """

    def __init__(self, schema: Schema, columns: Sequence[int], sort_key: Callable[[IdRow], SortKey]) -> None:
        """``columns``: places of the columns shown; -1 for one that is never bound."""
        self.schema = schema
        self._columns = tuple(columns)
        self._sort_key = sort_key
        self._weights: Delta = {}
        # For each shown row the rows with it, sorted.
        self._groups: dict[IdRow, list[tuple[SortKey, IdRow]]] = {}

    def step(self, *changes: Delta) -> Delta:
        """The first rows that are others now."""
        before: dict[IdRow, IdRow | None] = {}
        for row, weight in changes[0].items():
            old = self._weights.get(row, 0)
            add(self._weights, row, weight)
            if old and old + weight:
                continue
            shown = tuple([row[column] if column >= 0 else 0 for column in self._columns])
            group = self._groups.setdefault(shown, [])
            before.setdefault(shown, group[0][1] if group else None)
            entry = (self._sort_key(row), row)
            if old:
                del group[bisect_left(group, entry)]
            else:
                insort(group, entry)
        out: Delta = {}
        for shown, first in before.items():
            group = self._groups[shown]
            if not group:
                del self._groups[shown]
            now = group[0][1] if group else None
            if now == first:
                continue
            if first is not None:
                out[first] = -1
            if now is not None:
                out[now] = 1
        return out or EMPTY

    def held(self) -> list[IdRow]:
        """The rows of the input."""
        return list(self._weights)

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._weights)
