"""Step 5 of 8: property paths of any length over a window."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ..rows import EMPTY, Delta, IdRow, Schema, add

Node: TypeAlias = int | IdRow
"""A node, followed by the graph and stream that it is in where there are several."""


class Closure:
    """``path*``, ``path+`` and ``path?`` as a set of pairs (from, to).

    Inputs: the edges, rows (from, to) whose weights count how often the inner path connects two nodes, and
    for ``*`` and ``?`` the triples of the graph, whose subjects and objects are the nodes that zero steps
    connect with themselves. ``constants`` are the terms of the pattern, nodes wherever they are.

    In a block that is evaluated graph by graph or stream by stream all rows have these as columns behind the
    others, and a third input has a row of them for each graph or stream that there is.

    A changed edge (u, v) can change only what is reached by the nodes that reach u; these are searched again.
    Law: out = closure(integrate(in)), a set. Source: SPARQL 1.1, section 18.4 (ZeroOrMorePath and others).
    """

    def __init__(
        self,
        schema: Schema,
        *,
        zero: bool,
        many: bool,
        constants: Sequence[int] = (),
        by_context: bool = False,
    ) -> None:
        """``zero``: zero steps count; ``many``: more than one step counts."""
        self.schema = schema
        self._zero = zero
        self._many = many
        self._weights: Delta = {}
        self._next: dict[Node, set[Node]] = {}
        self._previous: dict[Node, set[Node]] = {}
        self._reached: dict[Node, set[Node]] = {}
        self._by_context = by_context
        self._constants = tuple(constants) if zero else ()
        self._nodes: dict[Node, int] = {} if by_context else dict.fromkeys(self._constants, 1)
        self._first = True

    def step(self, *changes: Delta) -> Delta:
        """Pairs that became connected or are connected no more."""
        dirty: set[Node] = set()
        if self._first:
            self._first = False
            dirty.update(self._nodes)
        if self._zero:
            dirty |= self._change_nodes(changes)
        turned = self._changed_edges(changes[0])
        for (source, _), present in turned.items():
            if not present:
                dirty |= self._reaching(source)
        for (source, target), present in turned.items():
            if present:
                self._next.setdefault(source, set()).add(target)
                self._previous.setdefault(target, set()).add(source)
            else:
                _discard(self._next, source, target)
                _discard(self._previous, target, source)
        for (source, _), present in turned.items():
            if present:
                dirty |= self._reaching(source)
        out: Delta = {}
        for source in dirty:
            before = self._reached.pop(source, set())
            after = self._search(source)
            if after:
                self._reached[source] = after
            for target in after - before:
                add(out, self._pair(source, target), 1)
            for target in before - after:
                add(out, self._pair(source, target), -1)
        return out or EMPTY

    def held(self) -> Iterator[IdRow]:
        """The edges, the nodes and the connected pairs."""
        yield from list(self._weights)
        for node in list(self._nodes):
            yield self._pair(node, node)
        for source, targets in list(self._reached.items()):
            for target in list(targets):
                yield self._pair(source, target)

    def size(self) -> int:
        """How many connected pairs there are."""
        return sum(map(len, self._reached.values()))

    def _node(self, term: int, context: IdRow) -> Node:
        return (term, *context) if self._by_context else term

    @staticmethod
    def _pair(source: Node, target: Node) -> IdRow:
        """The row of two connected nodes, which are in one graph."""
        if isinstance(source, int) or isinstance(target, int):
            return source, target  # type: ignore[return-value]
        return (source[0], target[0], *source[1:])

    def _changed_edges(self, change: Delta) -> dict[tuple[Node, Node], bool]:
        turned: dict[tuple[Node, Node], bool] = {}
        for row, weight in change.items():
            before = self._weights.get(row, 0)
            add(self._weights, row, weight)
            if (before > 0) != (before + weight > 0):
                turned[(self._node(row[0], row[2:]), self._node(row[1], row[2:]))] = weight > 0
        return turned

    def _change_nodes(self, changes: Sequence[Delta]) -> set[Node]:
        """Nodes that came or went."""
        turned: set[Node] = set()
        for row, weight in changes[1].items():
            self._count(self._node(row[0], row[3:]), weight, turned)
            self._count(self._node(row[2], row[3:]), weight, turned)
        if self._by_context:
            for context, weight in changes[2].items():
                for constant in self._constants:
                    self._count(self._node(constant, context), weight, turned)
        return turned

    def _count(self, node: Node, weight: int, turned: set[Node]) -> None:
        before = self._nodes.get(node, 0)
        after = before + weight
        if after:
            self._nodes[node] = after
        else:
            del self._nodes[node]
        if not before or not after:
            turned.add(node)

    def _reaching(self, target: Node) -> set[Node]:
        """The node and all from which it is reached."""
        if not self._many:
            return {target}
        return _walk(target, self._previous) | {target}

    def _search(self, source: Node) -> set[Node]:
        found = _walk(source, self._next) if self._many else set(self._next.get(source, ()))
        if self._zero and source in self._nodes:
            found.add(source)
        return found


def _walk(start: Node, edges: dict[Node, set[Node]]) -> set[Node]:
    """All nodes that one or more edges lead to."""
    found: set[Node] = set()
    waiting: list[Node] = [start]
    while waiting:
        for node in edges.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _discard(edges: dict[Node, set[Node]], source: Node, target: Node) -> None:
    targets = edges[source]
    targets.discard(target)
    if not targets:
        del edges[source]
