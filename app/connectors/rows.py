"""Conversion of SPARQL results in JSON into plain records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quadrill.client.terms import WHOLE, XSD

_REAL = frozenset(XSD + name for name in ("decimal", "double", "float"))


def records_of(document: Mapping[str, Any], further: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return each SPARQL solution as a record: values by variable name, plus ``at`` and ``further``.

    Raises: KeyError, TypeError if the JSON document is no SPARQL result.
    """
    common = {**further, "at": document["at"]} if "at" in document else dict(further)
    if "boolean" in document:
        yield {**common, "boolean": document["boolean"]}
        return
    for binding in document["results"]["bindings"]:
        yield {**common, **{name: plain(term) for name, term in binding.items()}}


def plain(term: Mapping[str, Any]) -> Any:
    """Return an RDF term as a JSON value: numbers and booleans as such, other terms as text."""
    value, datatype = term["value"], term.get("datatype", "")
    try:
        if datatype in WHOLE:
            return int(value)
        if datatype in _REAL:
            number = float(value)
            # an infinity or NaN stays text, because JSON has no such numbers
            return number if number - number == 0 else value
    except ValueError:
        return value
    if datatype == XSD + "boolean" and value in ("true", "false", "1", "0"):
        return value in ("true", "1")
    return value
