"""Other constraints: sh:closed, sh:hasValue, sh:in (SHACL section 4.8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass

from pyoxigraph import NamedNode

from quadrill.store.terms import term_text

from ...algebra.nodes import Link, PathExpr, Term
from ..data_graph import DataGraph
from ..dependencies import ANY_PROPERTY, NONE, Dependencies, reading
from ..result import Result
from ..shape import Shape
from ..value_sets import ValueSets
from ..vocabulary import component, short
from .common import OnValues, of_path, shown

_CLOSED, _HAS_VALUE = component("Closed"), component("HasValue")
_MOST_LISTED = 10
"""Number of allowed values that a message lists."""


@dataclass(frozen=True, slots=True)
class Closed:
    """``sh:closed``: value nodes have no properties except the allowed ones."""

    allowed: frozenset[int]

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result for each triple of a value node whose predicate is not allowed."""
        for node in values:
            for _, predicate, value in data.facts.match(node, None, None):
                if predicate not in self.allowed:
                    iri = data.term(predicate)
                    assert isinstance(iri, NamedNode)
                    message = f"{shown(node, data)} has the property {short(iri)}, but the shape is closed"
                    yield shape.result(data, _CLOSED, focus, value, message, path=Link(iri))

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return the dependency on all triples whose subject is a value node."""
        return reading(ANY_PROPERTY).after(path)

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that has another property."""
        nodes = values.values()
        allowed = values.terms(self.allowed)
        columns = [column for iri, column in values.facts.columns.items() if iri not in allowed]
        return values.having({node for column in columns for node in nodes & column.subjects})


@dataclass(frozen=True, slots=True)
class HasValue:
    """``sh:hasValue``: one of the value nodes is this term."""

    value: int

    def check(self, shape: Shape, focus: int, values: Sequence[int], data: DataGraph) -> Iterator[Result]:
        """Yield one result without a value if the term is not among the value nodes."""
        if self.value not in values:
            message = f"{shown(focus, data)} lacks the value {shown(self.value, data)}{of_path(shape)}"
            yield shape.result(data, _HAS_VALUE, focus, None, message)

    def reads(self, path: PathExpr | None) -> Dependencies:
        """Return no dependencies."""
        return NONE

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes without the value."""
        return values.nodes - values.having({values.term(self.value)})


@dataclass(frozen=True, slots=True)
class In(OnValues):
    """``sh:in``: each value node is a member of a list."""

    members: frozenset[int]
    ordered: tuple[int, ...]

    def accepts(self, value: int, data: DataGraph) -> bool:
        """Return True for a member of the list."""
        return value in self.members

    def candidates(self, values: ValueSets) -> Set[Term]:
        """Return the focus nodes with a value node that the list does not have."""
        return values.having(values.values() - values.terms(self.members))

    def asked(self, data: DataGraph) -> str:
        """Return the rest of a message that lists the members."""
        listed = ", ".join(term_text(data.term(each)) for each in self.ordered[:_MOST_LISTED])
        rest = len(self.ordered) - _MOST_LISTED
        return f"is not one of {listed}" + (f" and {rest} others" if rest > 0 else "")
