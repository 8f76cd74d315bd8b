"""Value sets: some focus nodes with their value nodes, on which a constraint is checked as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

from pyoxigraph import NamedNode

from quadrill.store.terms import Term

from .copied_facts import Column, CopiedFacts

_MOST_CHECKS = 1_000
"""Maximum number of constraints that are checked as a whole for one shape with a target.

Shapes can use one another in so many ways that there is no end of such checks. Constraints after this number
are checked at each focus node, where `DataGraph` remembers which nodes conform.
"""
_FEW = 4
"""If a predicate has more than this number of triples for each focus node, the values of each focus node are
looked up, instead of the distinct values of the predicate."""


@dataclass(slots=True)
class Checks:
    """The number of constraints that may still be checked as a whole."""

    left: int = _MOST_CHECKS


class _Screened(Protocol):
    def candidates(self, values: ValueSets) -> tuple[Set[Term], Sequence[object]]:
        """Return nodes that may have results; see `Shape.candidates`."""
        ...


@dataclass(frozen=True, slots=True)
class ValueSets:
    """Focus nodes and their value nodes.

    Attributes:
        facts: the data.
        nodes: the focus nodes.
        column: has the value nodes of each focus node; None if each focus node is its own value node.
        checks: the number of checks that are left.
    """

    facts: CopiedFacts
    nodes: Set[Term]
    column: Column | None = None
    checks: Checks = field(default_factory=Checks)

    def of(self, node: Term) -> Sequence[Term]:
        """Return the value nodes of a focus node."""
        return (node,) if self.column is None else self.column.objects(node)

    def values(self) -> Set[Term]:
        """Return at least the value nodes of all focus nodes, each once."""
        column = self.column
        if column is None:
            return self.nodes
        if len(self.nodes) * _FEW < len(column.subjects):
            return {value for node in self.nodes for value in column.objects(node)}
        return column.distinct_objects()

    def having(self, values: Set[Term]) -> set[Term]:
        """Return the focus nodes with at least one of some value nodes."""
        if not values:
            return set()
        if self.column is None:
            return set(self.nodes & values)
        if len(self.nodes) * _FEW < len(self.column.subjects):
            return {node for node in self.nodes if not values.isdisjoint(self.column.objects(node))}
        return self.column.having(values) & self.nodes

    def failing(self, fits: Callable[[Term], bool]) -> set[Term]:
        """Return the focus nodes with at least one value node for which ``fits`` is false."""
        return self.having({value for value in self.values() if not fits(value)})

    def failing_shape(self, shape: _Screened) -> set[Term] | None:
        """Return at least the focus nodes with a value node that does not conform to ``shape``.

        The answer is None if the shape can only be checked at each node.
        """
        found, unchecked = shape.candidates(ValueSets(self.facts, self.values(), None, self.checks))
        return None if unchecked else self.having(found)

    def along(self, predicate: NamedNode) -> ValueSets:
        """Return the same focus nodes with the values of another property."""
        return ValueSets(self.facts, self.nodes, self.facts.column(predicate), self.checks)

    def term(self, term_id: int) -> Term:
        """Return the term of an id."""
        return self.facts.terms.term(term_id)

    def terms(self, term_ids: Iterable[int]) -> set[Term]:
        """Return the terms of ids."""
        return set(map(self.term, term_ids))
