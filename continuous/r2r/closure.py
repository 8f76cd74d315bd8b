"""Step 5 of 8: property paths of any length over a window."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ..rows import EMPTY, Delta, Row, Schema, add


class Closure:
    """``path*``, ``path+`` and ``path?`` as a set of pairs (from, to).

    Inputs: the edges, rows (from, to) whose weights count how often the inner path connects two nodes, and
    for ``*`` and ``?`` the triples of the graph, whose subjects and objects are the nodes that zero steps
    connect with themselves. ``constants`` are the terms of the pattern, nodes wherever they are.

    A changed edge (u, v) can change only what is reached by the nodes that reach u; these are searched again.
    Law: out = closure(integrate(in)), a set. Source: SPARQL 1.1, section 18.4 (ZeroOrMorePath and others).
    """

    def __init__(self, schema: Schema, *, zero: bool, many: bool, constants: Iterable[int] = ()) -> None:
        """``zero``: zero steps count; ``many``: more than one step counts."""
        self.schema = schema
        self._zero = zero
        self._many = many
        self._weights: Delta = {}
        self._next: dict[int, set[int]] = {}
        self._previous: dict[int, set[int]] = {}
        self._reached: dict[int, set[int]] = {}
        self._nodes: dict[int, int] = dict.fromkeys(constants, 1) if zero else {}
        self._first = True

    def step(self, *changes: Delta) -> Delta:
        """Pairs that became connected or are connected no more."""
        dirty: set[int] = set()
        if self._first:
            self._first = False
            dirty.update(self._nodes)
        if self._zero:
            dirty |= self._change_nodes(changes[1])
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
                add(out, (source, target), 1)
            for target in before - after:
                add(out, (source, target), -1)
        return out or EMPTY

    def held(self) -> Iterator[Row]:
        """The edges, the nodes and the connected pairs."""
        yield from list(self._weights)
        yield tuple(self._nodes)
        for source, targets in list(self._reached.items()):
            yield (source, *targets)

    def size(self) -> int:
        """How many connected pairs there are."""
        return sum(map(len, self._reached.values()))

    def _changed_edges(self, change: Delta) -> dict[tuple[int, int], bool]:
        turned: dict[tuple[int, int], bool] = {}
        for row, weight in change.items():
            before = self._weights.get(row, 0)
            add(self._weights, row, weight)
            if (before > 0) != (before + weight > 0):
                turned[(row[0], row[1])] = weight > 0
        return turned

    def _change_nodes(self, triples: Delta) -> set[int]:
        """Nodes that came or went."""
        turned: set[int] = set()
        for row, weight in triples.items():
            for node in (row[0], row[2]):
                before = self._nodes.get(node, 0)
                after = before + weight
                if after:
                    self._nodes[node] = after
                else:
                    del self._nodes[node]
                if not before or not after:
                    turned.add(node)
        return turned

    def _reaching(self, target: int) -> set[int]:
        """The node and all from which it is reached."""
        if not self._many:
            return {target}
        return _walk(target, self._previous) | {target}

    def _search(self, source: int) -> set[int]:
        found = _walk(source, self._next) if self._many else set(self._next.get(source, ()))
        if self._zero and source in self._nodes:
            found.add(source)
        return found


def _walk(start: int, edges: dict[int, set[int]]) -> set[int]:
    """All nodes that one or more edges lead to."""
    found: set[int] = set()
    waiting = [start]
    while waiting:
        for node in edges.get(waiting.pop(), ()):
            if node not in found:
                found.add(node)
                waiting.append(node)
    return found


def _discard(edges: dict[int, set[int]], source: int, target: int) -> None:
    targets = edges[source]
    targets.discard(target)
    if not targets:
        del edges[source]
