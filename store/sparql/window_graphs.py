"""Contents of a workspace: windows as named graphs, and tables of static rows as quads.

The workspace holds, for window k,

    graph urn:quadrill:window:k           the triples that patterns outside GRAPH match
    graph urn:quadrill:window:k:graph:n   the quads of the n-th graph name met in it
    graph urn:quadrill:window:k:names     <urn:quadrill:window:k:graph:n> <urn:quadrill:name> graph name,
                                          and the names of the window and its stream for variables

so that a pattern sees a window's quads only inside the block of that window, and sees no other quads there.
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
"""A window's name, and its stream's name if a variable ranges over several streams; else None."""


class WindowGraphs:
    """The graphs of one window in the workspace, and the content that they hold.

    Attributes:
        graph: the graph that patterns outside of GRAPH match.
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
        """The number of quads in the window's content."""
        return len(self._content)

    def graph_of(self, name: GraphName) -> NamedNode:
        """Return the workspace graph that holds the window's quads of one graph name."""
        if name not in self._graphs:
            self._graphs[name] = NamedNode(f"{self.graph.value}:graph:{len(self._graphs)}")
        return self._graphs[name]

    @property
    def graph_names(self) -> list[GraphName]:
        """The graph names of the window's quads, in order of first arrival."""
        names = dict.fromkeys(quad.graph_name for quad in self._content)
        return [name for name in names if not isinstance(name, DefaultGraph)]

    def load(
        self, content: Mapping[Quad, int], into: Sequence[NamedNode], *, union: bool, named: bool
    ) -> None:
        """Replace the window's quads in the workspace by ``content``, by adding and removing the difference.

        Args:
            content: the quads of the window.
            into: the workspace graphs that patterns outside of GRAPH match: this window's graph, and the
                graph of the merged window.
            union: True if these patterns match all graphs of elements; False for the default graph only.
            named: True to load each named graph into a separate workspace graph as well.
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
    """The rows of one static part as quads: a blank node for each row, a predicate for each column.

    Rows of a static part that bind different columns have different predicates. As rows with different bound
    columns have different predicates, a basic graph pattern without OPTIONAL reads all rows with one set of
    bound columns, with index look-ups by any bound column.

    Attributes:
        size: the number of rows.
        shapes: for each set of bound columns, the predicate of each column.
    """

    def __init__(self, part: str, workspace: Workspace) -> None:
        self.size = 0
        self.shapes: list[dict[int, NamedNode]] = []
        self._part = part
        self._workspace = workspace
        self._nodes: dict[Solution, list[BlankNode]] = {}
        self._numbers = count()

    def apply(self, delta: Mapping[Solution, int]) -> None:
        """Insert a static part's rows with positive weights and delete rows with negative weights."""
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
        """Return the sets of bound columns of the rows; the most selective columns come first."""
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
    """Return the indexes of a row's bound columns; (-1,) if no column is bound."""
    return tuple(column for column, term in enumerate(row) if term is not None) or (-1,)
