"""SPARQL built-ins by name (SPARQL 1.1 section 17.4 and SPARQL 1.2), as functions on values.

`BUILT_INS` maps the upper-case name to the implementation and its numbers of arguments. An argument that is
None (error or unbound) never reaches a function of this module: the caller returns None. Oxigraph evaluates
built-ins that depend on Rust's regular expressions, Unicode case tables or date arithmetic.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import partial

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra.regex_text import has_back_reference, pattern_text
from .numeric import absolute, ceiling, floor, is_numeric, round_half_up
from .oxigraph import ask
from .plain_regex import LONGEST_TEXT, plain_search
from .values import XSD, Decimal18, Float32, Maybe, Value, term_of

Tag = tuple[str, object]
_UTC = Literal("PT0S", datatype=NamedNode(XSD + "dayTimeDuration"))


def string_and_tag(value: Value) -> tuple[str, Tag | None] | None:
    """Return the characters and (language, direction) of a string literal; None for other values."""
    if type(value) is str:
        return value, None
    if type(value) is Literal and value.language is not None:
        return value.value, (value.language, value.direction)
    return None


def tagged(text: str, tag: Tag | None) -> Value:
    """Return a string literal with a language and direction; an xsd:string if ``tag`` is None."""
    if tag is None:
        return text
    return Literal(text, language=tag[0], direction=tag[1])  # type: ignore[arg-type]


def str_(value: Value) -> Maybe:
    """STR."""
    kind = type(value)
    if kind is str:
        return value
    if kind is NamedNode:
        return value.value  # type: ignore[union-attr]
    if kind is BlankNode or kind is Triple:
        return None
    return term_of(value).value  # type: ignore[union-attr]


def lang(value: Value) -> Maybe:
    """LANG."""
    if type(value) in _NO_LITERAL:
        return None
    return (value.language or "") if type(value) is Literal else ""


def langdir(value: Value) -> Maybe:
    """LANGDIR."""
    if type(value) in _NO_LITERAL:
        return None
    return str(value.direction or "") if type(value) is Literal else ""


def datatype(value: Value) -> Maybe:
    """DATATYPE."""
    kind = type(value)
    if kind in _DATATYPES:
        return _DATATYPES[kind]
    if kind in _NO_LITERAL:
        return None
    return term_of(value).datatype  # type: ignore[union-attr]


def same_term(a: Value, b: Value) -> bool:
    """SAMETERM."""
    return term_of(a) == term_of(b)


def strlen(value: Value) -> Maybe:
    """STRLEN."""
    found = string_and_tag(value)
    return None if found is None else len(found[0])


def upper(value: Value) -> Maybe:
    """UCASE."""
    found = string_and_tag(value)
    if found is None:
        return None
    return tagged(found[0].upper(), found[1]) if found[0].isascii() else ask("UCASE", value)


def lower(value: Value) -> Maybe:
    """LCASE."""
    found = string_and_tag(value)
    if found is None:
        return None
    return tagged(found[0].lower(), found[1]) if found[0].isascii() else ask("LCASE", value)


def regex(value: Value, pattern: Value, flags: Value = "") -> Maybe:
    """The built-in REGEX; a pattern with a back-reference is an error."""
    if type(pattern) is not str or type(flags) is not str:
        return None
    search = None if flags else plain_search(pattern)
    found = None if search is None else string_and_tag(value)
    if search is not None and found is not None and len(found[0]) <= LONGEST_TEXT:
        return search(found[0]) is not None
    if "\\" in pattern:
        if has_back_reference(pattern, flags):
            return None
        pattern = pattern_text(pattern, flags)
    return ask("REGEX", value, pattern, flags) if flags else ask("REGEX", value, pattern)


def substr(value: Value, start: Value, length: Value | None = None) -> Maybe:
    """SUBSTR: positions count from 1; positions and lengths must be integers, as in Oxigraph."""
    found = string_and_tag(value)
    if found is None or type(start) is not int or (length is not None and type(length) is not int):
        return None
    first = start - 1
    end = len(found[0]) if length is None else first + length
    return tagged(found[0][max(first, 0) : max(end, 0)], found[1])


def strstarts(value: Value, other: Value) -> Maybe:
    """STRSTARTS."""
    found = _compatible(value, other)
    return None if found is None else found[0].startswith(found[1])


def strends(value: Value, other: Value) -> Maybe:
    """STRENDS."""
    found = _compatible(value, other)
    return None if found is None else found[0].endswith(found[1])


def contains(value: Value, other: Value) -> Maybe:
    """CONTAINS."""
    found = _compatible(value, other)
    return None if found is None else found[1] in found[0]


def strbefore(value: Value, other: Value) -> Maybe:
    """STRBEFORE."""
    found = _compatible(value, other)
    if found is None:
        return None
    at = found[0].find(found[1])
    return "" if at < 0 else tagged(found[0][:at], found[2])


def strafter(value: Value, other: Value) -> Maybe:
    """STRAFTER."""
    found = _compatible(value, other)
    if found is None:
        return None
    at = found[0].find(found[1])
    return "" if at < 0 else tagged(found[0][at + len(found[1]) :], found[2])


def adjust(moment: Value, zone: Value = _UTC) -> Maybe:
    """ADJUST: the same moment in the zone of a duration; without a zone if ``zone`` is the empty string.

    A date, time or dateTime without a zone keeps its local time and takes the zone (XPath and XQuery
    Functions and Operators 3.1, section 9.6).
    """
    if zone != "":
        return ask("ADJUST", moment, zone)
    term = term_of(moment)
    if not isinstance(term, Literal) or term.datatype.value not in _ZONED:
        return None
    return ask(f"<{_ZONED[term.datatype.value]}>", _ZONE.sub("", term.value))


def triple(subject: Value, predicate: Value, object_: Value) -> Maybe:
    """TRIPLE."""
    if type(subject) not in (NamedNode, BlankNode) or type(predicate) is not NamedNode:
        return None
    return Triple(subject, predicate, term_of(object_))  # type: ignore[arg-type]


def _part_of_triple(name: str, value: Value) -> Maybe:
    if type(value) is not Triple:
        return None
    from .values import value_of

    return value_of(getattr(value, name))


def _hash(name: str, value: Value) -> Maybe:
    return hashlib.new(name, value.encode()).hexdigest() if type(value) is str else None


def _compatible(value: Value, other: Value) -> tuple[str, str, Tag | None] | None:
    """Return two strings' texts and the first one's tag; None if they are incompatible (17.4.3.1.2)."""
    first, second = string_and_tag(value), string_and_tag(other)
    if first is None or second is None or (second[1] is not None and first[1] != second[1]):
        return None
    return first[0], second[0], first[1]


def _has_direction(value: Value) -> bool:
    return type(value) is Literal and value.direction is not None


_ZONE = re.compile(r"(?:Z|[+-][0-9]{2}:[0-9]{2})$")
_ZONED = {
    XSD + name: XSD + name.removesuffix("Stamp") for name in ("dateTime", "dateTimeStamp", "date", "time")
}
"""The datatypes that ADJUST takes, with the datatype of the value without its zone."""
_NO_LITERAL = (NamedNode, BlankNode, Triple)
_DATATYPES: dict[type, NamedNode] = {
    str: NamedNode(XSD + "string"),
    int: NamedNode(XSD + "integer"),
    Decimal18: NamedNode(XSD + "decimal"),
    float: NamedNode(XSD + "double"),
    Float32: NamedNode(XSD + "float"),
    bool: NamedNode(XSD + "boolean"),
}

BUILT_INS: dict[str, tuple[Callable[..., Maybe], range]] = {
    "STR": (str_, range(1, 2)),
    "LANG": (lang, range(1, 2)),
    "LANGDIR": (langdir, range(1, 2)),
    "DATATYPE": (datatype, range(1, 2)),
    "SAMETERM": (same_term, range(2, 3)),
    "ISIRI": (lambda value: type(value) is NamedNode, range(1, 2)),
    "ISURI": (lambda value: type(value) is NamedNode, range(1, 2)),
    "ISBLANK": (lambda value: type(value) is BlankNode, range(1, 2)),
    "ISLITERAL": (lambda value: type(value) not in _NO_LITERAL, range(1, 2)),
    "ISNUMERIC": (is_numeric, range(1, 2)),
    "ISTRIPLE": (lambda value: type(value) is Triple, range(1, 2)),
    "HASLANG": (lambda value: type(value) is Literal and value.language is not None, range(1, 2)),
    "HASLANGDIR": (_has_direction, range(1, 2)),
    "ABS": (absolute, range(1, 2)),
    "CEIL": (ceiling, range(1, 2)),
    "FLOOR": (floor, range(1, 2)),
    "ROUND": (round_half_up, range(1, 2)),
    "STRLEN": (strlen, range(1, 2)),
    "UCASE": (upper, range(1, 2)),
    "LCASE": (lower, range(1, 2)),
    "SUBSTR": (substr, range(2, 4)),
    "STRSTARTS": (strstarts, range(2, 3)),
    "STRENDS": (strends, range(2, 3)),
    "CONTAINS": (contains, range(2, 3)),
    "STRBEFORE": (strbefore, range(2, 3)),
    "STRAFTER": (strafter, range(2, 3)),
    "REGEX": (regex, range(2, 4)),
    "ADJUST": (adjust, range(1, 3)),
    "TRIPLE": (triple, range(3, 4)),
    "SUBJECT": (partial(_part_of_triple, "subject"), range(1, 2)),
    "PREDICATE": (partial(_part_of_triple, "predicate"), range(1, 2)),
    "OBJECT": (partial(_part_of_triple, "object"), range(1, 2)),
    "MD5": (partial(_hash, "md5"), range(1, 2)),
    "SHA1": (partial(_hash, "sha1"), range(1, 2)),
    "SHA256": (partial(_hash, "sha256"), range(1, 2)),
    "SHA384": (partial(_hash, "sha384"), range(1, 2)),
    "SHA512": (partial(_hash, "sha512"), range(1, 2)),
}

ASKED: dict[str, range] = {
    "LANGMATCHES": range(2, 3),
    "STRLANG": range(2, 3),
    "STRLANGDIR": range(3, 4),
    "STRDT": range(2, 3),
    "YEAR": range(1, 2),
    "MONTH": range(1, 2),
    "DAY": range(1, 2),
    "HOURS": range(1, 2),
    "MINUTES": range(1, 2),
    "SECONDS": range(1, 2),
    "TIMEZONE": range(1, 2),
    "TZ": range(1, 2),
}

VOLATILE = frozenset({"RAND", "UUID", "STRUUID", "BNODE", "NOW"})


def asked(name: str) -> Callable[..., Maybe]:
    """Return the function of a built-in that Oxigraph evaluates, for calls from compiled expressions."""
    return partial(ask, name)
