"""Terms of elements: values as the store gives them back, so that they join static data; own blank nodes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.terms import store_form

from .statements import Statement, Statements

_ATOM = re.compile(r'<[^<(>][^>]*+>|"(?:[^"\\]++|\\.)*+"|_:[^\s]++', re.DOTALL)
"""A term inside a triple term, or alone."""


def as_stored(quads: list[Quad]) -> tuple[list[Quad], bool]:
    """The quads with the values that the store would give back, the same list if it would give back all.

    True when a blank node may be among them.
    """
    found: list[Quad] = []
    blank = changed = False
    for quad in quads:
        value = quad.object
        kind = type(value)
        if kind is Literal or kind is Triple:
            form = store_form(value)  # type: ignore[arg-type]
            if form is not value and form != value:
                subject, predicate, _, graph = quad
                quad, changed = _quad(subject, predicate, form, graph), True
        if not blank:
            blank = (
                (kind is not Literal and kind is not NamedNode)
                or type(quad.subject) is not NamedNode
                or type(quad.graph_name) is BlankNode
            )
        found.append(quad)
    return found if changed else quads, blank


def with_own_blank_nodes(statements: Iterable[Statement], stream: str, seq: int) -> Statements:
    """The quads of an element with blank nodes that are renamed for this element alone.

    The new label is a function of the stream, the element's seq and the place of the label in the element,
    so that a replay gives the same terms.
    """
    digest = hashlib.sha256(stream.encode()).hexdigest()[:12]
    labels: dict[str, str] = {}

    def of_label(match: re.Match[str]) -> str:
        text = match[0]
        return labels.setdefault(text, f"_:e{digest}x{seq}x{len(labels)}") if text[0] == "_" else text

    def renamed(text: str) -> str:
        return text if "_:" not in text else _ATOM.sub(of_label, text)

    return tuple(
        [
            (renamed(subject), predicate, renamed(value), renamed(graph))
            for subject, predicate, value, graph in statements
        ]
    )


def _quad(subject: Any, predicate: NamedNode, value: Any, graph: Any) -> Quad:
    """A quad; to recognise a default graph that it is given takes the constructor twice as long."""
    if type(graph) is DefaultGraph:
        return Quad(subject, predicate, value)
    return Quad(subject, predicate, value, graph)
