"""Step 5 of 8: ORDER BY with LIMIT and OFFSET, kept up to date."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..rows import EMPTY, Delta, Row, Schema, add, difference

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
        # Keys of the shown form of rows; of equal ones the last. Those that left are kept for one step.
        self._key_of: dict[Row, SortKey] = {}
        # Grows with each step that may have changed the order of what is shown, though no row came or went.
        self.revision = 0
        self._left: dict[Row, SortKey] = {}

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown."""
        touched = False
        self._left = {}
        whole = self._end is None and not self._offset
        out: Delta = {}
        for row, weight in changes[0].items():
            key = self._sort_key(row)
            shown = self._change(row, key, weight)
            touched = touched or self._bar is None or not self._bar < key
            if whole:
                add(out, shown, weight)
        if whole:
            self.revision += bool(changes[0])
            return out or EMPTY
        if not touched:
            return EMPTY
        self.revision += 1
        before, self._shown = self._shown, {}
        for row, count in self._read():
            self._shown[row] = self._shown.get(row, 0) + count
        return difference(self._shown, before) or EMPTY

    def rows(self) -> list[Row]:
        """The rows shown, in order, each as often as it is there."""
        return [row for row, count in self._read() for _ in range(count)]

    def sorted(self, rows: Iterable[Row]) -> list[Row]:
        """Rows of the last change in order."""
        return sorted(rows, key=lambda row: self._key_of[row] if row in self._key_of else self._left[row])

    def held(self) -> list[Row]:
        """The rows of the input, as shown."""
        return [row for row, _ in self._entries.values()]

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._entries)

    def _change(self, row: Row, key: SortKey, weight: int) -> Row:
        """Enter one changed row; its shown form."""
        known = self._entries.get(key)
        if known is None:
            shown = tuple([row[column] if column >= 0 else 0 for column in self._columns])
            self._entries[key] = (shown, weight)
            self._key_of[shown] = key
            insort(self._keys, key)
            return shown
        shown = known[0]
        if known[1] + weight:
            self._entries[key] = (shown, known[1] + weight)
            return shown
        del self._entries[key]
        del self._keys[bisect_left(self._keys, key)]
        if self._key_of.get(shown) == key:
            self._left[shown] = self._key_of.pop(shown)
        return shown

    def _read(self) -> Iterator[tuple[Row, int]]:
        """The rows between offset and end with their counts; sets the bar at the last place."""
        place = 0
        self._bar = None
        for key in self._keys:
            row, weight = self._entries[key]
            first = max(place, self._offset)
            place += weight
            last = place if self._end is None else min(place, self._end)
            if last > first:
                yield row, last - first
            if self._end is not None and place >= self._end:
                self._bar = key
                break
