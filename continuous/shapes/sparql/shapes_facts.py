"""The shapes graph as a named graph of the data, for queries with ``GRAPH $shapesGraph``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ...algebra.nodes import Term
from ...rules.facts import Fact, Facts, MemoryFacts, Pattern, Row
from ...rules.terms import RuleTerms

SHAPES_GRAPH = NamedNode("urn:quadrill:shapes-graph")
"""The value of $shapesGraph."""


class ShapesFacts:
    """The triples of one shapes graph, in a graph with the name `SHAPES_GRAPH`."""

    def __init__(self, triples: Iterable[tuple[Term, Term, Term]], terms: RuleTerms) -> None:
        self.name = terms.id_of(SHAPES_GRAPH)
        self.facts = MemoryFacts()
        id_of = terms.id_of
        for s, p, o in triples:
            self.facts.add((id_of(s), id_of(p), id_of(o)))

    def added_to(self, data: Facts) -> Facts:
        """Return the facts of a data graph, with the shapes graph as a further named graph."""
        return _WithShapes(data, self)


@dataclass(frozen=True, slots=True)
class _WithShapes:
    """Facts with one more named graph."""

    data: Facts
    shapes: ShapesFacts

    def match(self, s: Pattern, p: Pattern, o: Pattern) -> Collection[Fact]:
        """Return the matching triples of the data graph."""
        return self.data.match(s, p, o)

    def match_in(self, graph: Pattern, s: Pattern, p: Pattern, o: Pattern) -> Collection[tuple[int, Fact]]:
        """Return the matching triples of named graphs."""
        own = self.shapes.name
        found = [] if graph == own else list(self.data.match_in(graph, s, p, o))
        if graph is None or graph == own:
            found += [(own, fact) for fact in self.shapes.facts.match(s, p, o)]
        return found

    def graph_names(self) -> Collection[int]:
        """Return the names of the graphs."""
        return [*self.data.graph_names(), self.shapes.name]

    def count(self, p: Pattern) -> int:
        """Return an estimate of the number of triples with a predicate."""
        return self.data.count(p)

    def kept(
        self, predicates: frozenset[int], key: Hashable, find: Callable[[], Iterable[Row]]
    ) -> Iterable[Row]:
        """Return the rows of ``find`` without a cache, because they may depend on the shapes graph."""
        return find()
