"""Terms of elements in the store's own forms, blank nodes renamed: elements must join static data."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.store.scratch import in_store_form

from ..algebra.nodes import Term

_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"
# Most values of a stream are in the store's form already; asking it costs twenty times such a match.
_CANONICAL = {
    "http://www.w3.org/2001/XMLSchema#integer": re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z"),
    "http://www.w3.org/2001/XMLSchema#decimal": re.compile(
        r"(?:0|(?!-0\Z)-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,8}[1-9])?)\Z"
    ),
    "http://www.w3.org/2001/XMLSchema#dateTime": re.compile(
        r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
        r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{0,5}[1-9])?Z\Z"
    ),
}
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
        if datatype == _XSD_STRING or literal.language is not None:
            return literal
        canonical = _CANONICAL.get(datatype)
        if canonical is not None and canonical.match(literal.value):
            return literal
        found = self._known.get(literal)
        if found is None:
            form = in_store_form([Quad(_PROBE, _PROBE, literal)])[0].object
            assert isinstance(form, Literal)
            if len(self._known) >= self._max_remembered:
                self._known.clear()
            found = self._known[literal] = form
        return found


class ElementTerms:
    """The terms of one element: literals in the store's form, blank nodes renamed for this element alone.

    The new label is a function of the stream, the element's seq and the place of the label in the element,
    so that a replay gives the same terms.
    """

    def __init__(self, forms: TermForms, stream: str, seq: int) -> None:
        self._forms = forms
        digest = hashlib.sha256(stream.encode()).hexdigest()[:12]
        self._prefix = f"e{digest}x{seq}x"
        self._blank: dict[BlankNode, BlankNode] = {}

    def quads(self, quads: Iterable[Quad]) -> tuple[Quad, ...]:
        """The quads in order, each once: an element is a dataset."""
        return tuple(dict.fromkeys(self._quad(quad) for quad in quads))

    def _quad(self, quad: Quad) -> Quad:
        subject, given, graph = quad.subject, quad.object, quad.graph_name
        found = self._term(given)
        named = not isinstance(subject, BlankNode) and not isinstance(graph, BlankNode)
        if named and found is given:
            # Most quads are as the store has them: another one would cost more than all looks at this one.
            return quad
        return Quad(
            self._subject(subject),
            quad.predicate,
            found,
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
            found = self._blank[node] = BlankNode(f"{self._prefix}{len(self._blank)}")
        return found
