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

    ``sorted`` are the keys of all rows; ``forms`` has the shown form of each row that is shown; ``shown`` has
    each of these with its least key and how often it is there; ``bar`` is the key at the last place shown,
    None while there is room behind it.
    """

    sorted: list[SortKey] = field(default_factory=list)
    forms: dict[IdRow, IdRow] = field(default_factory=dict)
    shown: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    bar: SortKey | None = None


_ABSENT: tuple[SortKey, int] = ((), 0)


class TopK(Operator):
    """The rows at the places ``offset`` to ``offset + limit`` of the input in order.

    ``form`` gives the columns that are shown of an input row, ``sort_key`` its key, total over these columns:
    rows that tie are equal there. All keys are kept in sorted lists, with the row as their last part; the
    rows shown are read again only when a change falls before their end. With ``by``, the rows with equal
    values in these columns are a group, which is ordered and cut on its own: LIMIT in a block that is
    evaluated graph by graph. The first of each group is what DISTINCT keeps of equal rows: a row stands where
    the least of its keys puts it.

    Law: out = union over the groups of slice(sort(integrate(in))).
    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, OrderBy, Project, Distinct, Slice.
    """

    def __init__(
        self,
        schema: Schema,
        form: Callable[[IdRow], IdRow],
        sort_key: Callable[[IdRow], SortKey],
        offset: int,
        limit: int | None,
        by: Sequence[int] = (),
    ) -> None:
        """``by``: places in the input. What is shown of the rows of two groups must differ."""
        self.schema = schema
        self.by = tuple(by)
        self._form = form
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
            place = cells(row, by) if by else ()
            group = groups.get(place)
            if group is None:
                group = groups[place] = _Group()
            key = self._enter(group, row, weight)
            if group.bar is None or not group.bar < key:
                touched[place] = group
            if shows_all:
                shown = self._form(row)
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

    def held(self) -> Iterator[IdRow]:
        """The rows of the input, and what is shown of the first."""
        yield from super().held()
        for group in list(self._groups.values()):
            yield from list(group.shown)

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
        shown: dict[IdRow, tuple[SortKey, int]] = {}
        for row, key, count in self._read(group):
            known = shown.get(row)
            shown[row] = (key, count) if known is None else (known[0], known[1] + count)
        group.shown = shown
        for row, (key, _) in (before | shown).items():
            told[row] = key
            weight = shown.get(row, _ABSENT)[1] - before.get(row, _ABSENT)[1]
            if weight:
                out[row] = weight

    def _read(self, group: _Group) -> Iterator[tuple[IdRow, SortKey, int]]:
        """The rows between offset and end with keys and counts; sets the bar at the last place."""
        place = 0
        group.bar = None
        known, forms = group.forms, {}
        for key in group.sorted:
            row: IdRow = key[-1]
            weight = self.kept[row][1]
            first = max(place, self._offset)
            place += weight
            last = place if self._end is None else min(place, self._end)
            if last > first:
                form = forms[row] = known.get(row) or self._form(row)
                yield form, key, last - first
            if self._end is not None and place >= self._end:
                group.bar = key
                break
        group.forms = forms


def cells(row: IdRow, columns: Sequence[int]) -> IdRow:
    """Some columns of a row; -1 is one that is never bound."""
    return tuple([row[column] if column >= 0 else 0 for column in columns])
