"""GROUP BY with aggregate functions that support retraction (step 5 of 8 of query evaluation)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ..expressions.aggregates import Accumulator
from ..expressions.compile import ValueFunction
from ..expressions.values import ValueTable
from ..rows import EMPTY, Delta, IdRow, Schema
from .linear import Operator


@dataclass(frozen=True, slots=True)
class Aggregation:
    """One aggregate function of a GROUP BY.

    ``new`` creates the accumulator of an aggregate function for a group. The accumulator's input is the id in
    ``column``, or the value that ``compute`` returns. For ``COUNT(*)``, ``column`` and ``compute`` are None:
    rows are counted, and COUNT(DISTINCT *) compares rows by ``columns``.
    """

    new: Callable[[], Accumulator]
    column: int | None = None
    compute: ValueFunction | None = None
    columns: Sequence[int] = ()


@dataclass(slots=True)
class GroupState:
    """The state of a group of GROUP BY: number of rows, accumulators, and the last emitted output row."""

    rows: int
    accumulators: list[Accumulator]
    emitted: IdRow | None = None


@dataclass(eq=False, repr=False)
class GroupAggregate(Operator):
    """Groups rows with equal keys; each non-empty group has one output row (keys, results).

    ``keys`` are the positions of the grouping columns in the input; -1 stands for a key that is never bound.
    A GROUP BY without keys has exactly one group, which exists without rows too: COUNT is 0 from the first
    step on. Law of GROUP BY: out = aggregate(integrate(in)); a group with unchanged results emits nothing.
    Source: https://www.w3.org/TR/sparql11-query/#sparqlAlgebra, Group and Aggregation (18.5.1).
    """

    schema: Schema
    keys: Sequence[int]
    aggregations: Sequence[Aggregation]
    values: ValueTable
    groups: dict[IdRow, GroupState] = field(default_factory=dict)
    _first: bool = True

    def step(self, *changes: Delta) -> Delta:
        """Return the old (-1) and the new (+1) output row of every group whose results changed."""
        keys, values = self.keys, self.values
        dirty = self.begin()
        for row, weight in changes[0].items():
            key = tuple([row[column] if column >= 0 else 0 for column in keys])
            group = dirty.get(key)
            if group is None:
                group = dirty[key] = self.group(key)
            group.rows += weight
            for aggregation, accumulator in zip(self.aggregations, group.accumulators, strict=True):
                if aggregation.column is not None:
                    cell = row[aggregation.column] if aggregation.column >= 0 else 0
                    given = (cell or None) if accumulator.counts else values[cell]
                    accumulator.take(cell if accumulator.by_id else given, weight)
                elif aggregation.compute is not None:
                    value = aggregation.compute(row)
                    accumulator.take(values.id_of(value) if accumulator.by_id else value, weight)
                else:
                    accumulator.take(tuple([row[each] for each in aggregation.columns]), weight)
        return self.emit(dirty)

    def begin(self) -> dict[IdRow, GroupState]:
        """Return the groups to emit without input: at the first step without keys, the single group."""
        if not self._first:
            return {}
        self._first = False
        return {} if self.keys else {(): self.group(())}

    def group(self, key: IdRow) -> GroupState:
        """Return the group of a key of GROUP BY; a missing group is created."""
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = GroupState(0, [each.new() for each in self.aggregations])
        return group

    def emit(self, dirty: dict[IdRow, GroupState]) -> Delta:
        """Return the delta of the output rows of changed groups, and delete empty groups."""
        out: Delta = {}
        values = self.values
        for key, group in dirty.items():
            old = group.emitted
            if group.rows or not self.keys:
                new: IdRow | None = (*key, *[each.result_id(values) for each in group.accumulators])
            else:
                new = None
                del self.groups[key]
            if new != old:
                # The keys make the output rows of different groups distinct, so no entry of the delta is
                # overwritten.
                if old is not None:
                    out[old] = -1
                if new is not None:
                    out[new] = 1
                group.emitted = new
        return out or EMPTY

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the groups' output rows, and the ids in their accumulators."""
        for group in list(self.groups.values()):
            for each in group.accumulators:
                yield tuple(each.ids())
            if group.emitted is not None:
                yield group.emitted

    def size(self) -> int:
        """Return the number of groups."""
        return len(self.groups)
