"""Canonical reifiers: the reifier of ``<< s p o >>`` in a window is a function of the graph and the triple.

RDF 1.2 gives every ``<< >>`` of a document a new blank node as its reifier. In the windows of RSP-QL*, equal
annotated triples are one triple, and several annotations of one triple join. Therefore a blank node that
reifies exactly one triple in exactly one graph of the window gets a name derived from the triple and the
graph; nested reifiers are renamed from the inside out. Named reifiers, and blank nodes that reify several
triples, keep their names in windows.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from .nodes import Term

REIFIES = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies")
Statement = tuple[NamedNode | BlankNode | DefaultGraph, Triple]


def has_reifiers(content: Iterable[Quad]) -> bool:
    """Return True if the subject of some quad reifies a triple."""
    return any(quad.predicate == REIFIES for quad in content)


def canonical_content(content: Mapping[Quad, int]) -> dict[Quad, int]:
    """Return a window's content with canonical reifiers.

    Equal quads of the window are merged, with the greatest event time.
    """
    stated: dict[BlankNode, set[Statement]] = {}
    for quad in content:
        if states(quad):
            stated.setdefault(quad.subject, set()).add((quad.graph_name, quad.object))  # type: ignore[arg-type]
    single = {node: next(iter(about)) for node, about in stated.items() if len(about) == 1}
    names = CanonicalNames(single.get)
    result: dict[Quad, int] = {}
    for quad, time in content.items():
        renamed = names.quad(quad)
        if time > result.get(renamed, time - 1):
            result[renamed] = time
    return result


def assert_quoted(content: Mapping[Quad, int]) -> dict[Quad, int]:
    """Return a window's content with reified triples asserted in their graphs (``quoted_asserted``)."""
    result = dict(content)
    for quad, time in content.items():
        if quad.predicate == REIFIES and isinstance(quad.object, Triple):
            inner = quad.object
            asserted = Quad(inner.subject, inner.predicate, inner.object, quad.graph_name)
            if time > result.get(asserted, time - 1):
                result[asserted] = time
    return result


def states(quad: Quad) -> bool:
    """Return True if the quad states which triple a blank node reifies."""
    return (
        quad.predicate == REIFIES and isinstance(quad.subject, BlankNode) and isinstance(quad.object, Triple)
    )


class CanonicalNames:
    """Renames blank reifiers to canonical names, which are cached until `forget`."""

    def __init__(self, about: Callable[[BlankNode], Statement | None]) -> None:
        """Create a renamer; ``about`` returns the only reifies statement of a blank node, or None."""
        self._about = about
        self._names: dict[BlankNode, BlankNode] = {}

    def forget(self, node: BlankNode) -> None:
        """Drop a blank node's cached canonical name, because the triple that it reifies has changed."""
        self._names.pop(node, None)

    def quad(self, quad: Quad) -> Quad:
        """Return a quad with canonical reifiers; the same object if no reifier is renamed."""
        subject, object_, graph = self._term(quad.subject), self._term(quad.object), quad.graph_name
        if isinstance(graph, BlankNode):
            graph = self._blank(graph)
        if subject is quad.subject and object_ is quad.object and graph is quad.graph_name:
            return quad
        return Quad(subject, quad.predicate, object_, graph)  # type: ignore[arg-type]

    def _term(self, term: Term) -> Term:
        if isinstance(term, BlankNode):
            return self._blank(term)
        if isinstance(term, Triple):
            return Triple(self._term(term.subject), term.predicate, self._term(term.object))  # type: ignore[arg-type]
        return term

    def _blank(self, node: BlankNode) -> BlankNode:
        about = self._about(node)
        if about is None:
            return node
        name = self._names.get(node)
        if name is None:
            # Within the triple that a reifier reifies, the reifier itself keeps its original name, which ends
            # the recursion.
            self._names[node] = node
            graph, triple = about
            text = f"{graph} {self._term(triple)}"
            name = self._names[node] = BlankNode("r" + hashlib.sha256(text.encode()).hexdigest()[:32])
        return name


class CanonicalReifiers:
    """Translates changes of a set of quads into changes of quads with canonical reifiers.

    With ``asserts``, each reified triple counts as asserted in its graph, too. Invariant of the translation
    to canonical reifiers: the running sum of the output changes has the quads that `canonical_content` (after
    `assert_quoted`) gives for the running sum of the input changes.

    When the statements about a reifier change, the live quads that mention it, or mention a reifier of a
    triple that mentions it, are renamed. In nearly all elements, a reifier and all quads that mention it
    arrive together, so no other quad is renamed.
    """

    def __init__(self, asserts: bool, live: Iterable[Quad] = ()) -> None:
        """Create a translator; ``live`` are quads in the set already, all without reifiers."""
        self._asserts = asserts
        self._statements: dict[BlankNode, set[Statement]] = {}
        self._mentions: dict[BlankNode, set[Quad]] = {}
        self._names = CanonicalNames(self._only)
        for quad in live:
            self._mention(quad, True)

    def change(self, change: Mapping[Quad, int]) -> dict[Quad, int]:
        """Return the change in the number of occurrences of each canonical quad."""
        removed = [quad for quad, weight in change.items() if weight < 0]
        added = [quad for quad, weight in change.items() if weight > 0]
        for quad in added:
            self._mention(quad, True)
        affected = self._affected(quad for quad in change if states(quad))
        renamed = {quad for node in affected for quad in self._mentions.get(node, ())}
        renamed.difference_update(added, removed)
        occurrences: Counter[Quad] = Counter()
        for quad in (*removed, *renamed):
            self._count_occurrences(quad, -1, occurrences)
        for quad in removed:
            self._mention(quad, False)
        for quad, weight in change.items():
            if states(quad):
                self._state(quad, weight)
        for node in affected:
            self._names.forget(node)
        for quad in (*added, *renamed):
            self._count_occurrences(quad, 1, occurrences)
        return {quad: weight for quad, weight in occurrences.items() if weight}

    def _affected(self, statements: Iterable[Quad]) -> set[BlankNode]:
        """Return the reifiers of statements and, transitively, the reifiers of triples that mention them."""
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

    def _mention(self, quad: Quad, is_live: bool) -> None:
        for node in {*_blank_nodes(quad.subject), *_blank_nodes(quad.object), *_blank_nodes(quad.graph_name)}:
            if is_live:
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

    def _count_occurrences(self, quad: Quad, weight: int, occurrences: Counter[Quad]) -> None:
        for each in assert_quoted({quad: 0}) if self._asserts else (quad,):
            occurrences[self._names.quad(each)] += weight

    def _only(self, node: BlankNode) -> Statement | None:
        about = self._statements.get(node)
        return next(iter(about)) if about is not None and len(about) == 1 else None


def _blank_nodes(term: Term | DefaultGraph) -> Iterator[BlankNode]:
    if isinstance(term, BlankNode):
        yield term
    elif isinstance(term, Triple):
        yield from _blank_nodes(term.subject)
        yield from _blank_nodes(term.object)
