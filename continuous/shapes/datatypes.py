"""Well-formed literals: lexical forms and ranges of datatypes, for sh:datatype (SHACL section 4.1.2)."""

from __future__ import annotations

import re
from typing import Final

from pyoxigraph import Literal, NamedNode

from ..expressions.oxigraph import ask
from ..expressions.values import Maybe
from .vocabulary import XSD

_INTEGER_RANGES: Final[dict[str, tuple[int | None, int | None]]] = {
    "integer": (None, None),
    "nonPositiveInteger": (None, 0),
    "negativeInteger": (None, -1),
    "nonNegativeInteger": (0, None),
    "positiveInteger": (1, None),
    "long": (-(2**63), 2**63 - 1),
    "int": (-(2**31), 2**31 - 1),
    "short": (-(2**15), 2**15 - 1),
    "byte": (-128, 127),
    "unsignedLong": (0, 2**64 - 1),
    "unsignedInt": (0, 2**32 - 1),
    "unsignedShort": (0, 2**16 - 1),
    "unsignedByte": (0, 255),
}
"""Smallest and largest value of xsd:integer and the types derived from it; None for no limit."""
_INTEGER = re.compile(r"[+-]?[0-9]+").fullmatch
_FLOATING = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[+-]?INF|NaN").fullmatch
_LEXICAL: Final = {
    "decimal": re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)").fullmatch,
    "double": _FLOATING,
    "float": _FLOATING,
    "boolean": re.compile(r"true|false|1|0").fullmatch,
}
_CAST: Final = frozenset(
    ("dateTime", "date", "time", "duration", "dayTimeDuration", "yearMonthDuration")
    + ("gYear", "gYearMonth", "gMonth", "gMonthDay", "gDay")
)
"""Datatypes whose lexical form a cast of Oxigraph checks."""
_ZONED = re.compile(r".*(?:Z|[+-][0-9]{2}:[0-9]{2})").fullmatch
_LONGEST = 1_000
"""Digits of the longest integer that is compared with a range: Python refuses to convert much longer ones."""


def has_datatype(literal: Literal, datatype: NamedNode, *, stored: bool) -> bool:
    """Return True if a literal has a datatype and is well-formed.

    Lexical forms are checked for the numeric types, xsd:boolean, and the types of dates, times and durations;
    a literal of another datatype is always well-formed.

    Args:
        literal: the literal.
        datatype: the IRI of the datatype.
        stored: True if the literal has the form in which the store keeps literals. The store keeps numbers of
            types that are derived from xsd:integer as xsd:integer, and xsd:dateTimeStamp as xsd:dateTime. So
            a stored xsd:integer also has each of these types whose range contains it, and a stored
            xsd:dateTime with a time zone is also an xsd:dateTimeStamp.
    """
    name = datatype.value.removeprefix(XSD) if datatype.value.startswith(XSD) else ""
    if literal.datatype != datatype:
        kept = "integer" if name in _INTEGER_RANGES else "dateTime" if name == "dateTimeStamp" else ""
        if not stored or not kept or literal.datatype.value != XSD + kept:
            return False
    if name in _INTEGER_RANGES:
        return _in_range(literal.value, *_INTEGER_RANGES[name])
    if name in _LEXICAL:
        return _LEXICAL[name](literal.value) is not None
    if name == "dateTimeStamp":
        return _ZONED(literal.value) is not None and _casts(literal.value, "dateTime")
    return name not in _CAST or _casts(literal.value, name)


def is_well_formed(value: Maybe) -> bool:
    """Return False for a literal such as the xsd:byte 300, whose comparisons are errors."""
    return not isinstance(value, Literal) or has_datatype(value, value.datatype, stored=False)


def _in_range(text: str, low: int | None, high: int | None) -> bool:
    if not _INTEGER(text):
        return False
    if low is None and high is None:
        return True
    digits = text.lstrip("+-0")
    if len(digits) > _LONGEST:
        return low is None if text.startswith("-") else high is None
    number = int(text[:1].strip("+0123456789") + (digits or "0"))
    return (low is None or number >= low) and (high is None or number <= high)


def _casts(text: str, name: str) -> bool:
    return ask(f"<{XSD}{name}>", text) is not None
