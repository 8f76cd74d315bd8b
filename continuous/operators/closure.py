"""Step 5 of 8: property paths of any length over a window."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from ..rows import EMPTY, Delta, IdRow, Schema, add
from .linear import Operator

Node: TypeAlias = IdRow
"""A node's term, followed by the graph and stream that it is in where there are several."""

Edges: TypeAlias = defaultdict[Node, set[Node]]


class Closure(Operator):
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
        self._constants = tuple(constants) if zero else ()
        self._weights: Delta = {}
        self._next: Edges = defaultdict(set)
        self._previous: Edges = defaultdict(set)
        self._reached: dict[Node, set[Node]] = {}
        self._nodes: dict[Node, int] = {}
        # The constants that are nodes whatever there is, until the first step has told of them.
        self._unsaid: Delta = {} if by_context else {(): 1}

    def step(self, *changes: Delta) -> Delta:
        """Pairs that became connected or are connected no more."""
        dirty = self._change_nodes(changes) if self._zero else set()
        turned = self._changed_edges(changes[0])
        # What reached a lost edge is found before it is gone, what reaches a new one when it is there.
        for (source, _), present in turned.items():
            if not present:
                dirty |= self._reaching(source)
        for (source, target), present in turned.items():
            if present:
                self._next[source].add(target)
                self._previous[target].add(source)
            else:
                _discard(self._next, source, target)
                _discard(self._previous, target, source)
        for (source, _), present in turned.items():
            if present:
                dirty |= self._reaching(source)
        out: Delta = {}
        made, look = 0, self.budget.look
        for source in dirty:
            before = self._reached.pop(source, set())
            after = self._search(source)
            if (made := made + len(after)) > look:
                look = self.budget.check(made, self)
            if after:
                self._reached[source] = after
            for target in after ^ before:
                out[_pair(source, target)] = 1 if target in after else -1
        return out or EMPTY

    def held(self) -> Iterator[IdRow]:
        """The edges, the nodes and the connected pairs."""
        yield from list(self._weights)
        yield from list(self._nodes)
        for source, targets in list(self._reached.items()):
            for target in list(targets):
                yield _pair(source, target)

    def size(self) -> int:
        """How many connected pairs there are."""
        return sum(map(len, self._reached.values()))

    def _changed_edges(self, change: Delta) -> dict[tuple[Node, Node], bool]:
        """The edges that came (True) or went."""
        turned: dict[tuple[Node, Node], bool] = {}
        for row, weight in change.items():
            before = self._weights.get(row, 0)
            add(self._weights, row, weight)
            if (before > 0) != (before + weight > 0):
                turned[((row[0], *row[2:]), row[1:])] = weight > 0
        return turned

    def _change_nodes(self, changes: Sequence[Delta]) -> set[Node]:
        """Nodes that came or went."""
        contexts, self._unsaid = self._unsaid, {}
        counted = [(row[:1] + row[3:], weight) for row, weight in changes[1].items()]
        counted += [(row[2:], weight) for row, weight in changes[1].items()]
        for context, weight in (*contexts.items(), *(changes[2].items() if len(changes) > 2 else ())):
            counted += [((constant, *context), weight) for constant in self._constants]
        turned = set()
        for node, weight in counted:
            before = node in self._nodes
            add(self._nodes, node, weight)
            if before != (node in self._nodes):
                turned.add(node)
        return turned

    def _reaching(self, target: Node) -> set[Node]:
        """The node and all from which it is reached."""
        return _walk(target, self._previous) | {target} if self._many else {target}

    def _search(self, source: Node) -> set[Node]:
        found = _walk(source, self._next) if self._many else set(self._next.get(source, ()))
        if self._zero and source in self._nodes:
            found.add(source)
        return found


def _pair(source: Node, target: Node) -> IdRow:
    """The row of two connected nodes, which are in one graph."""
    return (source[0], *target)


def _walk(start: Node, edges: Edges) -> set[Node]:
    """All nodes that one or more edges lead to."""
    found: set[Node] = set()
    waiting = [start]
    while waiting:
        for node in edges.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _discard(edges: Edges, source: Node, target: Node) -> None:
    edges[source].discard(target)
    if not edges[source]:
        del edges[source]
