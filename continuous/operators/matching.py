"""Step 5 of 8: operators that ask of each left row whether something on the right matches it.

OPTIONAL, MINUS, EXISTS and NOT EXISTS differ only in what they give for a left row with and without a match.
All keep match *counts*: when one of two matches leaves, the other is still there (the equations of the DEBS
2015 paper, 3.3, are set based and lose it).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Literal as OneOf

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .arrangement import Arrangement, Key, key_of, picker

Mode = OneOf["left", "minus", "semi", "anti", "mark"]
Residual = Callable[[IdRow], bool]
"""A condition on the merged row (left columns, then the right columns that are not on the left)."""


class Match:
    """Left join, minus, semi join, anti join, and the mark join that adds a boolean column.

    Shapes: ``left`` gives merged rows, or the left row padded with unbound columns; ``minus``, ``anti`` and
    ``semi`` give left rows; ``mark`` gives left rows with a last column, ``true_id`` or ``false_id``.
    Rows are compatible when they agree on the common variables that both bind; for ``minus`` at least one
    must be bound on both sides. The condition of OPTIONAL and the correlated filters of EXISTS are
    ``residual``; they see the merged row, so an inequality is as good as an equality.

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
        self.mode = mode
        common = [name for name in left.vars if name in right.vars]
        keyed = [name for name in common if name in left.certain and name in right.certain]
        loose = [name for name in common if name not in keyed]
        self._left_key = left.positions(keyed)
        self._right_key = right.positions(keyed)
        self._loose = tuple((left.position(name), right.position(name)) for name in loose)
        self._added = tuple(column for column, name in enumerate(right.vars) if name not in left.vars)
        self._pick = picker(self._added)
        self._residual = residual
        self._width = len(left.vars)
        self._overlaps = any(name not in ignored for name in keyed)
        self._overlap = tuple(
            (left.position(name), right.position(name)) for name in loose if name not in ignored
        )
        self._marks = (true_id, false_id)
        self._left = Arrangement([self._left_key])
        self._right = Arrangement([self._right_key])
        # With equality alone a match is a matter of the key, otherwise of each left row.
        self._by_key = not self._loose and residual is None
        self._counts: dict[IdRow, int] = {}
        if mode == "left":
            names = (*left.vars, *(right.vars[column] for column in self._added))
            self.schema = Schema(names, left.certain)
        elif mode == "mark":
            self.schema = Schema((*left.vars, mark), left.certain | {mark})
        else:
            self.schema = left

    def step(self, *changes: Delta) -> Delta:
        """Left changes against the old right side, then right changes against the new left side."""
        left, right = changes
        out: Delta = {}
        if self.mode == "minus" and not self._overlaps and not self._overlap:
            return dict(left)
        if left:
            self._step_left(left, out)
            self._left.update(left)
        if right:
            if self._by_key:
                self._step_right_by_key(right, out)
            else:
                self._step_right(right, out)
        return out or EMPTY

    def held(self) -> Iterator[IdRow]:
        """The rows of both sides."""
        return chain.from_iterable(side.held() for side in (self._left, self._right))

    def size(self) -> int:
        """How many rows both sides hold."""
        return len(self._left) + len(self._right)

    def _step_left(self, change: Delta, out: Delta) -> None:
        index = self._right.index(self._right_key)
        for row, weight in change.items():
            bucket = index.get(key_of(row, self._left_key), EMPTY)
            if self._by_key and self.mode != "left":
                self._give(row, weight, bool(bucket), out)
                continue
            matches = 0
            for merged, count in self._matches(row, bucket.items()):
                matches += count
                if self.mode == "left":
                    add(out, merged, weight * count)
            if not self._by_key:
                self._counts[row] = matches
            if self.mode != "left" or not matches:
                self._give(row, weight, matches > 0, out)
        if not self._by_key:
            self._forget(change)

    def _forget(self, change: Delta) -> None:
        """Drop the counts of left rows that are gone after this change."""
        index = self._left.index(self._left_key)
        for row, weight in change.items():
            present = index.get(key_of(row, self._left_key), EMPTY).get(row, 0)
            if not present + weight:
                del self._counts[row]

    def _step_right(self, change: Delta, out: Delta) -> None:
        lefts = self._left.index(self._left_key)
        counts = self._counts
        for other, count in change.items():
            for row, weight in lefts.get(key_of(other, self._right_key), EMPTY).items():
                for merged, _ in self._matches(row, ((other, count),)):
                    if self.mode == "left":
                        add(out, merged, weight * count)
                    before = counts[row]
                    after = counts[row] = before + count
                    self._turn(row, weight, before, after, out)
        self._right.update(change)

    def _step_right_by_key(self, change: Delta, out: Delta) -> None:
        lefts = self._left.index(self._left_key)
        rights = self._right.index(self._right_key)
        keys: dict[Key, bool] = {}
        for other, count in change.items():
            key = key_of(other, self._right_key)
            if key not in keys:
                keys[key] = key in rights
            if self.mode == "left":
                for row, weight in lefts.get(key, EMPTY).items():
                    for merged, _ in self._matches(row, ((other, count),)):
                        add(out, merged, weight * count)
        self._right.update(change)
        for key, before in keys.items():
            after = key in rights
            if before != after:
                for row, weight in lefts.get(key, EMPTY).items():
                    self._turn(row, weight, int(before), int(after), out)

    def _matches(self, row: IdRow, others: Iterable[tuple[IdRow, int]]) -> Iterator[tuple[IdRow, int]]:
        """The merged rows of the right rows that match ``row``."""
        pick, residual = self._pick, self._residual
        if not self._loose:
            for other, count in others:
                merged = row + pick(other)
                if residual is None or residual(merged):
                    yield merged, count
            return
        for other, count in others:
            if not self._overlaps and self.mode == "minus" and not self._share(row, other):
                continue
            cells = list(row)
            for column, place in self._loose:
                mine, theirs = row[column], other[place]
                if mine and theirs and mine != theirs:
                    break
                cells[column] = mine or theirs
            else:
                merged = tuple(cells) + pick(other)
                if residual is None or residual(merged):
                    yield merged, count

    def _share(self, row: IdRow, other: IdRow) -> bool:
        return any(row[column] and other[place] for column, place in self._overlap)

    def _turn(self, row: IdRow, weight: int, before: int, after: int, out: Delta) -> None:
        """The first match came or the last one went."""
        if (before > 0) == (after > 0):
            return
        if self.mode == "left":
            self._give(row, -weight if after > 0 else weight, False, out)
        else:
            self._give(row, -weight, before > 0, out)
            self._give(row, weight, after > 0, out)

    def _give(self, row: IdRow, weight: int, matched: bool, out: Delta) -> None:
        """Add the contribution of a left row, with or without a match."""
        match self.mode:
            case "left":
                if not matched:
                    add(out, row + (0,) * len(self._added), weight)
            case "semi":
                if matched:
                    add(out, row, weight)
            case "anti" | "minus":
                if not matched:
                    add(out, row, weight)
            case "mark":
                add(out, (*row, self._marks[0] if matched else self._marks[1]), weight)
