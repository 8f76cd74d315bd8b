"""Step 5 of 8: operators that ask of each left row whether something on the right matches it.

OPTIONAL, MINUS, EXISTS and NOT EXISTS differ only in what they give for a left row with and without a match.
All keep match *counts*: when one of two matches leaves, the other is still there (the equations of the DEBS
2015 paper, 3.3, are set based and lose it).
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
"""A condition on a left row, with what the right one binds of it, and that right row."""


class Match(Operator):
    """Left join, minus, semi join, anti join, and the mark join that adds a boolean column.

    Shapes: ``left`` gives merged rows, or the left row padded with unbound columns; ``minus``, ``anti`` and
    ``semi`` give left rows; ``mark`` gives left rows with a last column, ``true_id`` or ``false_id``.
    Rows are compatible when they agree on the common variables that both bind; for ``minus`` at least one
    must be bound on both sides. The condition of OPTIONAL and the correlated filters of EXISTS are
    ``residual``; they see both rows, so an inequality is as good as an equality.

    Law: out = whole(left, right) on multisets; the weight of a right row counts only for ``left``.
    Source: SPARQL 1.1, section 18.5 (LeftJoin, Minus) and 18.6 (exists).
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
        """``ignored``: common variables that do not count as an overlap for MINUS."""
        common = [name for name in left.vars if name in right.vars]
        keyed = [name for name in common if name in left.certain and name in right.certain]
        loose = [name for name in common if name not in keyed]
        self._left_key = left.positions(keyed)
        self._right_key = right.positions(keyed)
        self._loose = tuple((left.position(name), right.position(name)) for name in loose)
        added = [name for name in right.vars if name not in left.vars]
        self._pick = picker(right.positions(added))
        self._residual = residual
        # Columns of which one must be bound on both sides; None where that is sure.
        self._overlap: tuple[tuple[int, int], ...] | None = None
        if mode == "minus" and all(name in ignored for name in keyed):
            self._overlap = tuple(
                (left.position(name), right.position(name)) for name in loose if name not in ignored
            )
        self._left_of, self._right_of = key_getter(self._left_key), key_getter(self._right_key)
        self._lefts: Index = {}
        self._right = Arrangement()
        # With equality alone a match is a matter of the key, otherwise of each left row.
        self._by_key = not self._loose and residual is None
        self._counts: dict[IdRow, int] = {}
        self._merges = mode == "left"
        # The columns behind a left row that has a match, and behind one that has none; None: it is not given.
        self._behind: dict[bool, IdRow | None]
        match mode:
            case "left":
                self.schema = Schema((*left.vars, *added), left.certain)
                self._behind = {True: None, False: (0,) * len(added)}
            case "mark":
                self.schema = Schema((*left.vars, mark), left.certain | {mark})
                self._behind = {True: (true_id,), False: (false_id,)}
            case "semi":
                self.schema = left
                self._behind = {True: (), False: None}
            case _:
                self.schema = left
                self._behind = {True: None, False: ()}

    def step(self, *changes: Delta) -> Delta:
        """Left changes against the old right side, then right changes against the new left side."""
        left, right = changes
        out: Delta = {}
        if self._overlap == ():
            return dict(left)
        if left:
            self._step_left(left, out)
        if right:
            self._step_right(right, out)
        return out or EMPTY

    def look_up(self, place: int, arrangement: Arrangement) -> None:
        """The right side, whose place is 1, is looked up elsewhere from now on: its rows count as taken."""
        assert place == 1, "rows of the left side are given out"
        self._right = arrangement

    def keys_of(self, place: int) -> list[tuple[int, ...]]:
        """The keys by which a side is looked up."""
        return [self._right_key if place else self._left_key]

    def held(self) -> Iterator[IdRow]:
        """The rows of both sides; see `Arrangement.held`."""
        yield from chain.from_iterable(map(tuple, list(self._lefts.values())))
        yield from self._right.held()

    def size(self) -> int:
        """How many rows both sides hold."""
        return sum(map(len, self._lefts.values())) + len(self._right)

    def _step_left(self, change: Delta, out: Delta) -> None:
        lefts, rights = self._lefts, self._right.index(self._right_key)
        left_of, pick, by_key, merges = self._left_of, self._pick, self._by_key, self._merges
        matched, alone = self._behind[True], self._behind[False]
        made, look, counts = 0, self.budget.look, self._counts
        loose, residual = self._loose, self._residual
        for row, weight in change.items():
            key = left_of(row)
            bucket = rights.get(key, EMPTY)
            # Of a row that is here already it is known.
            matches = len(bucket) if by_key else counts.get(row)
            if bucket and (merges or matches is None):
                if (made := made + len(bucket)) > look:
                    look = self.budget.check(made, self)
                matches = 0
                for other, count in bucket.items():
                    cells = self._agreed(row, other) if loose else row
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
        right_of, pick, by_key, merges = self._right_of, self._pick, self._by_key, self._merges
        loose, residual, counts = self._loose, self._residual, self._counts
        # What nobody else looks into is changed in passing.
        own, grown = type(self._right) is Arrangement, 0
        # By key: whether there was a match before.
        touched: dict[Key, bool] = {}
        made, look = 0, self.budget.look
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
                    cells = self._agreed(row, other) if loose else row
                    if cells is None or not (residual is None or residual(cells, other)):
                        continue
                    if merges:
                        add(out, cells + behind, weight * count)
                    if not by_key:
                        known = counts[row]
                        counts[row] = known + count
                        if (known > 0) != (known + count > 0):
                            self._task(row, weight, known > 0, out)
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
                    self._task(row, weight, before, out)

    def _agreed(self, row: IdRow, other: IdRow) -> IdRow | None:
        """The left row with what the right row binds of it; None when they are not compatible."""
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

    def _task(self, row: IdRow, weight: int, before: bool, out: Delta) -> None:
        """A left row had a match or not, and now it is the other way round."""
        for matched, sign in ((before, -weight), (not before, weight)):
            behind = self._behind[matched]
            if behind is not None:
                add(out, row + behind, sign)
