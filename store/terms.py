"""RDF terms: their types, their text, and the form in which a store gives them back."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Solution: TypeAlias = tuple[Term | None, ...]
"""The terms of one row in the order of its variables; None is unbound."""

_OBJECT = NamedNode("urn:quadrill:object")
_XSD_STRING = "http://www.w3.org/2001/XMLSchema#string"


def term_text(term: Term) -> str:
    """A term as SPARQL 1.2 and N-Quads write it."""
    if isinstance(term, Triple):
        return f"<<( {term_text(term.subject)} {term.predicate} {term_text(term.object)} )>>"
    return str(term)


def in_store_form(quads: Iterable[Quad]) -> list[Quad]:
    """The quads as a store gives them back: numbers, dates and durations in canonical form.

    Order is kept and duplicates are dropped; quads whose literals are plain strings pass as they are.
    """
    listed = list(quads)
    terms = list(dict.fromkeys(quad.object for quad in listed if _may_change(quad.object)))
    numbered = [Quad(NamedNode(f"urn:quadrill:{number}"), _OBJECT, term) for number, term in enumerate(terms)]
    scratch = Store()  # a fresh one costs microseconds, a long-lived one never frees deleted quads
    scratch.extend(numbered)
    forms: dict[Term, Term] = {}
    for quad in scratch:
        forms[terms[int(quad.subject.value.rpartition(":")[2])]] = quad.object
    result: dict[Quad, None] = {}
    for quad in listed:
        form = forms.get(quad.object)
        if form is not None and form != quad.object:
            quad = Quad(quad.subject, quad.predicate, form, quad.graph_name)
        result[quad] = None
    return list(result)


def _may_change(term: object) -> bool:
    match term:
        case Literal():
            return term.language is None and term.datatype.value != _XSD_STRING
        case Triple():
            return _may_change(term.object) or _may_change(term.subject)
        case _:
            return False
