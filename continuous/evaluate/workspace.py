"""The evaluation store: one scratch store that holds static tables and the contents of the windows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, QueryBoolean, QuerySolutions, Store, Triple

from quadrill.store.errors import UnsupportedError
from quadrill.store.sparql.query import evaluation_error

from ..element import Solution
from ..expressions.oxigraph import Functions
from ..windows.encoded import WindowKey
from .window_graphs import NAME, STREAM_NAME, WINDOW_NAME, GraphName, GraphNames

_REMOVED_AT_LEAST = 20_000
_PART = "urn:quadrill:part:"

DEFAULT = DefaultGraph()


class Workspace:
    """A store in memory that is filled by differences.

    A store in memory never frees deleted quads, so it is copied to a fresh one when more quads were removed
    than are alive.
    """

    def __init__(self) -> None:
        self._store = Store()
        self._graphs: list[NamedNode] = []
        self._removed = 0
        self._alive = 0

    def declare(self, graph: NamedNode) -> None:
        """A graph that exists even while it is empty: a window without elements still is a dataset."""
        self._graphs.append(graph)
        self._store.add_graph(graph)

    def change(self, remove: Sequence[Quad], add: Sequence[Quad]) -> None:
        """Remove quads that are there and add quads that are not."""
        for quad in remove:
            self._store.remove(quad)
        if add:
            self._store.extend(add)
        self._removed += len(remove)
        self._alive += len(add) - len(remove)
        if self._removed > _REMOVED_AT_LEAST and self._removed > self._alive:
            fresh = Store()
            fresh.bulk_extend(self._store)
            for graph in self._graphs:
                fresh.add_graph(graph)
            self._store, self._removed = fresh, 0

    def name(self, graph: NamedNode, names: NamedNode, key: WindowKey) -> None:
        """What WINDOW ?w and STREAM ?s bind for a window."""
        window, stream = key
        self._store.add(Quad(graph, WINDOW_NAME, window, names))
        if stream is not None:
            self._store.add(Quad(graph, STREAM_NAME, stream, names))

    def solutions(self, text: str, width: int, functions: Functions) -> list[Solution]:
        """The rows of a SELECT query, in its order; only the first ``width`` columns."""
        found = self._run(text, functions)
        assert isinstance(found, QuerySolutions)
        try:
            return [tuple(solution[column] for column in range(width)) for solution in found]
        except RuntimeError as error:
            raise evaluation_error(error) from error

    def boolean(self, text: str, functions: Functions) -> bool:
        """The value of an ASK query."""
        found = self._run(text, functions)
        assert isinstance(found, QueryBoolean)
        return bool(found)

    def _run(self, text: str, functions: Functions) -> Any:
        try:
            return self._store.query(
                text,
                custom_functions=functions.functions,
                custom_aggregate_functions=functions.aggregates,  # type: ignore[arg-type]  # invariant dict
            )
        except SyntaxError as error:
            raise UnsupportedError(
                "this combination of patterns", f"the query can not be evaluated: {error.msg}"
            ) from error
        except RuntimeError as error:
            raise evaluation_error(error) from error


class LoadedGraph:
    """A graph of the workspace that several sources fill: a triple stays while one of them has it."""

    def __init__(self, name: NamedNode) -> None:
        self._name = name
        self._count: Counter[Triple] = Counter()

    def enter(self, triple: Triple) -> list[Quad]:
        """The quads to add for one more occurrence."""
        self._count[triple] += 1
        return [self._quad(triple)] if self._count[triple] == 1 else []

    def leave(self, triple: Triple) -> list[Quad]:
        """The quads to remove for one occurrence less."""
        self._count[triple] -= 1
        if self._count[triple]:
            return []
        del self._count[triple]
        return [self._quad(triple)]

    def _quad(self, triple: Triple) -> Quad:
        return Quad(triple.subject, triple.predicate, triple.object, self._name)


class LoadedWindow:
    """One window's content in the workspace."""

    def __init__(
        self,
        key: WindowKey,
        names: GraphNames,
        *,
        union: bool,
        graphs: bool,
        merged: LoadedGraph | None,
    ) -> None:
        self._key = key
        self._names = names
        self._union = union
        self._graphs = graphs
        self._targets = [LoadedGraph(names.window(key))] + ([merged] if merged is not None else [])
        self._named: Counter[GraphName] = Counter()
        self._held: dict[Quad, int] = {}

    @property
    def graph_names(self) -> list[GraphName]:
        """The graph names of the content, in order of their first arrival."""
        return list(self._named)

    def load(self, content: Mapping[Quad, int], workspace: Workspace) -> None:
        """Make the workspace hold exactly this content for the window."""
        remove: list[Quad] = []
        add: list[Quad] = []
        for quad in self._held:
            if quad not in content:
                remove += self._change(quad, -1)
        for quad in content:
            if quad not in self._held:
                add += self._change(quad, 1)
        # One triple may leave by one source and enter by another: adding after removing keeps it.
        workspace.change(remove, add)
        self._held = dict(content)

    def _change(self, quad: Quad, sign: int) -> list[Quad]:
        graph = quad.graph_name
        changes: list[Quad] = []
        if self._union or isinstance(graph, DefaultGraph):
            triple = quad.triple
            for target in self._targets:
                changes += target.enter(triple) if sign > 0 else target.leave(triple)
        if self._graphs and not isinstance(graph, DefaultGraph):
            node = self._names.graph(self._key, graph)
            changes.append(Quad(quad.subject, quad.predicate, quad.object, node))
            self._named[graph] += sign
            if self._named[graph] == (1 if sign > 0 else 0):
                changes.append(Quad(node, NAME, graph, self._names.names(self._key)))
            if not self._named[graph]:
                del self._named[graph]
        return changes


class LoadedTriples:
    """Background triples in a graph that windows fill too; rows are (object, predicate, subject)."""

    shapes: Sequence[dict[int, NamedNode]] = ()

    def __init__(self, graph: LoadedGraph) -> None:
        self._graph = graph
        self._held: set[Solution] = set()

    def load(self, rows: Counter[Solution], workspace: Workspace) -> None:
        """Make the background of the graph exactly these triples."""
        new = set(rows)
        remove = [quad for row in self._held - new for quad in self._graph.leave(_triple_of(row))]
        add = [quad for row in new - self._held for quad in self._graph.enter(_triple_of(row))]
        self._held = new
        workspace.change(remove, add)


def _triple_of(row: Solution) -> Triple:
    object_, predicate, subject = row
    return Triple(subject, predicate, object_)  # type: ignore[arg-type]


class LoadedTable:
    """The rows of one static part as quads: a blank node per row, a predicate per column.

    Rows that bind different columns have different predicates, so each shape of row is read by a plain
    basic graph pattern: no OPTIONAL, and index look-ups by whatever is bound.
    """

    def __init__(self, part: str) -> None:
        self._part = part
        self._nodes: dict[Solution, list[int]] = {}
        self._next = 0
        self.shapes: list[dict[int, NamedNode]] = []
        """For each set of bound columns, the predicate of each (`text.TableText`)."""

    def load(self, rows: Counter[Solution], workspace: Workspace) -> None:
        """Make the workspace hold exactly these rows."""
        remove = [
            quad
            for row, numbers in self._nodes.items()
            for number in numbers[rows[row] :]
            for quad in self._quads(row, number)
        ]
        kept: dict[Solution, list[int]] = {}
        add: list[Quad] = []
        for row, wanted in rows.items():
            numbers = self._nodes.get(row, [])[:wanted]
            for number in range(self._next, self._next + wanted - len(numbers)):
                add += self._quads(row, number)
                numbers.append(number)
            self._next = max(self._next, numbers[-1] + 1)
            kept[row] = numbers
        self._nodes = kept
        self.shapes = self._find_shapes()
        workspace.change(remove, add)

    def _quads(self, row: Solution, number: int) -> list[Quad]:
        node = BlankNode(f"row{self._part}x{number}")
        shape = _shape(row)
        terms = [(column, row[column] if column >= 0 else node) for column in shape]
        return [
            Quad(node, self._predicate(shape, column), term, DEFAULT)
            for column, term in terms
            if term is not None
        ]

    def _predicate(self, shape: Sequence[int], column: int) -> NamedNode:
        return NamedNode(f"{_PART}{self._part}:{'.'.join(map(str, shape))}:{column}")

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
