"""The quads of one view: what its graph has to hold, kept up to date by the changes of the answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from ..element import Solution
from ..streams.terms import TermForms

Construct = Callable[[Sequence[Solution], int], list[Quad]]


class ViewContent:
    """How many rows of the answer yield each quad; a quad is in the graph while that is not 0.

    Law: after any steps `quads` is the set of quads that ``construct`` gives for the whole answer.
    """

    def __init__(self, graph: NamedNode, construct: Construct) -> None:
        """Begin empty.

        Args:
            graph: the view's graph.
            construct: the query's template over rows at an instant.
        """
        self._graph = graph
        self._construct = construct
        self._forms = TermForms()
        self._weights: dict[Quad, int] = {}

    def quads(self) -> list[Quad]:
        """What the graph has to hold."""
        return list(self._weights)

    def __len__(self) -> int:
        return len(self._weights)

    def change(
        self, deleted: Iterable[Solution], inserted: Iterable[Solution], at_ms: int
    ) -> tuple[list[Quad], list[Quad]]:
        """Rows went and came; the quads that go and come."""
        weights: dict[Quad, int] = {}
        for sign, rows in ((1, inserted), (-1, deleted)):
            for row in rows:
                for quad in self._quads_of([row], at_ms):
                    weights[quad] = weights.get(quad, 0) + sign
        gone: list[Quad] = []
        come: list[Quad] = []
        for quad, weight in weights.items():
            before = self._weights.get(quad, 0)
            after = before + weight
            if after:
                self._weights[quad] = after
            elif before:
                del self._weights[quad]
            if after and not before:
                come.append(quad)
            elif before and not after:
                gone.append(quad)
        return gone, come

    def replace(self, rows: Sequence[Solution], at_ms: int) -> tuple[list[Quad], list[Quad]]:
        """The whole answer; the quads that go and come."""
        before = self._weights
        self._weights = {}
        for row in rows:
            for quad in self._quads_of([row], at_ms):
                self._weights[quad] = self._weights.get(quad, 0) + 1
        gone = [quad for quad in before if quad not in self._weights]
        return gone, [quad for quad in self._weights if quad not in before]

    def _quads_of(self, rows: Sequence[Solution], at_ms: int) -> Iterable[Quad]:
        """The quads in the view's graph and in the store's form: equal there is equal here."""
        for quad in self._construct(rows, at_ms):
            object_ = quad.object
            if isinstance(object_, Literal):
                object_ = self._forms.literal(object_)
            assert quad.graph_name == DefaultGraph()
            yield Quad(quad.subject, quad.predicate, object_, self._graph)
