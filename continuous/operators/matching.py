"""Operators for OPTIONAL, MINUS, EXISTS and NOT EXISTS, which look for matches of each left row.

The operators for OPTIONAL, MINUS, EXISTS and NOT EXISTS differ only in the output for a left row with and
without a match. All matching operators work with *counts* of matches: if one of two matches leaves, the other
match remains. The equations of the DEBS 2015 paper, section 3.3, are set based: they lose a second match of a
left row when the first one leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import Literal as OneOf

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .arrangement import Arrangement, Index, Key, key_getter, picker
from .linear import Operator

Mode = OneOf["left", "minus", "semi", "anti", "mark"]
Residual = Callable[[IdRow, IdRow], bool]
"""A condition on a left row, extended by the right row's bindings, and on that right row."""


class Match(Operator):
    """The matching operators: left join, minus, semi join, anti join, and mark join (a boolean column).

    Output of the matching operators: ``left`` emits merged rows, or the left row padded with unbound columns;
    ``minus``, ``anti`` and ``semi`` emit left rows; ``mark`` emits left rows with a last column of
    ``true_id`` or ``false_id``. Two rows are compatible if they agree on the common variables that both rows
    bind; ``minus`` needs at least one common variable that both rows bind. The condition of OPTIONAL and the
    correlated filters of EXISTS are the ``residual`` condition, which sees both rows, so inequalities work as
    well as equalities.

    Law of matching: out = whole(left, right) on multisets; the weight of a right row counts only for
    ``left``. Source: SPARQL 1.1, section 18.5 (LeftJoin, Minus) and 18.6 (exists).
    """

    def __init__(
        self,
        mode: Mode,
        left: Schema,
        right: Schema,
        residual: Residual | None = None,
        *,
        mark: str = "",
        true_id: int = 0,
        false_id: int = 0,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        """Compile a matching operator; MINUS does not count variables in ``ignored`` as common."""
        common = [name for name in left.vars if name in right.vars]
        keyed = [name for name in common if name in left.certain and name in right.certain]
        loose = [name for name in common if name not in keyed]
        self._left_key = left.positions(keyed)
        self._right_key = right.positions(keyed)
        self._loose = tuple((left.position(name), right.position(name)) for name in loose)
        added = [name for name in right.vars if name not in left.vars]
        self._pick = picker(right.positions(added))
        self._residual = residual
        # Pairs of columns of which MINUS needs one bound on both sides; None if one pair is always bound.
        self._overlap: tuple[tuple[int, int], ...] | None = None
        if mode == "minus" and all(name in ignored for name in keyed):
            self._overlap = tuple(
                (left.position(name), right.position(name)) for name in loose if name not in ignored
            )
        self._left_key_of, self._right_key_of = key_getter(self._left_key), key_getter(self._right_key)
        self._lefts: Index = {}
        self._right = Arrangement()
        # Without columns that may be unbound and without a residual condition, all left rows of a key have
        # the same matches.
        self._by_key = not self._loose and residual is None
        self._counts: dict[IdRow, int] = {}
        self._merges = mode == "left"
        # The cells appended to a left row with a match (True) and without a match (False); None drops the
        # row.
        self._suffix: dict[bool, IdRow | None]
        match mode:
            case "left":
                self.schema = Schema((*left.vars, *added), left.certain)
                self._suffix = {True: None, False: (0,) * len(added)}
            case "mark":
                self.schema = Schema((*left.vars, mark), left.certain | {mark})
                self._suffix = {True: (true_id,), False: (false_id,)}
            case "semi":
                self.schema = left
                self._suffix = {True: (), False: None}
            case _:
                self.schema = left
                self._suffix = {True: None, False: ()}

    def step(self, *changes: Delta) -> Delta:
        """Match left changes with the old right side, then right changes with the new left side."""
        left, right = changes
        out: Delta = {}
        if self._overlap == ():
            return dict(left)
        if left:
            self._step_left(left, out)
        if right:
            self._step_right(right, out)
        return out or EMPTY

    def use_arrangement(self, place: int, arrangement: Arrangement) -> None:
        """Replace the right side (place 1) by a shared arrangement; its rows count as processed."""
        assert place == 1, "rows of the left side are given out"
        self._right = arrangement

    def keys_of(self, place: int) -> list[tuple[int, ...]]:
        """Return the key by which a side of the matching is probed: left side 0 or right side 1."""
        return [self._right_key if place else self._left_key]

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the rows of both sides of the matching; see `Arrangement.referenced_rows`."""
        yield from chain.from_iterable(map(tuple, list(self._lefts.values())))
        yield from self._right.referenced_rows()

    def size(self) -> int:
        """Return the number of stored rows of both sides of the matching."""
        return sum(map(len, self._lefts.values())) + len(self._right)

    def _step_left(self, change: Delta, out: Delta) -> None:
        lefts, rights = self._lefts, self._right.index(self._right_key)
        left_of, pick, by_key, merges = self._left_key_of, self._pick, self._by_key, self._merges
        matched, alone = self._suffix[True], self._suffix[False]
        made, look, counts = 0, self.budget.next_check, self._counts
        loose, residual = self._loose, self._residual
        for row, weight in change.items():
            key = left_of(row)
            bucket = rights.get(key, EMPTY)
            # A left row that is stored already has a known number of matches.
            matches = len(bucket) if by_key else counts.get(row)
            if bucket and (merges or matches is None):
                if (made := made + len(bucket)) > look:
                    look = self.budget.check(made, self)
                matches = 0
                for other, count in bucket.items():
                    cells = self._compatible(row, other) if loose else row
                    if cells is None or not (residual is None or residual(cells, other)):
                        continue
                    matches += count
                    if merges:
                        add(out, cells + pick(other), weight * count)
            behind = matched if matches else alone
            if behind is not None:
                add(out, row + behind, weight)
            kept = lefts.get(key)
            if kept is None:
                kept = lefts[key] = {}
            total = kept.get(row, 0) + weight
            if total:
                kept[row] = total
                if not by_key:
                    counts[row] = matches or 0
                continue
            del kept[row]
            if not kept:
                del lefts[key]
            if not by_key:
                del counts[row]

    def _step_right(self, change: Delta, out: Delta) -> None:
        lefts, rights = self._lefts, self._right.index(self._right_key)
        right_of, pick, by_key, merges = self._right_key_of, self._pick, self._by_key, self._merges
        loose, residual, counts = self._loose, self._residual, self._counts
        # A private arrangement is updated in the same loop; a shared arrangement has its own update.
        own, grown = type(self._right) is Arrangement, 0
        # For each key with changed right rows, whether the key had right rows before this step.
        touched: dict[Key, bool] = {}
        made, look = 0, self.budget.next_check
        for other, count in change.items():
            key = right_of(other)
            rows = rights.get(key)
            if key not in touched:
                touched[key] = bool(rows)
            bucket = lefts.get(key)
            if bucket is not None and (merges or not by_key):
                if (made := made + len(bucket)) > look:
                    look = self.budget.check(made, self)
                behind = pick(other)
                for row, weight in bucket.items():
                    cells = self._compatible(row, other) if loose else row
                    if cells is None or not (residual is None or residual(cells, other)):
                        continue
                    if merges:
                        add(out, cells + behind, weight * count)
                    if not by_key:
                        known = counts[row]
                        counts[row] = known + count
                        if (known > 0) != (known + count > 0):
                            self._flip(row, weight, known > 0, out)
            if not own:
                continue
            if rows is None:
                rights[key], grown = {other: count}, grown + 1
                continue
            grown -= len(rows)
            if total := rows.get(other, 0) + count:
                rows[other] = total
            else:
                del rows[other]
            grown += len(rows)
        if own:
            self._right.count += grown
        else:
            self._right.update(change)
            rights = self._right.index(self._right_key)
        for key, before in touched.items():
            rows = rights.get(key)
            if not rows and own:
                del rights[key]
            if by_key and before != bool(rows):
                for row, weight in lefts.get(key, EMPTY).items():
                    self._flip(row, weight, before, out)

    def _compatible(self, row: IdRow, other: IdRow) -> IdRow | None:
        """Return a left row extended by a right row's bindings; None if the rows are incompatible."""
        overlap = self._overlap
        if overlap is not None and not any(row[column] and other[place] for column, place in overlap):
            return None
        cells = list(row)
        for column, place in self._loose:
            mine, theirs = row[column], other[place]
            if mine and theirs and mine != theirs:
                return None
            cells[column] = mine or theirs
        return tuple(cells)

    def _flip(self, row: IdRow, weight: int, before: bool, out: Delta) -> None:
        """Replace the output of a left row that gained its first match or lost its last match."""
        for matched, sign in ((before, -weight), (not before, weight)):
            behind = self._suffix[matched]
            if behind is not None:
                add(out, row + behind, sign)
