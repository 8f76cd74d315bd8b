"""Shape-based constraints: sh:node, sh:property, sh:qualifiedValueShape (SHACL section 4.7)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from quadrill.store.terms import term_text

from ...algebra.nodes import PathExpr, Term
from ..data_graph import DataGraph
from ..dependencies import Dependencies, merged
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component
from .cardinality import counted
from .common import OnValues, of_path, shown

_MIN, _MAX = component("QualifiedMinCount"), component("QualifiedMaxCount")


@dataclass(frozen=True, slots=True)
class Node(OnValues):
    """``sh:node``: each value node conforms to a node shape."""

    shape: Shape

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a node that conforms to the shape."""
        return self.shape.conforms(value, data)

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that names the shape."""
        return f"does not conform to the shape {term_text(self.shape.node)}"

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependencies of the shape."""
        return self.shape.reads().after(path)

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return the focus nodes with a value node that may not conform to the shape."""
        return values.failing_shape(self.shape)


@dataclass(frozen=True, slots=True)
class PropertyConstraint:
    """``sh:property``: the results are those of a property shape at each value node."""

    shape: Shape

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield the results of the property shape at each value node."""
        for value in values:
            yield from self.shape.results(value, data)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependencies of the property shape."""
        return self.shape.reads().after(path)

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return the focus nodes with a value node at which the property shape may have results."""
        return values.failing_shape(self.shape)


@dataclass(frozen=True, slots=True)
class Qualified:
    """``sh:qualifiedValueShape``: limits the number of value nodes that conform to a shape.

    Attributes:
        shape: the shape.
        min_count: minimum number of conforming value nodes; None for no limit.
        max_count: maximum number of conforming value nodes; None for no limit.
        siblings: shapes; a value node that conforms to one of them is not counted.
    """

    shape: Shape
    min_count: int | None
    max_count: int | None
    siblings: tuple[Shape, ...] = ()

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result without a value for each limit that the number of value nodes breaks."""
        count = sum(
            self.shape.conforms(value, data)
            and not any(sibling.conforms(value, data) for sibling in self.siblings)
            for value in values
        )
        if self.min_count is not None and count < self.min_count:
            message = f"{self._found(shape, focus, count, data)}, but needs at least {self.min_count}"
            yield shape.result(data, _MIN, focus, None, message)
        if self.max_count is not None and count > self.max_count:
            message = f"{self._found(shape, focus, count, data)}, but may have at most {self.max_count}"
            yield shape.result(data, _MAX, focus, None, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependencies of the shape and of its siblings."""
        return merged(shape.reads() for shape in (self.shape, *self.siblings)).after(path)

    def candidates(self, values: ValueSets) -> Set[Term] | None:
        """Return None: value nodes that conform are counted at each focus node."""
        return None

    def _found(self, shape: Shape, focus: int, count: int, data: DataGraph) -> str:
        found = f"{shown(focus, data)} has {counted(count)}{of_path(shape)}"
        return f"{found} with the shape {term_text(self.shape.node)}"
