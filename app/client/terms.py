"""Conversion of terms in SPARQL JSON results to rdflib terms and plain Python values."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rdflib.term import Node

XSD = "http://www.w3.org/2001/XMLSchema#"
WHOLE = frozenset(
    XSD + name
    for name in "integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger "
    "negativeInteger unsignedInt unsignedLong unsignedShort unsignedByte".split()
)
"""XSD datatypes whose literals are converted to int."""
_REAL = (XSD + "double", XSD + "float")


def rdflib_term(term: Mapping[str, Any]) -> Node:
    """Convert a term of SPARQL JSON results to an rdflib term.

    Raises: ValueError for a quoted triple, which rdflib does not support.
    """
    from rdflib import BNode, Literal, URIRef

    value = term["value"]
    match term["type"]:
        case "uri":
            return URIRef(value)
        case "bnode":
            return BNode(value)
        case "literal" | "typed-literal":
            datatype = term.get("datatype")
            language = term.get("xml:lang")
            return Literal(value, lang=language, datatype=None if datatype is None else URIRef(datatype))
    raise ValueError("rdflib has no terms that are triples; read the answer's document instead")


def plain_value(term: Mapping[str, Any]) -> Any:
    """Convert a term to int, float, Decimal or bool by its XSD datatype; other terms become strings.

    A quoted triple becomes a dict of its three converted terms.
    """
    value, datatype = term["value"], term.get("datatype", "")
    if term["type"] == "triple":
        return {part: plain_value(each) for part, each in value.items()}
    try:
        if datatype in WHOLE:
            return int(value)
        if datatype in _REAL:
            return float(value.replace("INF", "inf"))
        if datatype == XSD + "decimal":
            return Decimal(value)
    except (ValueError, InvalidOperation):
        return value
    if datatype == XSD + "boolean" and value in ("true", "false", "1", "0"):
        return value in ("true", "1")
    return value
