"""Canonical reifiers for a changing window (algebra/reify.py says what they are), change by change.

The name of a blank reifier follows from the live statements about it. When these change, the live quads that
mention it, or mention a reifier of a triple that mentions it, are renamed; nearly always they come and go in
the same element and nothing else is touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from quadrill.store.dictionary import Term

from ..algebra.reify import REIFIES

Statement = tuple[NamedNode | BlankNode | DefaultGraph, Triple]


class CanonicalReifiers:
    """Turns the changes of a set of quads into those of the set with canonical reifiers.

    With ``asserts`` each reified triple counts as asserted in its graph too. Law: the running sum of the
    changes given out is `canonical_content` (after `assert_quoted`) of the running sum of those taken in.
    """

    def __init__(self, asserts: bool, live: Iterable[Quad] = ()) -> None:
        """``live``: quads without reifiers that are there already and were given out as they are."""
        self._asserts = asserts
        self._statements: dict[BlankNode, dict[Statement, int]] = {}
        self._mentions: dict[BlankNode, set[Quad]] = {}
        self._names: dict[BlankNode, BlankNode] = {}
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
        affected = self._affected(quad for quad in change if _states(quad))
        renamed = {quad for node in affected for quad in self._mentions.get(node, ())}
        renamed.difference_update(come, gone)
        out: dict[Quad, int] = {}
        for quad in (*gone, *renamed):
            self._give(quad, -1, out)
        for quad in gone:
            self._mention(quad, False)
        for quad, weight in change.items():
            if _states(quad):
                self._state(quad, weight)
        for node in affected:
            self._names.pop(node, None)
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
                if _states(quad) and quad.subject not in found and node in _blank_nodes(quad.object):
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
                self._names.pop(node, None)

    def _state(self, quad: Quad, weight: int) -> None:
        node, statement = quad.subject, (quad.graph_name, quad.object)
        assert isinstance(node, BlankNode)
        about = self._statements.setdefault(node, {})
        if weight > 0:
            about[statement] = 1  # type: ignore[index]
        else:
            del about[statement]  # type: ignore[arg-type]
            if not about:
                del self._statements[node]

    def _give(self, quad: Quad, weight: int, out: dict[Quad, int]) -> None:
        self._count(self._quad(quad), weight, out)
        if self._asserts and quad.predicate == REIFIES and isinstance(quad.object, Triple):
            inner = quad.object
            asserted = Quad(inner.subject, inner.predicate, inner.object, quad.graph_name)
            self._count(self._quad(asserted), weight, out)

    def _count(self, quad: Quad, weight: int, out: dict[Quad, int]) -> None:
        before = self._counts.get(quad, 0)
        after = before + weight
        if after:
            self._counts[quad] = after
        else:
            del self._counts[quad]
        if bool(before) != bool(after):
            if quad in out:
                del out[quad]
            else:
                out[quad] = weight

    # --- names ----------------------------------------------------------------------------------

    def _quad(self, quad: Quad) -> Quad:
        subject, object_, graph = self._term(quad.subject), self._term(quad.object), quad.graph_name
        if isinstance(graph, BlankNode):
            graph = self._blank(graph)
        return Quad(subject, quad.predicate, object_, graph)  # type: ignore[arg-type]

    def _term(self, term: Term) -> Term:
        if isinstance(term, BlankNode):
            return self._blank(term)
        if isinstance(term, Triple):
            return Triple(self._term(term.subject), term.predicate, self._term(term.object))  # type: ignore[arg-type]
        return term

    def _blank(self, node: BlankNode) -> BlankNode:
        about = self._statements.get(node)
        if about is None or len(about) != 1:
            return node
        name = self._names.get(node)
        if name is None:
            # A reifier that reifies a triple about itself keeps its own name at that place.
            self._names[node] = node
            ((graph, triple),) = about
            text = f"{graph} {self._term(triple)}"
            name = self._names[node] = BlankNode("r" + hashlib.sha256(text.encode()).hexdigest()[:32])
        return name


def _states(quad: Quad) -> bool:
    return (
        quad.predicate == REIFIES and isinstance(quad.subject, BlankNode) and isinstance(quad.object, Triple)
    )


def _blank_nodes(term: Term | DefaultGraph) -> Iterator[BlankNode]:
    if isinstance(term, BlankNode):
        yield term
    elif isinstance(term, Triple):
        yield from _blank_nodes(term.subject)
        yield from _blank_nodes(term.object)
