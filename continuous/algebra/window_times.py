"""Rewrites AT and BOUNDS to patterns over contents of windows that hold event times.

For a window that a block reads with AT, one of its contents has a graph for each element, with the graph's
name and the element's event time in the graph `TIMES`. For a window with BOUNDS, another content has the
window's two ends. docs/semantics.md, section 3, has the meaning of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from pyoxigraph import NamedNode

from .build import UNIT, join, operands, union, with_operands
from .nodes import Algebra, Bgp, Graph, Join, TriplePattern, Values, Var, Window
from .query import WindowDeclaration, elements_of, ends_of

TIMES = NamedNode("urn:quadrill:times")
"""The graph with the event time of each element, in a content that has a graph for each element."""
TIME = NamedNode("urn:quadrill:time")
"""The predicate of an element's event time, whose subject is the name of the element's graph."""
ENDS = NamedNode("urn:quadrill:ends")
"""The subject of the two triples of a content with the ends of a window."""
OPEN, CLOSE = NamedNode("urn:quadrill:open"), NamedNode("urn:quadrill:close")


def read_window_times(root: Algebra, windows: Sequence[WindowDeclaration]) -> Algebra:
    """Return the query with AT and BOUNDS as patterns; the same object if it has neither.

    The rewrite turns ``Window(w, P)`` with AT ?t into ``Window(elements of w, Join(Graph(?e, P), Graph(times,
    Bgp(?e time ?t))))``, and with BOUNDS ?o ?c into ``Join(Window(w, P), Window(ends of w, Bgp(ends open ?o .
    ends close ?c)))``. A block that ranges over all windows becomes a union.
    """
    return _Rewrite(windows).visit(root)


@dataclass(slots=True)
class _Rewrite:
    windows: Sequence[WindowDeclaration]
    _fresh: Iterator[int] = field(default_factory=lambda: count(1))

    def visit(self, node: Algebra) -> Algebra:
        if not isinstance(node, Window):
            return with_operands(node, [self.visit(each) for each in operands(node)])
        variable = node.name
        if isinstance(variable, NamedNode):
            return node if node.time is None and not node.bounds else self._read(node, variable)
        if all(len([*each.contents]) == 1 for each in self.windows):
            return node
        return union(
            Join(self._read(node, each.name), Values((variable,), ((each.name,),))) for each in self.windows
        )

    def _read(self, node: Window, name: NamedNode) -> Algebra:
        bounds = next((each.bounds for each in self.windows if each.name == name), None)
        inside: Algebra = Window(name, node.input, node.stream)
        if node.time is not None:
            element = Var(f"_:element{next(self._fresh)}")
            time = Graph(TIMES, Bgp((TriplePattern(element, TIME, node.time),)))
            pattern = UNIT if node.input == UNIT else Graph(element, node.input)
            inside = Window(elements_of(name), join(pattern, time), node.stream)
        if bounds is None:
            return inside
        ends = tuple(TriplePattern(ENDS, end, var) for end, var in zip((OPEN, CLOSE), bounds, strict=True))
        return Join(inside, replace(node, name=ends_of(name), input=Bgp(ends), time=None, bounds=()))
