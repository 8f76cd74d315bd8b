"""ORDER BY, LIMIT and OFFSET: the first rows in their order, of all rows or of each group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .linear import Operator

SortKey = tuple[Any, ...]


@dataclass(slots=True)
class _Group:
    """The rows of one group.

    ``sorted`` are the keys of all rows; ``shown`` has each row shown, in its shown form, with its least key
    and how often it is there; ``bar`` is the key at the last place shown, None while there is room behind it.
    """

    sorted: list[SortKey] = field(default_factory=list)
    shown: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    bar: SortKey | None = None


_ABSENT: tuple[SortKey, int] = ((), 0)


class TopK(Operator):
    """The rows at the places ``offset`` to ``offset + limit`` of the input in order.

    ``sort_key`` gives the key of an input row, total over the columns that are shown: rows that tie are equal
    there. All keys are kept in sorted lists, with the row as their last part; the rows shown are read again
    only when a change falls before their end. With ``by``, the rows with equal values in these columns are a
    group, which is ordered and cut on its own: LIMIT in a block that is evaluated graph by graph. The first
    of each group is what DISTINCT keeps of equal rows: a row stands where the least of its keys puts it.

    Law: out = union over the groups of slice(sort(integrate(in))).
    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, OrderBy, Project, Distinct, Slice.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[int],
        sort_key: Callable[[IdRow], SortKey],
        offset: int,
        limit: int | None,
        by: Sequence[int] = (),
    ) -> None:
        """``columns`` and ``by``: places in the input; -1 for a column that is never bound.

        What is shown of the rows of two groups must differ.
        """
        self.schema = schema
        self.by = tuple(by)
        self._columns = tuple(columns)
        self._sort_key = sort_key
        self._offset = offset
        self._end = None if limit is None else offset + limit
        self._shows_all = limit is None and not offset
        # Each row of the input with its key and how often it is there.
        self.kept: dict[IdRow, tuple[SortKey, int]] = {}
        self._groups: dict[IdRow, _Group] = {}
        # The keys of the rows that the last step told of, in their shown form; of several the least.
        self._key_of: dict[IdRow, SortKey] = {}
        # Grows with each step that may have changed the order of what is shown, though no row came or went.
        self.revision = 0

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown."""
        out: Delta = {}
        told: dict[IdRow, SortKey] = {}
        touched: dict[IdRow, _Group] = {}
        by, groups, shows_all = self.by, self._groups, self._shows_all
        for row, weight in changes[0].items():
            place = _cells(row, by) if by else ()
            group = groups.get(place)
            if group is None:
                group = groups[place] = _Group()
            key = self._enter(group, row, weight)
            if group.bar is None or not group.bar < key:
                touched[place] = group
            if shows_all:
                shown = _cells(row, self._columns)
                if shown not in told or key < told[shown]:
                    told[shown] = key
                add(out, shown, weight)
        if not touched:
            return EMPTY
        for place, group in touched.items():
            if not shows_all:
                self._show(group, told, out)
            if not group.sorted:
                del groups[place]
        self._key_of = told
        self.revision += 1
        return out or EMPTY

    def rows(self) -> list[IdRow]:
        """The rows shown, in order, each as often as it is there."""
        groups = self._groups.values()
        return [row for each in groups for row, _, count in self._read(each) for _ in range(count)]

    def sorted(self, rows: Iterable[IdRow]) -> list[IdRow]:
        """Rows of the last change in order."""
        return sorted(rows, key=self._key_of.__getitem__)

    def _enter(self, group: _Group, row: IdRow, weight: int) -> SortKey:
        """Enter one changed row; its key."""
        known = self.kept.get(row)
        if known is None:
            key = (*self._sort_key(row), row)
            self.kept[row] = (key, weight)
            insort(group.sorted, key)
            return key
        key = known[0]
        if known[1] + weight:
            self.kept[row] = (key, known[1] + weight)
        else:
            del self.kept[row]
            del group.sorted[bisect_left(group.sorted, key)]
        return key

    def _show(self, group: _Group, told: dict[IdRow, SortKey], out: Delta) -> None:
        """Read anew what a group shows; its change, and the keys of the rows now and before."""
        before = group.shown
        shown = group.shown = {}
        for row, key, count in self._read(group):
            known = shown.get(row)
            shown[row] = (key, count) if known is None else (known[0], known[1] + count)
        for row, (key, _) in (before | shown).items():
            told[row] = key
            weight = shown.get(row, _ABSENT)[1] - before.get(row, _ABSENT)[1]
            if weight:
                out[row] = weight

    def _read(self, group: _Group) -> Iterator[tuple[IdRow, SortKey, int]]:
        """The rows between offset and end with keys and counts; sets the bar at the last place."""
        place = 0
        group.bar = None
        for key in group.sorted:
            row: IdRow = key[-1]
            weight = self.kept[row][1]
            first = max(place, self._offset)
            place += weight
            last = place if self._end is None else min(place, self._end)
            if last > first:
                yield _cells(row, self._columns), key, last - first
            if self._end is not None and place >= self._end:
                group.bar = key
                break


def _cells(row: IdRow, columns: tuple[int, ...]) -> IdRow:
    return tuple([row[column] if column >= 0 else 0 for column in columns])
