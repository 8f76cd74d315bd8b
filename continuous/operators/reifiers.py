"""Canonical reifiers for a changing window (algebra/reify.py says what they are), change by change.

The name of a blank reifier follows from the live statements about it. When these change, the live quads that
mention it, or mention a reifier of a triple that mentions it, are renamed; nearly always they come and go in
the same element and nothing else is touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, Quad, Triple

from quadrill.store.terms import Term

from ..algebra.reify import REIFIES, CanonicalNames, Statement, states
from ..rows import add


class CanonicalReifiers:
    """Turns the changes of a set of quads into those of the set with canonical reifiers.

    With ``asserts`` each reified triple counts as asserted in its graph too. Law: the running sum of the
    changes given out is `canonical_content` (after `assert_quoted`) of the running sum of those taken in.
    """

    def __init__(self, asserts: bool, live: Iterable[Quad] = ()) -> None:
        """``live``: quads without reifiers that are there already and were given out as they are."""
        self._asserts = asserts
        self._statements: dict[BlankNode, set[Statement]] = {}
        self._mentions: dict[BlankNode, set[Quad]] = {}
        self._names = CanonicalNames(self._only)
        self._counts: dict[Quad, int] = {}
        for quad in live:
            self._counts[quad] = 1
            self._mention(quad, True)

    def __len__(self) -> int:
        return len(self._counts)

    def change(self, change: Mapping[Quad, int]) -> dict[Quad, int]:
        """The change of the canonical set."""
        gone = [quad for quad, weight in change.items() if weight < 0]
        come = [quad for quad, weight in change.items() if weight > 0]
        for quad in come:
            self._mention(quad, True)
        affected = self._affected(quad for quad in change if states(quad))
        renamed = {quad for node in affected for quad in self._mentions.get(node, ())}
        renamed.difference_update(come, gone)
        out: dict[Quad, int] = {}
        for quad in (*gone, *renamed):
            self._give(quad, -1, out)
        for quad in gone:
            self._mention(quad, False)
        for quad, weight in change.items():
            if states(quad):
                self._state(quad, weight)
        for node in affected:
            self._names.forget(node)
        for quad in (*come, *renamed):
            self._give(quad, 1, out)
        return out

    def _affected(self, statements: Iterable[Quad]) -> set[BlankNode]:
        """The reifiers stated, and those of triples that mention them."""
        waiting = [quad.subject for quad in statements]
        found: set[BlankNode] = set()
        while waiting:
            node = waiting.pop()
            if not isinstance(node, BlankNode) or node in found:
                continue
            found.add(node)
            for quad in self._mentions.get(node, ()):
                if states(quad) and quad.subject not in found and node in _blank_nodes(quad.object):
                    waiting.append(quad.subject)
        return found

    def _mention(self, quad: Quad, there: bool) -> None:
        for node in {*_blank_nodes(quad.subject), *_blank_nodes(quad.object), *_blank_nodes(quad.graph_name)}:
            if there:
                self._mentions.setdefault(node, set()).add(quad)
                continue
            self._mentions[node].discard(quad)
            if not self._mentions[node]:
                del self._mentions[node]
                self._names.forget(node)

    def _state(self, quad: Quad, weight: int) -> None:
        node, statement = quad.subject, (quad.graph_name, quad.object)
        assert isinstance(node, BlankNode)
        about = self._statements.setdefault(node, set())
        if weight > 0:
            about.add(statement)  # type: ignore[arg-type]
        else:
            about.remove(statement)  # type: ignore[arg-type]
            if not about:
                del self._statements[node]

    def _give(self, quad: Quad, weight: int, out: dict[Quad, int]) -> None:
        self._count(self._names.quad(quad), weight, out)
        if self._asserts and quad.predicate == REIFIES and isinstance(quad.object, Triple):
            inner = quad.object
            asserted = Quad(inner.subject, inner.predicate, inner.object, quad.graph_name)
            self._count(self._names.quad(asserted), weight, out)

    def _count(self, quad: Quad, weight: int, out: dict[Quad, int]) -> None:
        before = quad in self._counts
        add(self._counts, quad, weight)
        if before != (quad in self._counts):
            add(out, quad, weight)

    def _only(self, node: BlankNode) -> Statement | None:
        about = self._statements.get(node)
        return next(iter(about)) if about is not None and len(about) == 1 else None


def _blank_nodes(term: Term | DefaultGraph) -> Iterator[BlankNode]:
    if isinstance(term, BlankNode):
        yield term
    elif isinstance(term, Triple):
        yield from _blank_nodes(term.subject)
        yield from _blank_nodes(term.object)
