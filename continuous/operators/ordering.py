"""ORDER BY, LIMIT and OFFSET: the first rows in their order, of all rows or of each group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import Any

from ..rows import EMPTY, Delta, IdRow, Schema, add
from ..slices import CHUNK, pausing, sorted_in_slices
from .linear import Operator

SortKey = tuple[Any, ...]


@dataclass(slots=True)
class _OrderedRows:
    """The rows of one group.

    ``sorted`` are the keys of its first rows, up to ``floor``, of all where that is None. ``forms`` has the
    shown form of each row that is shown, ``listed`` these in order and how often each is there, ``shown``
    each of them with its least key and how often it is there in all. ``bar`` is the key at the last place
    shown, None while there is room behind it.
    """

    sorted: list[SortKey] = field(default_factory=list)
    forms: dict[IdRow, IdRow] = field(default_factory=dict)
    listed: list[tuple[IdRow, int]] = field(default_factory=list)
    shown: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    bar: SortKey | None = None
    floor: SortKey | None = None


_ABSENT: tuple[SortKey, int] = ((), 0)


@dataclass(eq=False, repr=False)
class TopK(Operator):
    """The rows at the places ``offset`` to ``offset + limit`` of the input in order.

    ``form`` gives the columns that are shown of an input row, ``sort_key`` its key, total over these columns:
    rows that tie are equal there. It gets a key as well and may give () for a row that is behind it. Keys
    are kept in sorted lists, with the row as their last part; the rows shown are read again only when
    a change falls before their end. Rows far behind that end are in no list, and mostly without a
    key, until so many before them have gone that they may be shown. With ``by``, the rows with equal
    values in these columns are a group, which is ordered and cut on its own: LIMIT in a block that is
    evaluated graph by graph. The first of each group is what DISTINCT keeps of equal rows: a row stands where
    the least of its keys puts it.

    ``by`` are places in the input; what is shown of the rows of two groups must differ. ``spare`` rows behind
    those shown are listed when too many or too few are; one at least.

    Law: out = union over the groups of slice(sort(integrate(in))).
    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, OrderBy, Project, Distinct, Slice.
    """

    schema: Schema
    _form: Callable[[IdRow], IdRow]
    _sort_key: Callable[[IdRow, SortKey | None], SortKey]
    _offset: int
    limit: int | None
    by: Sequence[int] = ()
    spare: int = 64
    # Each row of the input with its key, where it was ever listed, and how often it is there.
    kept: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    _groups: dict[IdRow, _OrderedRows] = field(default_factory=dict)
    # The keys of the rows that the last step told of, in their shown form; of several the least.
    _key_of: dict[IdRow, SortKey] = field(default_factory=dict)
    # Grows with each step that may have changed the order of what is shown, though no row came or went.
    revision: int = 0

    def __post_init__(self) -> None:
        self._end = None if self.limit is None else self._offset + self.limit
        self._shows_all = self.limit is None and not self._offset
        # One group's rows are found again among all rows; more than so many are not listed.
        self._listed = None if self._end is None or self.by else self._end + self.spare

    def step(self, *changes: Delta) -> Delta:
        """The change of the rows shown."""
        out: Delta = {}
        told: dict[IdRow, SortKey] = {}
        touched: dict[IdRow, _OrderedRows] = {}
        by, groups, shows_all = self.by, self._groups, self._shows_all
        rows = changes[0].items()
        for row, weight in rows if len(rows) < CHUNK else pausing(rows):
            place = _cells(row, by) if by else ()
            group = groups.get(place)
            if group is None:
                group = groups[place] = _OrderedRows()
            key = self._enter(group, row, weight)
            if group.bar is None or (key and not group.bar < key):
                touched[place] = group
            if shows_all:
                shown = self._form(row)
                if shown not in told or key < told[shown]:
                    told[shown] = key
                add(out, shown, weight)
        if not touched:
            return EMPTY
        moved = [shows_all or self._show(group, told, out) for group in touched.values()]
        for place, group in touched.items():
            if not group.sorted:
                del groups[place]
        self._key_of = told
        self.revision += any(moved)
        return out or EMPTY

    def rows(self) -> list[IdRow]:
        """The rows shown, in order, each as often as it is there."""
        groups = self._groups.values()
        if self._shows_all:
            ordered = [key[-1] for each in groups for key in each.sorted]
            return [self._form(row) for row in ordered for _ in range(self.kept[row][1])]
        return [form for each in groups for form, count in each.listed for _ in range(count)]

    def held(self) -> Iterator[IdRow]:
        """The rows of the input, and what is shown of the first."""
        yield from super().held()
        for group in list(self._groups.values()):
            yield from list(group.shown)

    def in_order(self, change: Delta) -> Delta:
        """The last change, its rows in order."""
        return {row: change[row] for row in sorted_in_slices(change, self._key_of.__getitem__)}

    def _enter(self, group: _OrderedRows, row: IdRow, weight: int) -> SortKey:
        """Enter one changed row; its key, or () for one that is behind the floor."""
        known, floor = self.kept.get(row), group.floor
        if known is None:
            begun = self._sort_key(row, floor)
            key = (*begun, row) if begun else ()
            self.kept[row] = (key, weight)
            if key and (floor is None or not floor < key):
                insort(group.sorted, key)
                if self._listed is not None and len(group.sorted) > 2 * self._listed:
                    del group.sorted[self._listed :]
                    group.floor = group.sorted[-1]
            return key
        key = known[0]
        if known[1] + weight:
            self.kept[row] = (key, known[1] + weight)
        else:
            del self.kept[row]
            if key and (floor is None or not floor < key):
                del group.sorted[bisect_left(group.sorted, key)]
        return key

    def _show(self, group: _OrderedRows, told: dict[IdRow, SortKey], out: Delta) -> bool:
        """Read anew what a group shows; its change, and the keys of the rows now and before.

        The bar is set at the last place. False when it is the same in the same order.
        """
        if group.floor is not None and len(group.sorted) <= (self._end or 0):
            for row, (key, count) in self.kept.items():
                self.kept[row] = key or (*self._sort_key(row, None), row), count
            group.sorted = nsmallest(self._listed or 0, [key for key, _ in self.kept.values()])
            group.floor = group.sorted[-1] if len(group.sorted) < len(self.kept) else None
        before, listed, forms = group.shown, group.listed, group.forms
        shown: dict[IdRow, tuple[SortKey, int]] = {}
        group.shown, group.listed, group.forms, group.bar = shown, [], {}, None
        place = 0
        for key in group.sorted:
            row = key[-1]
            first, place = max(place, self._offset), place + self.kept[row][1]
            count = (place if self._end is None else min(place, self._end)) - first
            if count > 0:
                form = group.forms[row] = forms.get(row) or self._form(row)
                least, known = shown.get(form, (key, 0))
                shown[form] = least, known + count
                group.listed.append((form, count))
            if self._end is not None and place >= self._end:
                group.bar = key
                break
        if group.listed == listed:
            return False
        for form, (key, _) in (before | shown).items():
            told[form] = key
            weight = shown.get(form, _ABSENT)[1] - before.get(form, _ABSENT)[1]
            if weight:
                out[form] = weight
        return True


def _cells(row: IdRow, columns: Sequence[int]) -> IdRow:
    """Some columns of a row; -1 is one that is never bound."""
    return tuple([row[column] if column >= 0 else 0 for column in columns])
