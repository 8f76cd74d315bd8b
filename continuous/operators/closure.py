"""Step 5 of 8: property paths of arbitrary length over a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TypeAlias

from ..rows import CHECK_EVERY, EMPTY, Delta, IdRow, Schema, add
from .linear import Operator

Node: TypeAlias = IdRow
"""A node: the id of its term, followed by the ids of graph and stream where several exist."""

Edges: TypeAlias = defaultdict[Node, set[Node]]


@dataclass(eq=False, repr=False)
class Closure(Operator):
    """``path*``, ``path+`` and ``path?`` as a set of pairs (from, to).

    ``zero`` adds pairs of zero steps, ``many`` adds pairs of more than one step. The first input has the
    edges: rows (from, to) whose weights count how often the inner path connects two nodes. The second input,
    for ``*`` and ``?``, has the triples of the graph, whose subjects and objects zero steps connect with
    themselves. ``constants`` are the terms of the pattern, which are nodes of every graph.

    In a block that is evaluated graph by graph or stream by stream, all rows have graph and stream as last
    columns, and a third input has one row for each existing graph or stream.

    A changed edge (u, v) can only change the targets of nodes that reach u, so the operator searches again
    from those nodes. Law: out = closure(integrate(in)), a set. Source: SPARQL 1.1, section 18.4
    (ZeroOrMorePath and others).
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
        # Rows made in a step, edges crossed since the last budget check, and rows at the next budget check.
        self._rows_made, self._edges_crossed, self._check_at = 0, 0, 0
        # The empty context until the first step has added the constants, which are nodes of every graph.
        self._new_contexts: Delta = {} if self.by_context else {(): 1}

    def step(self, *changes: Delta) -> Delta:
        """Return the pairs that became connected (+1) and the pairs that lost their connection (-1)."""
        dirty = self._change_nodes(changes) if self.zero else set()
        changed = self._changed_edges(changes[0])
        self._rows_made, self._edges_crossed, self._check_at = 0, 0, self.budget.next_check
        # Sources of a removed edge are searched before the removal, sources of a new edge after the
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
        """Yield the edges, the nodes and the connected pairs."""
        yield from list(self._weights)
        yield from list(self._nodes)
        for source, targets in list(self._reached.items()):
            for target in list(targets):
                yield _pair(source, target)

    def size(self) -> int:
        """Return the number of connected pairs."""
        return sum(map(len, self._reached.values()))

    def _changed_edges(self, change: Delta) -> dict[tuple[Node, Node], bool]:
        """Apply a delta of edges; return the inserted edges as True and the deleted edges as False."""
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
        """Return all nodes that paths of one or more edges reach; a node counts as ``rows`` rows."""
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
