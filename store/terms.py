"""RDF terms: type aliases, their SPARQL texts, and the canonical form in which Oxigraph stores terms."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, Store, Triple

Term: TypeAlias = NamedNode | BlankNode | Literal | Triple
Solution: TypeAlias = tuple[Term | None, ...]
"""The terms of one row of an answer in the order of the variables; None is an unbound variable."""

_OBJECT = NamedNode("urn:quadrill:object")
_XSD = "http://www.w3.org/2001/XMLSchema#"
_XSD_STRING = f"{_XSD}string"
XSD_DECIMAL = NamedNode(f"{_XSD}decimal")
_SIGN = r'(?:-(?!0(?:"|\Z))|)'
_WHOLE = r"(?:0|[1-9][0-9]{0,8}+)"
CANONICAL = {
    f"{_XSD}decimal": rf"{_SIGN}{_WHOLE}(?:\.[0-9]{{1,9}}+(?<!0)|)",
    f"{_XSD}double": rf"{_SIGN}{_WHOLE}(?:\.[0-9]{{1,6}}+(?<!0)|)",
    f"{_XSD}integer": r"(?:0|-?[1-9][0-9]{0,17}+)",
    f"{_XSD}boolean": r"(?:true|false)",
    # The pattern for dates accepts days that do not exist, because Oxigraph stores them unchanged.
    f"{_XSD}dateTime": r"[1-9][0-9]{3}-[01][0-9]-[0-3][0-9]"
    r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6}+(?<!0)|)Z",
}
"""Patterns, by datatype, of literal values that Oxigraph stores unchanged.

Most literals match their datatype's pattern; matching is twenty times as fast as storing a literal in
Oxigraph.
"""
_IS_CANONICAL: dict[str, Callable[[str], object]] = {
    **{datatype: re.compile(pattern).fullmatch for datatype, pattern in CANONICAL.items()},
    _XSD_STRING: str,
}
# Prices and coordinates often end with zeros, which the canonical form of decimals lacks. Short decimals that
# match this pattern are converted to canonical form without Oxigraph.
_PLAIN_DECIMAL = re.compile(r"(-?)0*([0-9]{1,9})(?:\.([0-9]{1,9}))?\Z").match
_PROBE = NamedNode("urn:quadrill:probe")
_forms: dict[Any, Any] = {}


def term_text(term: Term) -> str:
    """Return the text of a term in SPARQL 1.2 and N-Quads."""
    if isinstance(term, Triple):
        return f"<<( {term_text(term.subject)} {term.predicate} {term_text(term.object)} )>>"
    return str(term)


def in_store_form(quads: Iterable[Quad]) -> list[Quad]:
    """Return quads with numbers, dates and durations in the canonical form in which Oxigraph stores them.

    The order of the quads is kept and duplicates are dropped. Plain and language-tagged strings in quads stay
    unchanged.
    """
    listed = list(quads)
    terms = list(dict.fromkeys(quad.object for quad in listed if _may_change(quad.object)))
    numbered = [Quad(NamedNode(f"urn:quadrill:{number}"), _OBJECT, term) for number, term in enumerate(terms)]
    # Creating a new Oxigraph store takes microseconds; a store that is used repeatedly would never free
    # deleted quads.
    scratch = Store()
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


def store_form(term: Literal | Triple, most: int = 100_000) -> Literal | Triple:
    """Return a term in the canonical form in which Oxigraph stores it, for instance the integer 010 as 10.

    Canonical forms of terms are cached; the cache is cleared when it holds ``most`` terms.
    """
    if type(term) is Literal:
        datatype = term.datatype.value
        canonical = _IS_CANONICAL.get(datatype)
        if not datatype.startswith(_XSD) if canonical is None else canonical(term.value) is not None:
            return term
    form: Literal | Triple | None = _forms.get(term)
    if form is None:
        form = _decimal(term.value) if type(term) is Literal and term.datatype == XSD_DECIMAL else None
        form = form or in_store_form([Quad(_PROBE, _PROBE, term)])[0].object  # type: ignore[assignment]
        assert form is not None
        if len(_forms) >= most:
            _forms.clear()
        _forms[term] = form
    return form


def _decimal(text: str) -> Literal | None:
    """Return the canonical form of a decimal with at most 9 digits before and after the point, or None."""
    match = _PLAIN_DECIMAL(text)
    if match is None:
        return None
    sign, whole, fraction = match.groups("")
    fraction = fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return Literal(number if number == "0" else sign + number, datatype=XSD_DECIMAL)
