"""Readers: which shapes must be validated again, and at which nodes, when triples change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..rules.facts import Fact
from ..rules.paths import PathSteps
from ..rules.terms import RuleTerms
from .data_graph import DataGraph
from .fact_change import FactChange
from .path_uses import uses_of
from .shape import Shape

Numbers = set[int]
"""Numbers of shapes."""


@dataclass(slots=True)
class _Uses:
    """The uses of triples with one predicate by dependency paths, with the shapes that have the paths.

    The near node of a triple is the one that the path reaches first; 0 is the subject, 2 the object. A link
    is a path of one triple from the focus node to the near node.

    Attributes:
        focus: the shapes for which the near node is the focus node itself, by position of the near node.
        links: the shapes whose focus nodes have a link, by position of the near node, position of the near
            node in the link, and predicate of the link.
        paths: the shapes whose focus nodes have a longer path, by position of the near node and path.
    """

    focus: defaultdict[int, Numbers] = field(default_factory=lambda: defaultdict(set))
    links: defaultdict[tuple[int, int], dict[int, Numbers]] = field(default_factory=lambda: defaultdict(dict))
    paths: dict[tuple[int, n.PathExpr], tuple[PathSteps, Numbers]] = field(default_factory=dict)


class Readers:
    """An index from predicates to the shapes whose results depend on triples with the predicate.

    Attributes:
        predicates: the predicates of all triples that results depend on; None for any predicate.
    """

    def __init__(self, shapes: Iterable[Shape], terms: RuleTerms) -> None:
        self.predicates: frozenset[NamedNode] | None = frozenset()
        self._uses: dict[int | None, _Uses] = {}
        # By predicate, the numbers of the shapes that are validated at all focus nodes if a triple changes.
        self._anywhere: defaultdict[int | None, Numbers] = defaultdict(set)
        self._terms = terms
        for number, shape in enumerate(shapes):
            found = shape.dependencies()
            for each in (None,) if found.anywhere is None else found.anywhere:
                self._anywhere[self._noted(each)].add(number)
            for use in {use for path in found.paths for use in uses_of(path)}:
                self._add(self._noted(use.predicate), use.near, use.before, number)

    def _add(self, predicate: int | None, near: int, before: n.PathExpr | None, number: int) -> None:
        uses = self._uses.setdefault(predicate, _Uses())
        match before:
            case None:
                uses.focus[near].add(number)
            case n.Link(iri):
                uses.links[near, 2].setdefault(self._terms.id_of(iri), set()).add(number)
            case n.Inverse(n.Link(iri)):
                uses.links[near, 0].setdefault(self._terms.id_of(iri), set()).add(number)
            case _:
                if (near, before) not in uses.paths:
                    uses.paths[near, before] = PathSteps(before, self._terms), set()
                uses.paths[near, before][1].add(number)

    def _noted(self, predicate: NamedNode | None) -> int | None:
        """Add a predicate to ``predicates``; return its id, or None for any predicate."""
        if predicate is None:
            self.predicates = None
            return None
        if self.predicates is not None:
            self.predicates |= {predicate}
        return self._terms.id_of(predicate)

    def anywhere(self, change: FactChange) -> Numbers:
        """Return the numbers of the shapes for which a change can affect the results of every focus node."""
        if not self._anywhere:
            return set()
        predicates = {p for facts in (change.added, change.removed) for _, p, _ in facts}
        return {number for each in (None, *predicates) for number in self._anywhere.get(each, ())}

    def reached(self, facts: Iterable[Fact], data: DataGraph) -> Iterator[tuple[Numbers, Iterable[int]]]:
        """Yield nodes whose results depend on some of the facts of a data graph.

        Each item is a pair: the numbers of some shapes, and the ids of nodes, which need not be focus nodes.
        """
        near: defaultdict[int | None, tuple[set[int], set[int]]] = defaultdict(lambda: (set(), set()))
        for s, p, o in facts:
            for each in (p, None):
                if each in self._uses:
                    near[each][0].add(s)
                    near[each][1].add(o)
        for predicate, ends in near.items():
            uses = self._uses[predicate]
            for place, numbers in uses.focus.items():
                yield numbers, ends[place // 2]
            for (place, side), links in uses.links.items():
                for node in ends[place // 2]:
                    yield from _over_links(links, side, node, data)
            for (place, _), (steps, numbers) in uses.paths.items():
                yield (
                    numbers,
                    {start for node in ends[place // 2] for start in steps.backward(data.read, node)},
                )


def _over_links(
    links: dict[int, Numbers], side: int, node: int, data: DataGraph
) -> Iterator[tuple[Numbers, Iterable[int]]]:
    """Yield numbers of shapes with the nodes from which their links lead to the end ``node``."""
    around = data.around(side, node)
    if around is not None:
        for predicate, nodes in around.items():
            if predicate in links:
                yield links[predicate], nodes
        return
    for predicate, numbers in links.items():
        s, o = (node, None) if side == 0 else (None, node)
        yield numbers, [fact[2 - side] for fact in data.facts.match(s, predicate, o)]
