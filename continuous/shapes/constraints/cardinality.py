"""Cardinality constraints: sh:minCount, sh:maxCount (SHACL section 4.2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from ...algebra.nodes import PathExpr, Term
from ..data_graph import DataGraph
from ..dependencies import NONE, Dependencies
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component
from .common import of_path, shown

_MIN, _MAX = component("MinCount"), component("MaxCount")


@dataclass(frozen=True, slots=True)
class MinCount:
    """``sh:minCount``: a focus node has at least ``count`` value nodes."""

    count: int

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result without a value if there are too few value nodes."""
        if len(values) < self.count:
            found = f"{shown(focus, data)} has {counted(len(values))}{of_path(shape)}"
            message = f"{found}, but needs at least {self.count}"
            yield shape.result(data, _MIN, focus, None, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with too few value nodes."""
        assert values.column is not None  # only property shapes have the constraint
        if self.count <= 1:
            return values.nodes - values.column.subjects if self.count else set()
        return {node for node in values.nodes if len(values.of(node)) < self.count}


@dataclass(frozen=True, slots=True)
class MaxCount:
    """``sh:maxCount``: a focus node has at most ``count`` value nodes."""

    count: int

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result without a value if there are too many value nodes."""
        if len(values) > self.count:
            found = f"{shown(focus, data)} has {counted(len(values))}{of_path(shape)}"
            message = f"{found}, but may have at most {self.count}"
            yield shape.result(data, _MAX, focus, None, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with too many value nodes."""
        assert values.column is not None  # only property shapes have the constraint
        column = values.column
        found = values.nodes & (column.subjects_of_many if self.count else column.subjects)
        return (
            found if self.count <= 1 else {node for node in found if len(column.objects(node)) > self.count}
        )


def counted(number: int) -> str:
    """Return a number of values as words, for instance ``1 value``."""
    return "1 value" if number == 1 else f"{number} values"
