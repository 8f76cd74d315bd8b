"""Conversion of terms in SPARQL JSON results to rdflib terms and plain Python values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
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
DATE_TIME = XSD + "dateTime"
_DATE_TIME = re.compile(r"(\d{4}-\d\d-\d\dT)(\d\d)(:\d\d:\d\d)(?:\.(\d+))?(Z|[+-]\d\d:\d\d)?\Z", re.ASCII)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
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
    """Convert a term to int, float, Decimal, bool or datetime by its XSD datatype; others become strings.

    A datetime is in UTC; digits after microseconds are cut off. A quoted triple becomes a dict of its three
    converted terms.
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
    if datatype == DATE_TIME and (instant := instant_ns(value)) is not None:
        return _EPOCH + timedelta(microseconds=instant // 1000)
    if datatype == XSD + "boolean" and value in ("true", "false", "1", "0"):
        return value in ("true", "1")
    return value


def instant_ns(text: str) -> int | None:
    """Convert an xsd:dateTime to nanoseconds since 1970, further digits cut off; without a zone it is in UTC.

    Return None for other texts, and for instants outside of the years 1 to 9999.
    """
    match = _DATE_TIME.match(text)
    if match is None:
        return None
    day, hour, rest, fraction, zone = match.groups("")
    next_day = hour == "24" and rest == ":00:00" and not fraction.strip("0")
    try:
        moment = datetime.fromisoformat(f"{day}{'00' if next_day else hour}{rest}{zone or 'Z'}")
        seconds = (moment + timedelta(days=next_day) - _EPOCH) // timedelta(seconds=1)
        # Only an instant that datetime holds has a plain value.
        _EPOCH + timedelta(seconds=seconds)
    except (ValueError, OverflowError):
        return None
    return seconds * 10**9 + int(fraction[:9].ljust(9, "0"))
