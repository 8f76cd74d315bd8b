"""Windows become graphs: the query as plain SPARQL over one evaluation store.

The evaluation store (`Workspace`) holds, for window k,

    graph urn:quadrill:window:k           the triples that patterns outside GRAPH match
    graph urn:quadrill:window:k:graph:n   the quads of the n-th graph name met in it
    graph urn:quadrill:window:k:names     <urn:quadrill:window:k:graph:n> <urn:quadrill:name> graph name,
                                          and the names of the window and its stream for variables

so that nothing of a window can be seen outside its block and nothing else inside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count

from pyoxigraph import BlankNode, NamedNode

from quadrill.store.errors import QueryTextError

from ..algebra.build import UNIT, all_nodes, join, operands, union, with_operands
from ..algebra.graphs import evaluates_by_graph
from ..algebra.nodes import MERGED, Algebra, Bgp, Graph, TriplePattern, Var, Window
from ..algebra.query import WindowDeclaration
from ..windows.encoded import WindowKey

NAME = NamedNode("urn:quadrill:name")
WINDOW_NAME = NamedNode("urn:quadrill:window-name")
STREAM_NAME = NamedNode("urn:quadrill:stream-name")


GraphName = NamedNode | BlankNode


@dataclass(slots=True)
class GraphNames:
    """The names that windows and their graphs have in the evaluation store; given once, never changed."""

    _windows: dict[WindowKey, str] = field(default_factory=dict)
    _graphs: dict[tuple[WindowKey, GraphName], NamedNode] = field(default_factory=dict)

    def window(self, key: WindowKey) -> NamedNode:
        """The graph of what patterns outside GRAPH match."""
        return NamedNode(self._prefix(key))

    def names(self, key: WindowKey) -> NamedNode:
        """The graph that maps the window's own graphs to their original names."""
        return NamedNode(self._prefix(key) + ":names")

    def graph(self, key: WindowKey, name: GraphName) -> NamedNode:
        """The graph that holds the quads of one graph name in the window."""
        if (key, name) not in self._graphs:
            self._graphs[key, name] = NamedNode(f"{self._prefix(key)}:graph:{len(self._graphs)}")
        return self._graphs[key, name]

    def _prefix(self, key: WindowKey) -> str:
        return self._windows.setdefault(key, f"urn:quadrill:window:{len(self._windows)}")


class WindowPlan:
    """Rewrites one query for given streams of variable windows and graph names of the contents."""

    def __init__(
        self,
        windows: Iterable[WindowDeclaration],
        names: GraphNames,
        streams: Mapping[NamedNode, Iterable[NamedNode]],
        contents: Mapping[WindowKey, Iterable[GraphName]],
    ) -> None:
        self._windows = {each.name: each for each in windows}
        self._names = names
        self._streams = streams
        self._contents = contents
        self._fresh = count(1)
        self.reads_names = False
        """True when the text depends on which graph names the contents have."""

    def rewrite(self, node: Algebra) -> Algebra:
        """The query with each Window as GRAPH over the evaluation store."""
        if isinstance(node, Window):
            if isinstance(node.name, Var):
                return union(self._window(name, node, node.name) for name in self._windows)
            return self._window(node.name, node, None)
        return with_operands(node, [self.rewrite(each) for each in operands(node)])

    def _window(self, name: NamedNode, node: Window, variable: Var | None) -> Algebra:
        """One window's dataset; ``variable`` is bound to its name, a variable stream to the stream's."""
        if name == MERGED:
            return self._inside((MERGED, None), node.input)
        declaration = self._windows.get(name)
        if declaration is None:
            raise QueryTextError(
                f"the window <{name.value}> is not declared", hint="add FROM NAMED WINDOW ... ON ..."
            )
        stream = declaration.stream
        keys: list[WindowKey] = [(name, None)]
        if isinstance(stream, Var):
            keys = [(name, each) for each in self._streams.get(name, ())]
        return union(
            join(
                self._bound(key, WINDOW_NAME, variable),
                self._bound(key, STREAM_NAME, stream if isinstance(stream, Var) else None),
                self._inside(key, node.input),
            )
            for key in keys
        )

    def _bound(self, key: WindowKey, predicate: NamedNode, variable: Var | None) -> Algebra:
        """Binds a variable to a window's or stream's name; unlike inline data it may be looked up by row."""
        if variable is None:
            return UNIT
        pattern = TriplePattern(self._names.window(key), predicate, variable)
        return Graph(self._names.names(key), Bgp((pattern,)))

    def _inside(self, key: WindowKey, node: Algebra) -> Algebra:
        return Graph(self._names.window(key), self._graphs_inside(key, node))

    def _graphs_inside(self, key: WindowKey, node: Algebra) -> Algebra:
        """GRAPH inside a window ranges over the graph names of its elements only."""
        if isinstance(node, Window):
            raise QueryTextError("a window inside a window is an error")
        if isinstance(node, Graph):
            inner = self._graphs_inside(key, node.input)
            if not isinstance(node.name, Var):
                # Joined with its name: a graph that no element has is not there, whatever the pattern.
                only = self._names.graph(key, node.name)
                return join(self._name_of(key, only, node.name), Graph(only, inner))
            if evaluates_by_graph(node.input, None):
                graph: NamedNode | Var = Var(f"_:graph{next(self._fresh)}")
                return join(self._name_of(key, graph, node.name), Graph(graph, inner))
            self.reads_names = True
            graphs = [self._names.graph(key, each) for each in self._contents.get(key, ())]
            return union(join(self._name_of(key, each, node.name), Graph(each, inner)) for each in graphs)
        return with_operands(node, [self._graphs_inside(key, each) for each in operands(node)])

    def _name_of(self, key: WindowKey, graph: NamedNode | Var, name: NamedNode | Var) -> Algebra:
        return Graph(self._names.names(key), Bgp((TriplePattern(graph, NAME, name),)))


def windows_with_graphs(root: Algebra) -> bool:
    """True when some window's block uses GRAPH, so that the graphs of elements must be kept apart."""
    return any(
        isinstance(each, Graph)
        for window in all_nodes(root)
        if isinstance(window, Window)
        for each in all_nodes(window.input)
    )
