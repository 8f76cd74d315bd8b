"""Property pair constraints: sh:equals, sh:disjoint, sh:lessThan, sh:lessThanOrEquals (SHACL section 4.5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from ...algebra.nodes import Link, PathExpr, Term
from ...expressions.numeric import less, less_or_equal
from ..data_graph import DataGraph
from ..datatypes import is_well_formed
from ..dependencies import Dependencies, reading
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component, short
from .common import shown

_EQUALS, _DISJOINT = component("Equals"), component("Disjoint")
_LESS, _LESS_OR_EQUAL = component("LessThan"), component("LessThanOrEquals")


@dataclass(frozen=True, slots=True)
class _PropertyPair:
    """A constraint that compares the value nodes with the values of another property of the focus node."""

    link: Link
    predicate: int

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependency on the other property of the focus node."""
        return reading(self.link)

    def _with_both(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes that have value nodes and values of the other property."""
        both = values.nodes & values.facts.column(self.link.iri).subjects
        return both if values.column is None else both & values.column.subjects


class Equals(_PropertyPair):
    """``sh:equals``: the value nodes and the values of the other property are the same set."""

    __slots__ = ()

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each value node or value of the other property that is not both."""
        others = data.objects(focus, self.predicate)
        name = short(self.link.iri)
        for value in values:
            if value not in others:
                message = f"{shown(value, data)} is not a value of {name}, which must have the same values"
                yield shape.result(data, _EQUALS, focus, value, message)
        for value in others:
            if value not in values:
                message = f"{shown(value, data)} is a value of {name} only, which must have the same values"
                yield shape.result(data, _EQUALS, focus, value, message)

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with other value nodes than values of the other property."""
        others = values.along(self.link.iri)
        return {node for node in values.nodes if set(values.of(node)) != set(others.of(node))}


class Disjoint(_PropertyPair):
    """``sh:disjoint``: no value node is a value of the other property."""

    __slots__ = ()

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each value node that is a value of the other property."""
        others = data.objects(focus, self.predicate)
        name = short(self.link.iri)
        for value in values:
            if value in others:
                message = f"{shown(value, data)} is also a value of {name}, but must not be"
                yield shape.result(data, _DISJOINT, focus, value, message)

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that is a value of the other property."""
        others = values.along(self.link.iri)
        return {
            node for node in self._with_both(values) if not set(values.of(node)).isdisjoint(others.of(node))
        }


@dataclass(frozen=True, slots=True)
class LessThan(_PropertyPair):
    """``sh:lessThan``: each value node is less than each value of the other property.

    With ``or_equal``, the constraint is ``sh:lessThanOrEquals``, and values may also be equal.
    """

    or_equal: bool = False

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each pair of a value node and another value that breaks the constraint.

        A pair that SPARQL cannot compare breaks the constraint.
        """
        table = data.terms.context.values
        holds = less_or_equal if self.or_equal else less
        words = "less than or equal to" if self.or_equal else "less than"
        kind = _LESS_OR_EQUAL if self.or_equal else _LESS
        for other in data.objects(focus, self.predicate):
            for value in values:
                pair = table[value], table[other]
                if not all(map(is_well_formed, pair)) or holds(*pair) is not True:
                    what = f"{shown(other, data)}, the value of {short(self.link.iri)}"
                    message = f"{shown(value, data)} is not {words} {what}"
                    yield shape.result(data, kind, focus, value, message)

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes that have value nodes and values of the other property."""
        return self._with_both(values)
