"""Rows, schemas and deltas of the incremental engine.

A row is a tuple of term ids (store/dictionary.py) in the order of its schema, 0 is unbound. A delta is a
Z-set: a finite map from rows to non-zero integer weights, +1 for a row that came, -1 for one that went. The
running sum of an operator's deltas is its relation, a multiset. Source: DBSP (Budiu et al., PVLDB 16(7)).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from .algebra.nodes import Term

Solution: TypeAlias = tuple[Term | None, ...]
"""One solution, in the order of the answer's variables; None is unbound."""
IdRow: TypeAlias = tuple[int, ...]
Delta: TypeAlias = dict[IdRow, int]
K = TypeVar("K")

EMPTY: Delta = {}
"""The delta of nothing. Operators return it as it is; nobody changes a delta that was handed over."""


@dataclass(frozen=True, slots=True)
class Schema:
    """The variables of a row in order, and those that every row binds."""

    vars: tuple[str, ...]
    certain: frozenset[str] = frozenset()

    @classmethod
    def bound(cls, *names: str) -> Schema:
        """The schema of rows that bind all of these."""
        return cls(names, frozenset(names))

    def columns(self, names: Iterable[str]) -> list[int]:
        """The places of some variables; -1 for one that no row has."""
        return [self.vars.index(name) if name in self.vars else -1 for name in names]

    def position(self, name: str) -> int:
        """The place of a variable. Raises ValueError when the row has none."""
        return self.vars.index(name)

    def positions(self, names: Iterable[str]) -> tuple[int, ...]:
        """The places of several variables."""
        return tuple(map(self.vars.index, names))


def merge(into: Delta, change: Delta) -> Delta:
    """Add ``change`` to ``into`` in place, dropping rows whose weight becomes 0; gives ``into``."""
    for row, weight in change.items():
        total = into.get(row, 0) + weight
        if total:
            into[row] = total
        else:
            del into[row]
    return into


def add(delta: dict[K, int], row: K, weight: int) -> None:
    """Add one row, or whatever else is counted, to a delta in place."""
    total = delta.get(row, 0) + weight
    if total:
        delta[row] = total
    else:
        delta.pop(row, None)


def negate(delta: Delta) -> Delta:
    """The opposite change."""
    return {row: -weight for row, weight in delta.items()}


def difference(new: Delta, old: Delta) -> Delta:
    """``new - old``: the change that leads from one relation to the other."""
    if len(old) > len(new) // 4:
        # Most rows are in both: they are compared, not copied and taken away again.
        change = {row: weight - old.get(row, 0) for row, weight in new.items() if old.get(row) != weight}
        change.update((row, -weight) for row, weight in old.items() if row not in new)
        return change
    change = dict(new)
    for row, weight in old.items():
        add(change, row, -weight)
    return change
