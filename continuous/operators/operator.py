"""What every relation-to-relation operator is to the plan that runs it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from ..rows import Delta, IdRow, Schema


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
