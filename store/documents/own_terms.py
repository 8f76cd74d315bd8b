"""Terms of elements: values as the store gives them back, so that they join static data; own blank nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.terms import store_form


def as_stored(quads: Sequence[Quad], known: int) -> tuple[Sequence[Quad], bool]:
    """The quads with the values that the store would give back; True when a blank node may be among them.

    The first ``known`` quads need no look.
    """
    found = list(quads[:known])
    blank = False
    for quad in quads[known:]:
        value = quad.object
        kind = type(value)
        if kind is Literal or kind is Triple:
            form = store_form(value)  # type: ignore[arg-type]
            if form is not value and form != value:
                subject, predicate, _, graph = quad
                quad = _quad(subject, predicate, form, graph)
        if not blank:
            blank = (
                (kind is not Literal and kind is not NamedNode)
                or type(quad.subject) is not NamedNode
                or type(quad.graph_name) is BlankNode
            )
        found.append(quad)
    return found, blank


def with_own_blank_nodes(quads: Iterable[Quad], stream: str, seq: int) -> tuple[Quad, ...]:
    """The quads of an element with blank nodes that are renamed for this element alone.

    The new label is a function of the stream, the element's seq and the place of the label in the element,
    so that a replay gives the same terms.
    """
    digest = hashlib.sha256(stream.encode()).hexdigest()[:12]
    labels: dict[BlankNode, BlankNode] = {}

    def renamed(term: Any) -> Any:
        if isinstance(term, BlankNode):
            return labels.setdefault(term, BlankNode(f"e{digest}x{seq}x{len(labels)}"))
        if isinstance(term, Triple):
            return Triple(renamed(term.subject), term.predicate, renamed(term.object))
        return term

    return tuple(
        _quad(renamed(subject), predicate, renamed(value), renamed(graph))
        for subject, predicate, value, graph in quads
    )


def _quad(subject: Any, predicate: NamedNode, value: Any, graph: Any) -> Quad:
    """A quad; to recognise a default graph that it is given takes the constructor twice as long."""
    if type(graph) is DefaultGraph:
        return Quad(subject, predicate, value)
    return Quad(subject, predicate, value, graph)
