"""ORDER BY, LIMIT and OFFSET: sort keys, the first rows in their order, the first row of equal ones."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from ..rows import EMPTY, Delta, IdRow, Schema, add, difference

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
        sort_key: Callable[[IdRow], SortKey],
        offset: int,
        limit: int | None,
    ) -> None:
        """``columns``: places in the input of the columns shown; -1 for one that is never bound."""
        self.schema = schema
        self._columns = tuple(columns)
        self._sort_key = sort_key
        self._offset = offset
        self._end = None if limit is None else offset + limit
        # All rows of the input in order, and each with its key and how often it is there.
        self._sorted: list[tuple[SortKey, IdRow]] = []
        self._entries: dict[IdRow, tuple[SortKey, int]] = {}
        self._shown: Delta = {}
        self._bar: SortKey | None = None
        # The keys of the rows that the last step told of, in their shown form; of several the least.
        self._key_of: dict[IdRow, SortKey] = {}
        self._keys_shown: dict[IdRow, SortKey] = {}
        # Grows with each step that may have changed the order of what is shown, though no row came or went.
        self.revision = 0

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown."""
        if self._end is None and not self._offset:
            return self._step_whole(changes[0])
        touched = False
        for row, weight in changes[0].items():
            key = self._change(row, weight)
            touched = touched or self._bar is None or not self._bar < key
        if not touched:
            return EMPTY
        self.revision += 1
        before, self._shown = self._shown, {}
        self._key_of, self._keys_shown = self._keys_shown, {}
        for row, key, count in self._read():
            self._shown[row] = self._shown.get(row, 0) + count
            self._keys_shown.setdefault(row, key)
        self._key_of |= self._keys_shown
        return difference(self._shown, before) or EMPTY

    def _step_whole(self, change: Delta) -> Delta:
        """A step where every row is shown."""
        out: Delta = {}
        found = self._key_of = {}
        for row, weight in change.items():
            key, shown = self._change(row, weight), self._shown_form(row)
            if shown not in found or key < found[shown]:
                found[shown] = key
            add(out, shown, weight)
        self.revision += bool(change)
        return out or EMPTY

    def rows(self) -> list[IdRow]:
        """The rows shown, in order, each as often as it is there."""
        return [row for row, _, count in self._read() for _ in range(count)]

    def sorted(self, rows: Iterable[IdRow]) -> list[IdRow]:
        """Rows of the last change in order."""
        return sorted(rows, key=self._key_of.__getitem__)

    def held(self) -> list[IdRow]:
        """The rows of the input."""
        return list(self._entries)

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._entries)

    def _change(self, row: IdRow, weight: int) -> SortKey:
        """Enter one changed row; its key."""
        known = self._entries.get(row)
        if known is None:
            key = self._sort_key(row)
            self._entries[row] = (key, weight)
            insort(self._sorted, (key, row))
            return key
        key = known[0]
        if known[1] + weight:
            self._entries[row] = (key, known[1] + weight)
        else:
            del self._entries[row]
            del self._sorted[bisect_left(self._sorted, (key, row))]
        return key

    def _shown_form(self, row: IdRow) -> IdRow:
        return tuple([row[column] if column >= 0 else 0 for column in self._columns])

    def _read(self) -> Iterator[tuple[IdRow, SortKey, int]]:
        """The rows between offset and end with keys and counts; sets the bar at the last place."""
        place = 0
        self._bar = None
        for key, row in self._sorted:
            weight = self._entries[row][1]
            first = max(place, self._offset)
            place += weight
            last = place if self._end is None else min(place, self._end)
            if last > first:
                yield self._shown_form(row), key, last - first
            if self._end is not None and place >= self._end:
                self._bar = key
                break


class TopKEach:
    """A `TopK` of its own for the rows of each group: LIMIT in a block that is evaluated graph by graph.

    Law: out = union over the groups of slice(sort(integrate(in))).
    """

    def __init__(self, schema: Schema, keys: Sequence[int], new: Callable[[], TopK]) -> None:
        """``keys``: places in the input of the columns that tell groups apart, which ``new`` shows, too."""
        self.schema = schema
        self._keys = tuple(keys)
        self._new = new
        self._groups: dict[IdRow, TopK] = {}

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown, of all groups."""
        parts: dict[IdRow, Delta] = {}
        for row, weight in changes[0].items():
            parts.setdefault(tuple([row[key] for key in self._keys]), {})[row] = weight
        out: Delta = {}
        for key, part in parts.items():
            group = self._groups.get(key)
            if group is None:
                group = self._groups[key] = self._new()
            out.update(group.step(part))
            if not group.size():
                del self._groups[key]
        return out or EMPTY

    def held(self) -> list[IdRow]:
        """The rows of the input, as shown."""
        return [row for group in self._groups.values() for row in group.held()]

    def size(self) -> int:
        """How many rows it keeps."""
        return sum(group.size() for group in self._groups.values())


class First:
    """Keeps, of the rows that are equal in some columns, the first in order.

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
