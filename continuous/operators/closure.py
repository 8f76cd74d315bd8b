"""Property paths of arbitrary length over a window (step 5 of 8 of query evaluation)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from ..rows import CHECK_EVERY, EMPTY, Delta, IdRow, Schema, add
from .linear import Operator

Node: TypeAlias = IdRow
"""A node of a path: the id of its term, followed by the ids of graph and stream in blocks that have these."""

Edges: TypeAlias = defaultdict[Node, set[Node]]


@dataclass(eq=False, repr=False)
class Closure(Operator):
    """``path*``, ``path+`` and ``path?`` as a set of pairs (from, to).

    The flag ``zero`` adds pairs of nodes at a path length of zero, ``many`` adds pairs at a length of more
    than one. The first input of the path operator has the edges: rows (from, to) whose weights count how
    often the inner path connects two nodes. The second input of the path operator, for ``*`` and ``?``, has
    the triples of the graph, whose subjects and objects zero steps connect with themselves. ``constants`` are
    the terms at the ends of the path pattern, which count as nodes of every graph.

    In a block ``GRAPH ?g`` or ``STREAM ?s``, all rows of the path operator have graph and stream as last
    columns, and a third input has one row for each existing graph or stream.

    A changed edge (u, v) can only change the targets of nodes that reach u, so the path operator searches
    again from those nodes. Law of the path operator: out = closure(integrate(in)), a set. Source: SPARQL 1.1,
    section 18.4 (ZeroOrMorePath and others).
    """

    schema: Schema
    _: KW_ONLY
    zero: bool
    many: bool
    constants: Sequence[int] = ()
    by_context: bool = False
    _weights: Delta = field(default_factory=dict)
    _next: Edges = field(default_factory=lambda: defaultdict(set))
    _previous: Edges = field(default_factory=lambda: defaultdict(set))
    _reached: dict[Node, set[Node]] = field(default_factory=dict)
    _nodes: dict[Node, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # The rows made in a step, the edges crossed since the last budget check, and the number of rows at
        # the next check.
        self._rows_made, self._edges_crossed, self._check_at = 0, 0, 0
        # The empty context (no graph or stream), until the first step has added the constants, which are
        # nodes of every graph.
        self._new_contexts: Delta = {} if self.by_context else {(): 1}

    def step(self, *changes: Delta) -> Delta:
        """Return the pairs of nodes that became connected (+1) and those that lost their connection (-1)."""
        dirty = self._change_nodes(changes) if self.zero else set()
        changed = self._changed_edges(changes[0])
        self._rows_made, self._edges_crossed, self._check_at = 0, 0, self.budget.next_check
        # The sources of a removed edge are searched before the edge is removed, those of a new edge after its
        # insertion.
        dirty |= self._reaching({source for (source, _), present in changed.items() if not present})
        for (source, target), present in changed.items():
            if present:
                self._next[source].add(target)
                self._previous[target].add(source)
            else:
                _discard(self._next, source, target)
                _discard(self._previous, target, source)
        dirty |= self._reaching({source for (source, _), present in changed.items() if present})
        out: Delta = {}
        for source in dirty:
            before = self._reached.pop(source, set())
            after = self._search(source)
            if after:
                self._reached[source] = after
            for target in after ^ before:
                out[_pair(source, target)] = 1 if target in after else -1
        return out or EMPTY

    def referenced_rows(self) -> Iterator[IdRow]:
        """Yield the edges, the nodes and the connected pairs of the path operator."""
        yield from list(self._weights)
        yield from list(self._nodes)
        for source, targets in list(self._reached.items()):
            for target in list(targets):
                yield _pair(source, target)

    def size(self) -> int:
        """Return the number of node pairs that the path connects."""
        return sum(map(len, self._reached.values()))

    def _changed_edges(self, change: Delta) -> dict[tuple[Node, Node], bool]:
        """Apply a delta of edges; return each changed edge as True (inserted) or False (deleted)."""
        changed: dict[tuple[Node, Node], bool] = {}
        for row, weight in change.items():
            before = self._weights.get(row, 0)
            add(self._weights, row, weight)
            if (before > 0) != (before + weight > 0):
                changed[((row[0], *row[2:]), row[1:])] = weight > 0
        return changed

    def _change_nodes(self, changes: Sequence[Delta]) -> set[Node]:
        """Apply deltas of triples and contexts; return the nodes that appeared or disappeared."""
        contexts, self._new_contexts = self._new_contexts, {}
        counted = [(row[:1] + row[3:], weight) for row, weight in changes[1].items()]
        counted += [(row[2:], weight) for row, weight in changes[1].items()]
        for context, weight in (*contexts.items(), *(changes[2].items() if len(changes) > 2 else ())):
            counted += [((constant, *context), weight) for constant in self.constants]
        changed = set()
        for node, weight in counted:
            before = node in self._nodes
            add(self._nodes, node, weight)
            if before != (node in self._nodes):
                changed.add(node)
        return changed

    def _reaching(self, targets: set[Node]) -> set[Node]:
        """Return ``targets`` and all nodes from which a path leads to one of them."""
        return self._walk(targets, self._previous, 0) | targets if self.many else targets

    def _search(self, source: Node) -> set[Node]:
        if self.many:
            found = self._walk((source,), self._next, 1)
        else:
            found = set(self._next.get(source, ()))
            self._count(len(found))
        if self.zero and source in self._nodes and source not in found:
            found.add(source)
            self._count(1)
        return found

    def _walk(self, starts: Iterable[Node], edges: Edges, rows: int) -> set[Node]:
        """Return the nodes reached over one or more edges; each counts as ``rows`` rows for the budget."""
        found: set[Node] = set()
        waiting = list(starts)
        while waiting:
            if near := edges.get(waiting.pop()):
                new = near - found
                found |= new
                waiting += new
                self._rows_made += rows * len(new)
                self._edges_crossed += len(near)
                if self._rows_made > self._check_at or self._edges_crossed > CHECK_EVERY:
                    self._count(0)
        return found

    def _count(self, rows: int) -> None:
        """Count rows made by this step; check the budget after enough rows or crossed edges."""
        self._rows_made += rows
        if self._rows_made > self._check_at or self._edges_crossed > CHECK_EVERY:
            self._check_at, self._edges_crossed = self.budget.check(self._rows_made, self), 0


def _pair(source: Node, target: Node) -> IdRow:
    """Return the output row of two connected nodes, which share graph and stream."""
    return (source[0], *target)


def _discard(edges: Edges, source: Node, target: Node) -> None:
    edges[source].discard(target)
    if not edges[source]:
        del edges[source]
