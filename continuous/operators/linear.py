"""The protocol of operators, and those that look at one row at a time: filter, extend, project, union."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from ..expressions.compile import Condition
from ..rows import EMPTY, Delta, IdRow, Schema, add


class Operator(Protocol):
    """Maps the deltas of its inputs to the delta of its output.

    Law, tested for each operator:  step = differentiate ∘ whole-relation form ∘ integrate.

    The relation before the first step is empty on both sides, so an operator whose answer over nothing is
    something (inline data, an aggregate without GROUP BY) gives it at its first step. The plan calls every
    operator at its first step and afterwards only those with an input that changed.
    """

    schema: Schema

    def step(self, *changes: Delta) -> Delta:
        """Take one change of each input; the change of the output, without zero weights."""
        ...


class Stateful(Protocol):
    """An operator that keeps rows."""

    def held(self) -> Iterable[IdRow]:
        """Every row of term ids that the operator may still give out or compare with.

        Read in pieces while the operator goes on (`quadrill.store.sweep`): each collection is copied when it
        is reached, and what rows are made from comes before the rows.
        """
        ...

    def size(self) -> int:
        """How many rows it keeps."""
        ...


class Filter:
    """σ: the rows for which the condition's effective boolean value is true. An error is not true.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Filter.
    """

    def __init__(self, schema: Schema, condition: Condition) -> None:
        self.schema = schema
        self.condition = condition

    def step(self, *changes: Delta) -> Delta:
        """The changed rows that pass."""
        condition = self.condition
        return {row: weight for row, weight in changes[0].items() if condition(row)}


class Extend:
    """Adds one column, the id of an expression's value; an error leaves it unbound.

    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Extend.
    """

    def __init__(self, schema: Schema, compute: Callable[[IdRow], int]) -> None:
        self.schema = schema
        self.compute = compute

    def step(self, *changes: Delta) -> Delta:
        """The changed rows with their new column; equal rows stay equal."""
        compute = self.compute
        return {(*row, compute(row)): weight for row, weight in changes[0].items()}


class Project:
    """π on multisets: chosen columns in order; weights of rows that become equal add up.

    ``columns`` are places in the input row; -1 gives an unbound column.
    """

    def __init__(self, schema: Schema, columns: Sequence[int]) -> None:
        self.schema = schema
        self.columns = tuple(columns)

    def step(self, *changes: Delta) -> Delta:
        """The changed rows with fewer or reordered columns."""
        out: Delta = {}
        columns = self.columns
        for row, weight in changes[0].items():
            add(out, tuple([row[column] if column >= 0 else 0 for column in columns]), weight)
        return out


class Union:
    """⊎: the rows of both inputs, each brought to the common columns; -1 is an unbound column."""

    def __init__(self, schema: Schema, left: Sequence[int], right: Sequence[int]) -> None:
        self.schema = schema
        self._sides = (tuple(left), tuple(right))

    def step(self, *changes: Delta) -> Delta:
        """The changes of both sides together."""
        out: Delta = {}
        for columns, change in zip(self._sides, changes, strict=True):
            for row, weight in change.items():
                add(out, tuple([row[column] if column >= 0 else 0 for column in columns]), weight)
        return out


class Constant:
    """VALUES and the unit: rows that are there from the first step on and never change."""

    def __init__(self, schema: Schema, rows: Delta) -> None:
        self.schema = schema
        self._rows = rows
        self._given = False

    def step(self, *changes: Delta) -> Delta:
        """All rows once, then nothing."""
        if self._given:
            return EMPTY
        self._given = True
        return dict(self._rows)

    def held(self) -> list[IdRow]:
        """The rows that it keeps."""
        return list(self._rows)

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._rows)


class Distinct:
    """δ: a row is there once while its weight in the input is positive.

    Law: out = [in > 0]. Keeps the weight of every row of its input.
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self._weights: Delta = {}

    def step(self, *changes: Delta) -> Delta:
        """+1 for rows that became present, -1 for rows that are gone."""
        out: Delta = {}
        weights = self._weights
        for row, weight in changes[0].items():
            before = weights.get(row, 0)
            after = before + weight
            if after:
                weights[row] = after
            else:
                del weights[row]
            if (before > 0) != (after > 0):
                out[row] = 1 if after > 0 else -1
        return out

    def held(self) -> list[IdRow]:
        """The distinct rows."""
        return list(self._weights)

    def size(self) -> int:
        """How many rows it keeps."""
        return len(self._weights)
