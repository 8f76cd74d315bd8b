"""ORDER BY, LIMIT and OFFSET: the first rows of the whole input or of each group, in order."""

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
    """The ordered rows of one group, as ORDER BY and LIMIT maintain them.

    ``sorted`` are the sort keys of an ordered group's rows, up to ``floor``, or of all rows if ``floor`` is
    None. ``forms`` maps each input row in the output of ORDER BY and LIMIT to its output columns.
    ``output_order`` has the output rows in order with their counts, and ``output`` maps each output row to
    its least key and its total count. ``bar`` is the sort key of the last row within LIMIT, None while the
    group has fewer rows.
    """

    sorted: list[SortKey] = field(default_factory=list)
    forms: dict[IdRow, IdRow] = field(default_factory=dict)
    output_order: list[tuple[IdRow, int]] = field(default_factory=list)
    output: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    bar: SortKey | None = None
    floor: SortKey | None = None


_ABSENT: tuple[SortKey, int] = ((), 0)


@dataclass(eq=False, repr=False)
class TopK(Operator):
    """ORDER BY and LIMIT: the rows at positions ``offset`` to ``offset + limit`` of the ordered input.

    The function ``form`` returns the output columns of an input row. ``sort_key`` returns the sort key of an
    input row, a total order over the output columns: tied rows have equal output columns. The function
    ``sort_key`` also receives a key as bound, and may return () for a row that sorts after the bound.

    The sort keys of the input rows are kept in sorted lists, with the row as their last part. The output of
    ORDER BY with LIMIT is computed again only if a change falls before the end of the output. Rows far after
    the end of the output are in no list, and most have no sort key, until so many earlier rows have left that
    the output needs them.

    With ``by``, rows with equal values in the columns ``by`` form a group, which is ordered and cut
    separately, as for LIMIT in a block ``GRAPH ?g``. Output rows of two groups of an ordering must differ.
    DISTINCT keeps the first of equal rows, so the least key of a row decides its position. The sorted list is
    rebuilt with ``spare`` additional rows, at least one, if the list has become too long or too short.
    """

    schema: Schema
    _form: Callable[[IdRow], IdRow]
    _sort_key: Callable[[IdRow, SortKey | None], SortKey]
    _offset: int
    limit: int | None
    by: Sequence[int] = ()
    spare: int = 64
    # Each input row with its sort key (() if never computed) and its count.
    stored: dict[IdRow, tuple[SortKey, int]] = field(default_factory=dict)
    _groups: dict[IdRow, _OrderedRows] = field(default_factory=dict)
    # The sort keys of the output rows in the last delta: for each row its least key.
    _key_of: dict[IdRow, SortKey] = field(default_factory=dict)
    # Incremented by each step that may have changed the order of the output, even with an empty delta.
    revision: int = 0

    def __post_init__(self) -> None:
        self._end = None if self.limit is None else self._offset + self.limit
        self._is_unlimited = self.limit is None and not self._offset
        # Number of sort keys to keep in the sorted list; None keeps all. With groups (``by``) all sort keys
        # are listed, as `stored` mixes the rows of all groups.
        self._list_limit = None if self._end is None or self.by else self._end + self.spare

    def step(self, *changes: Delta) -> Delta:
        """Return the delta of the ordered output rows."""
        out: Delta = {}
        output_keys: dict[IdRow, SortKey] = {}
        touched: dict[IdRow, _OrderedRows] = {}
        by, groups, shows_all = self.by, self._groups, self._is_unlimited
        rows = changes[0].items()
        for row, weight in rows if len(rows) < CHUNK else pausing(rows):
            place = _cells(row, by) if by else ()
            group = groups.get(place)
            if group is None:
                group = groups[place] = _OrderedRows()
            key = self._apply(group, row, weight)
            if group.bar is None or (key and not group.bar < key):
                touched[place] = group
            if shows_all:
                shown = self._form(row)
                if shown not in output_keys or key < output_keys[shown]:
                    output_keys[shown] = key
                add(out, shown, weight)
        if not touched:
            return EMPTY
        moved = [shows_all or self._refresh(group, output_keys, out) for group in touched.values()]
        for place, group in touched.items():
            if not group.sorted:
                del groups[place]
        self._key_of = output_keys
        self.revision += any(moved)
        return out or EMPTY

    def rows(self) -> list[IdRow]:
        """Return the output rows in the order of ORDER BY, each as often as its count."""
        groups = self._groups.values()
        if self._is_unlimited:
            ordered = [key[-1] for each in groups for key in each.sorted]
            return [self._form(row) for row in ordered for _ in range(self.stored[row][1])]
        return [form for each in groups for form, count in each.output_order for _ in range(count)]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows of the ordering's input, and the output rows."""
        yield from super().referenced_rows()
        for group in list(self._groups.values()):
            yield from list(group.output)

    def in_order(self, change: Delta) -> Delta:
        """Return the last delta with its rows in output order."""
        return {row: change[row] for row in sorted_in_slices(change, self._key_of.__getitem__)}

    def _apply(self, group: _OrderedRows, row: IdRow, weight: int) -> SortKey:
        """Apply one changed row to its ordered group; return its sort key, or () after the listed rows."""
        known, floor = self.stored.get(row), group.floor
        if known is None:
            begun = self._sort_key(row, floor)
            key = (*begun, row) if begun else ()
            self.stored[row] = (key, weight)
            if key and (floor is None or not floor < key):
                insort(group.sorted, key)
                if self._list_limit is not None and len(group.sorted) > 2 * self._list_limit:
                    del group.sorted[self._list_limit :]
                    group.floor = group.sorted[-1]
            return key
        key = known[0]
        if known[1] + weight:
            self.stored[row] = (key, known[1] + weight)
        else:
            del self.stored[row]
            if key and (floor is None or not floor < key):
                del group.sorted[bisect_left(group.sorted, key)]
        return key

    def _refresh(self, group: _OrderedRows, output_keys: dict[IdRow, SortKey], out: Delta) -> bool:
        """Compute the output rows of an ordered group again and set its bar; add the difference to ``out``.

        The sort keys of old and new output rows are added to ``output_keys``. Returns False if the output
        rows and their order are unchanged.
        """
        if group.floor is not None and len(group.sorted) <= (self._end or 0):
            for row, (key, count) in self.stored.items():
                self.stored[row] = key or (*self._sort_key(row, None), row), count
            group.sorted = nsmallest(self._list_limit or 0, [key for key, _ in self.stored.values()])
            group.floor = group.sorted[-1] if len(group.sorted) < len(self.stored) else None
        before, listed, forms = group.output, group.output_order, group.forms
        shown: dict[IdRow, tuple[SortKey, int]] = {}
        group.output, group.output_order, group.forms, group.bar = shown, [], {}, None
        place = 0
        for key in group.sorted:
            row = key[-1]
            first, place = max(place, self._offset), place + self.stored[row][1]
            count = (place if self._end is None else min(place, self._end)) - first
            if count > 0:
                form = group.forms[row] = forms.get(row) or self._form(row)
                least, known = shown.get(form, (key, 0))
                shown[form] = least, known + count
                group.output_order.append((form, count))
            if self._end is not None and place >= self._end:
                group.bar = key
                break
        if group.output_order == listed:
            return False
        for form, (key, _) in (before | shown).items():
            output_keys[form] = key
            weight = shown.get(form, _ABSENT)[1] - before.get(form, _ABSENT)[1]
            if weight:
                out[form] = weight
        return True


def _cells(row: IdRow, columns: Sequence[int]) -> IdRow:
    """Return some columns of a row; column -1 is unbound."""
    return tuple([row[column] if column >= 0 else 0 for column in columns])
