"""Windows as graphs: rewrites a query for a store that contains the contents of the query's windows.

For each window, the store has a graph of the triples that patterns outside GRAPH match, a graph for each
graph name in the window, and a graph that maps the stored names to the original names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import NamedNode

from quadrill.store.errors import QueryTextError
from quadrill.store.sparql.window_graphs import (
    NAME,
    STREAM_NAME,
    WINDOW_NAME,
    WindowGraphs,
    WindowKey,
)

from .build import UNIT, join, operands, union, with_operands
from .graphs import evaluates_by_graph
from .nodes import MERGED, Algebra, Bgp, Graph, TriplePattern, Var, Window
from .query import WindowDeclaration


@dataclass(slots=True)
class WindowsAsGraphs:
    """Rewrites one query over windows to a query over the graphs of an evaluation store.

    Attributes:
        keys: the current keys of the windows, with the stream to which a stream variable is bound.
        reads_names: True if the query text depends on the graph names in the windows' contents.
    """

    declared: Sequence[WindowDeclaration]
    keys: Sequence[WindowKey]
    loaded: Mapping[WindowKey, WindowGraphs]
    reads_names: bool = False
    _fresh: Iterator[int] = field(default_factory=lambda: count(1))

    def rewrite(self, node: Algebra) -> Algebra:
        """Return the query with each Window node as GRAPH over the evaluation store."""
        if isinstance(node, Window):
            if isinstance(node.name, Var):
                return union(self._window(each.name, node, node.name) for each in self.declared)
            return self._window(node.name, node, None)
        return with_operands(node, [self.rewrite(each) for each in operands(node)])

    def _window(self, name: NamedNode, node: Window, variable: Var | None) -> Algebra:
        """Return the pattern over one window; ``variable`` is bound to its name, ``?s`` to its stream."""
        if name == MERGED:
            return self._inside(self.loaded[MERGED, None], node.input)
        stream = next((each.stream for each in self.declared if each.name == name), None)
        if stream is None:
            raise QueryTextError(
                f"the window <{name.value}> is not declared", hint="add FROM NAMED WINDOW ... ON ..."
            )
        return union(
            join(
                _named(window, window.graph, WINDOW_NAME, variable),
                _named(window, window.graph, STREAM_NAME, stream if isinstance(stream, Var) else None),
                self._inside(window, node.input),
            )
            for window in [self.loaded[key] for key in self.keys if key[0] == name]
        )

    def _inside(self, window: WindowGraphs, node: Algebra) -> Algebra:
        return Graph(window.graph, self._graphs_inside(window, node))

    def _graphs_inside(self, window: WindowGraphs, node: Algebra) -> Algebra:
        """GRAPH inside a window ranges over the graph names of its elements only."""
        if isinstance(node, Window):
            raise QueryTextError("a window inside a window is an error")
        if not isinstance(node, Graph):
            return with_operands(node, [self._graphs_inside(window, each) for each in operands(node)])
        inner = self._graphs_inside(window, node.input)
        graphs: list[NamedNode | Var]
        if not isinstance(node.name, Var):
            graphs = [window.graph_of(node.name)]
        elif evaluates_by_graph(node.input, None):
            graphs = [Var(f"_:graph{next(self._fresh)}")]
        else:
            self.reads_names = True
            graphs = [window.graph_of(name) for name in window.graph_names]
        # The graph is joined with its original name, so that a graph that no element has gives no solution.
        return union(join(_named(window, graph, NAME, node.name), Graph(graph, inner)) for graph in graphs)


def _named(
    window: WindowGraphs, graph: NamedNode | Var, predicate: NamedNode, name: NamedNode | Var | None
) -> Algebra:
    """Return a pattern that binds a variable to the window's or a graph's name; empty for None.

    Unlike inline data, this pattern of names may be looked up by row.
    """
    return UNIT if name is None else Graph(window.names, Bgp((TriplePattern(graph, predicate, name),)))
