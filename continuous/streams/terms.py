"""Terms of elements in the store's own forms, blank nodes renamed: elements must join static data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.terms import in_store_form

from ..algebra.nodes import Term

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
# Most values of a stream are in the store's form already; asking it costs twenty times such a match.
_CANONICAL = {
    "http://www.w3.org/2001/XMLSchema#integer": re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z").match,
    "http://www.w3.org/2001/XMLSchema#decimal": re.compile(
        r"(?:0|(?!-0\Z)-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,8}[1-9])?)\Z"
    ).match,
    "http://www.w3.org/2001/XMLSchema#dateTime": re.compile(
        r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
        r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{0,5}[1-9])?Z\Z"
    ).match,
}
_DECIMAL = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
# Prices and coordinates end with zeros again and again: these need not be asked for either.
_PLAIN_DECIMAL = re.compile(r"(-?)0*([0-9]{1,9})(?:\.([0-9]{1,9}))?\Z").match
_PROBE = NamedNode("urn:quadrill:probe")


class TermForms:
    """Literals in the form in which the store gives them back (``010`` is ``10``), remembered.

    Deterministic; the memory is bounded by ``max_remembered`` literals.
    """

    def __init__(self, max_remembered: int = 100_000) -> None:
        self._known: dict[Literal, Literal] = {}
        self._max_remembered = max_remembered

    def literal(self, literal: Literal) -> Literal:
        """The store's form of one literal."""
        datatype = literal.datatype.value
        if datatype == _XSD_STRING:
            return literal
        canonical = _CANONICAL.get(datatype)
        if canonical is not None and canonical(literal.value) is not None:
            return literal
        if literal.language is not None:
            return literal
        found = self._known.get(literal)
        if found is None:
            form: Any = _decimal(literal.value) if literal.datatype == _DECIMAL else None
            if form is None:
                form = in_store_form([Quad(_PROBE, _PROBE, literal)])[0].object
            assert isinstance(form, Literal)
            if len(self._known) >= self._max_remembered:
                self._known.clear()
            found = self._known[literal] = form
        return found

    def quads(self, quads: Iterable[Quad], stream: str, seq: int) -> tuple[Quad, ...]:
        """The quads of an element in order, each once: an element is a dataset."""
        literal = self.literal
        renamed: _Renamed | None = None
        found: dict[Quad, None] = {}
        for quad in quads:
            subject, _, given, graph = quad
            kind = type(given)
            form = literal(given) if kind is Literal else given
            if (
                form is given
                and (kind is Literal or kind is NamedNode)
                and type(subject) is NamedNode
                and type(graph) is not BlankNode
            ):
                # Most quads are as the store has them; another one would cost more than all these looks.
                found[quad] = None
            else:
                renamed = renamed or _Renamed(self, stream, seq)
                found[renamed.quad(quad, form)] = None
        return tuple(found)


def _decimal(text: str) -> Literal | None:
    """The store's form of a decimal of a few digits: no zeros in front or behind, no negative zero."""
    match = _PLAIN_DECIMAL(text)
    if match is None:
        return None
    sign, whole, fraction = match.groups("")
    fraction = fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return Literal(number if number == "0" else sign + number, datatype=_DECIMAL)


class _Renamed:
    """The terms of one element: literals in the store's form, blank nodes renamed for this element alone.

    The new label is a function of the stream, the element's seq and the place of the label in the element,
    so that a replay gives the same terms.
    """

    def __init__(self, forms: TermForms, stream: str, seq: int) -> None:
        self._forms = forms
        self._stream = stream
        self._seq = seq
        self._blank: dict[BlankNode, BlankNode] = {}

    def quad(self, quad: Quad, form: Term) -> Quad:
        """A quad with its object in the store's form."""
        graph = quad.graph_name
        return Quad(
            self._subject(quad.subject),
            quad.predicate,
            form if isinstance(form, Literal) else self._term(form),
            graph if isinstance(graph, DefaultGraph) else self._subject(graph),
        )

    def _subject(self, term: NamedNode | BlankNode | Triple) -> NamedNode | BlankNode:
        assert not isinstance(term, Triple)  # RDF 1.2 has triple terms as objects only
        return self._renamed(term) if isinstance(term, BlankNode) else term

    def _term(self, term: Term) -> Term:
        match term:
            case NamedNode():
                return term
            case Literal():
                return self._forms.literal(term)
            case BlankNode():
                return self._renamed(term)
            case Triple():
                subject = self._term(term.subject)
                assert isinstance(subject, NamedNode | BlankNode)
                return Triple(subject, term.predicate, self._term(term.object))

    def _renamed(self, node: BlankNode) -> BlankNode:
        found = self._blank.get(node)
        if found is None:
            digest = hashlib.sha256(self._stream.encode()).hexdigest()[:12]
            label = f"e{digest}x{self._seq}x{len(self._blank)}"
            found = self._blank[node] = BlankNode(label)
        return found
