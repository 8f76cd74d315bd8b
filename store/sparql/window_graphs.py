"""What a workspace is filled with: the contents of windows as graphs of it, and tables of rows.

The store holds, for window k,

    graph urn:quadrill:window:k           the triples that patterns outside GRAPH match
    graph urn:quadrill:window:k:graph:n   the quads of the n-th graph name met in it
    graph urn:quadrill:window:k:names     <urn:quadrill:window:k:graph:n> <urn:quadrill:name> graph name,
                                          and the names of the window and its stream for variables

so that nothing of a window can be seen outside its block and nothing else inside it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import count, repeat

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad

from ..terms import Solution
from .workspace import Workspace

NAME = NamedNode("urn:quadrill:name")
WINDOW_NAME = NamedNode("urn:quadrill:window-name")
STREAM_NAME = NamedNode("urn:quadrill:stream-name")

GraphName = NamedNode | BlankNode
WindowKey = tuple[NamedNode, NamedNode | None]
"""The name of a window, and the stream where a variable ranges over several."""


class WindowGraphs:
    """The graphs of one window in the workspace, and the content that they hold.

    Attributes:
        graph: of what patterns outside GRAPH match.
        names: the graph that maps the window's own graphs to their original names.
    """

    def __init__(self, workspace: Workspace, key: WindowKey, number: int) -> None:
        self.graph = NamedNode(f"urn:quadrill:window:{number}")
        self.names = NamedNode(f"urn:quadrill:window:{number}:names")
        self._workspace = workspace
        self._graphs: dict[GraphName, NamedNode] = {}
        self._content: Mapping[Quad, int] = {}
        workspace.declare(self.graph)
        name, stream = key
        workspace.add({Quad(self.graph, WINDOW_NAME, name, self.names): 1})
        if stream is not None:
            workspace.add({Quad(self.graph, STREAM_NAME, stream, self.names): 1})

    @property
    def size(self) -> int:
        """How many quads the window holds."""
        return len(self._content)

    def graph_of(self, name: GraphName) -> NamedNode:
        """The graph that holds the quads of one graph name in the window."""
        if name not in self._graphs:
            self._graphs[name] = NamedNode(f"{self.graph.value}:graph:{len(self._graphs)}")
        return self._graphs[name]

    @property
    def graph_names(self) -> list[GraphName]:
        """The graph names of the content, in order of their first arrival."""
        names = dict.fromkeys(quad.graph_name for quad in self._content)
        return [name for name in names if not isinstance(name, DefaultGraph)]

    def load(
        self, content: Mapping[Quad, int], into: Sequence[NamedNode], *, union: bool, named: bool
    ) -> None:
        """Make the workspace hold exactly this content for the window.

        Args:
            content: the quads.
            into: the graphs of what patterns outside GRAPH match: its own, that of the merged window.
            union: these match all graphs, else the default graph.
            named: the graphs of elements are told apart as well.
        """
        weights: Counter[Quad] = Counter()
        current = self._content
        changed = [(quad, -1) for quad in current if quad not in content]
        changed += [(quad, 1) for quad in content if quad not in current]
        for quad, weight in changed:
            name = quad.graph_name
            if union or isinstance(name, DefaultGraph):
                for graph in into:
                    weights[Quad(quad.subject, quad.predicate, quad.object, graph)] += weight
            if named and not isinstance(name, DefaultGraph):
                graph = self.graph_of(name)
                weights[Quad(quad.subject, quad.predicate, quad.object, graph)] += weight
                weights[Quad(graph, NAME, name, self.names)] += weight
        self._workspace.add(weights)
        self._content = dict(content)


class LoadedTable:
    """The rows of one static part as quads: a blank node per row, a predicate per column.

    Rows that bind different columns have different predicates, so each shape of row is read by a plain
    basic graph pattern: no OPTIONAL, and index look-ups by whatever is bound.

    Attributes:
        size: how many rows there are.
        shapes: for each set of bound columns, the predicate of each.
    """

    def __init__(self, part: str, workspace: Workspace) -> None:
        self.size = 0
        self.shapes: list[dict[int, NamedNode]] = []
        self._part = part
        self._workspace = workspace
        self._nodes: dict[Solution, list[BlankNode]] = {}
        self._numbers = count()

    def apply(self, delta: Mapping[Solution, int]) -> None:
        """Rows come and go."""
        remove: list[Quad] = []
        add: list[Quad] = []
        for row, weight in delta.items():
            nodes = self._nodes.setdefault(row, [])
            for _ in repeat(None, weight):
                nodes.append(BlankNode(f"row{self._part}x{next(self._numbers)}"))
                add += self._quads(row, nodes[-1])
            for _ in repeat(None, -weight):
                remove += self._quads(row, nodes.pop())
            if not nodes:
                del self._nodes[row]
        self.size += sum(delta.values())
        self.shapes = self._find_shapes()
        self._workspace.change(remove, add)

    def _quads(self, row: Solution, node: BlankNode) -> Iterator[Quad]:
        shape = _shape(row)
        for column in shape:
            term = row[column] if column >= 0 else node
            if term is not None:
                yield Quad(node, self._predicate(shape, column), term, DefaultGraph())

    def _predicate(self, shape: Sequence[int], column: int) -> NamedNode:
        return NamedNode(f"urn:quadrill:part:{self._part}:{'.'.join(map(str, shape))}:{column}")

    def _find_shapes(self) -> list[dict[int, NamedNode]]:
        """The shapes of the rows held, columns with more distinct terms first: they find fewer rows."""
        by_shape: dict[tuple[int, ...], list[Solution]] = {}
        for row in self._nodes:
            by_shape.setdefault(_shape(row), []).append(row)
        shapes = []
        for shape, rows in sorted(by_shape.items()):
            distinct = {column: len({row[column] for row in rows}) if column >= 0 else 0 for column in shape}
            order = sorted(shape, key=lambda column: (-distinct[column], column))
            shapes.append({column: self._predicate(shape, column) for column in order})
        return shapes


def _shape(row: Solution) -> tuple[int, ...]:
    """The bound columns; -1 stands for the row itself where none is."""
    return tuple(column for column, term in enumerate(row) if term is not None) or (-1,)
