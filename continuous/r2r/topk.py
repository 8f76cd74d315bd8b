"""Step 5 of 8: ORDER BY with LIMIT and OFFSET, kept up to date."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Sequence
from typing import Any

from ..rows import EMPTY, Delta, Row, Schema, difference

SortKey = tuple[Any, ...]


class TopK:
    """The rows at the places ``offset`` to ``offset + limit`` of the input in order.

    ``sort_key`` gives the key of an input row, total over the columns that are shown: rows that tie are equal
    there. All keys are kept in one sorted list; the rows shown are read again only when a change falls before
    their end. Law: out = slice(sort(integrate(in))).
    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, OrderBy, Project, Slice.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[int],
        sort_key: Callable[[Row], SortKey],
        offset: int,
        limit: int | None,
    ) -> None:
        """``columns``: places in the input of the columns shown; -1 for one that is never bound."""
        self.schema = schema
        self._columns = tuple(columns)
        self._sort_key = sort_key
        self._offset = offset
        self._end = None if limit is None else offset + limit
        self._keys: list[SortKey] = []
        self._entries: dict[SortKey, tuple[Row, int]] = {}
        self._shown: Delta = {}
        self._bar: SortKey | None = None

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown."""
        touched = False
        for row, weight in changes[0].items():
            key = self._sort_key(row)
            known = self._entries.get(key)
            if known is None:
                shown = tuple([row[column] if column >= 0 else 0 for column in self._columns])
                self._entries[key] = (shown, weight)
                insort(self._keys, key)
            elif known[1] + weight:
                self._entries[key] = (known[0], known[1] + weight)
            else:
                del self._entries[key]
                del self._keys[bisect_left(self._keys, key)]
            touched = touched or self._bar is None or not self._bar < key
        if not touched:
            return EMPTY
        before, self._shown = self._shown, self._read()
        return difference(self._shown, before) or EMPTY

    def _read(self) -> Delta:
        """The rows between offset and end; sets the bar at the last place."""
        shown: Delta = {}
        place = 0
        self._bar = None
        for key in self._keys:
            row, weight = self._entries[key]
            first = max(place, self._offset)
            place += weight
            last = place if self._end is None else min(place, self._end)
            if last > first:
                shown[row] = shown.get(row, 0) + last - first
            if self._end is not None and place >= self._end:
                self._bar = key
                break
        return shown

    def held(self) -> list[Row]:
        """The rows of the input, as shown."""
        return [row for row, _ in self._entries.values()]

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._entries)
