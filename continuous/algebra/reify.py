"""The reifier of ``<< s p o >>`` in a window is a function of the graph and the triple.

RDF 1.2 gives every ``<< >>`` of a document a fresh blank reifier. In the windows of RSP-QL* equal annotated
triples are one and several annotations of one triple join, so a blank node that reifies exactly one triple
in exactly one graph of the window is renamed to a name made of both; nested ones from the inside out. Named
reifiers, and blank nodes that reify several triples, are kept.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

from pyoxigraph import BlankNode, DefaultGraph, NamedNode, Quad, Triple

from .nodes import Term

REIFIES = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies")
Statement = tuple[NamedNode | BlankNode | DefaultGraph, Triple]


def has_reifiers(content: Iterable[Quad]) -> bool:
    """True when some quad says that its subject reifies a triple."""
    return any(quad.predicate == REIFIES for quad in content)


def canonical_content(content: Mapping[Quad, int]) -> dict[Quad, int]:
    """The content with canonical reifiers, equal quads merged with the greater event time."""
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
    """The content with each reified triple asserted in its graph (stream option ``quoted_asserted``)."""
    result = dict(content)
    for quad, time in content.items():
        if quad.predicate == REIFIES and isinstance(quad.object, Triple):
            inner = quad.object
            asserted = Quad(inner.subject, inner.predicate, inner.object, quad.graph_name)
            if time > result.get(asserted, time - 1):
                result[asserted] = time
    return result


def states(quad: Quad) -> bool:
    """True when the quad says what a blank node reifies."""
    return (
        quad.predicate == REIFIES and isinstance(quad.subject, BlankNode) and isinstance(quad.object, Triple)
    )


class CanonicalNames:
    """Renames blank reifiers, given what each reifies. Names are remembered until `forget`."""

    def __init__(self, about: Callable[[BlankNode], Statement | None]) -> None:
        """``about`` gives the only statement of a blank node; None when it has none or several."""
        self._about = about
        self._names: dict[BlankNode, BlankNode] = {}

    def forget(self, node: BlankNode) -> None:
        """Forget a node's name: what it reifies has changed."""
        self._names.pop(node, None)

    def quad(self, quad: Quad) -> Quad:
        """The quad with canonical reifiers; the same object when nothing is renamed."""
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
            # A reifier that reifies a triple about itself keeps its own name at that place.
            self._names[node] = node
            graph, triple = about
            text = f"{graph} {self._term(triple)}"
            name = self._names[node] = BlankNode("r" + hashlib.sha256(text.encode()).hexdigest()[:32])
        return name
