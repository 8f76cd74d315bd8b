"""Term order: SPARQL's ORDER BY order made total, so that every engine computes the same answer.

SPARQL 1.1 section 15.1 orders unbound < blank node < IRI < literal (RDF 1.2 adds < triple term) and compares
literals by ``<`` where that is defined. The term order fixes the cases that SPARQL leaves open: literals of
kinds that do not compare are ordered by kind (numbers, dates and times, durations, booleans, strings,
language-tagged strings, all others), and terms of equal value by their N-Triples texts.

A term has two sort keys: under `value_key`, equal values tie (``1`` and ``1.0``), as the conditions of ORDER
BY, MIN and MAX require; under `total_key`, only identical terms tie.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal, InvalidOperation
from functools import lru_cache, total_ordering
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from .nodes import Term

XSD = "http://www.w3.org/2001/XMLSchema#"
INTEGER_TYPES = frozenset(
    XSD + name
    for name in (
        "integer",
        "int",
        "long",
        "short",
        "byte",
        "nonNegativeInteger",
        "positiveInteger",
        "nonPositiveInteger",
        "negativeInteger",
        "unsignedInt",
        "unsignedLong",
        "unsignedShort",
        "unsignedByte",
    )
)
FLOAT_TYPES = frozenset((XSD + "double", XSD + "float"))
NUMERIC_TYPES = INTEGER_TYPES | FLOAT_TYPES | {XSD + "decimal"}

_DATE_TIME = re.compile(r"(-?\d{4,})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d(?:\.\d+)?))?(Z|[+-]\d\d:\d\d)?\Z")
_TIME = re.compile(r"(\d\d):(\d\d):(\d\d(?:\.\d+)?)(Z|[+-]\d\d:\d\d)?\Z")
_DURATION = re.compile(
    r"(-?)P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?\Z"
)

_UNBOUND, _BLANK, _IRI, _LITERAL, _TRIPLE = range(5)
_NUMBER, _DATE, _CLOCK, _SPAN, _BOOLEAN, _STRING, _LANGUAGE, _OTHER = range(8)

Key = tuple[Any, ...]


def value_key(term: Term | None) -> Key:
    """Return the sort key of SPARQL's ORDER BY; terms of equal value have equal keys."""
    return (_UNBOUND,) if term is None else _value_key(term)


def total_key(term: Term | None) -> Key:
    """Return the sort key of the total order: by value, then by N-Triples text."""
    return ((_UNBOUND,), "") if term is None else (_value_key(term), str(term))


def number_key(scaled: int) -> Key:
    """Return the `value_key` of an xsd:integer or xsd:decimal from its value times 10^18."""
    return (_LITERAL, _NUMBER, 0, scaled)


@lru_cache(maxsize=65536)
def _value_key(term: Term) -> Key:
    match term:
        case BlankNode():
            return (_BLANK, term.value)
        case NamedNode():
            return (_IRI, term.value)
        case Literal():
            return (_LITERAL, *_literal_key(term))
        case Triple():
            return (_TRIPLE, _value_key(term.subject), _value_key(term.predicate), _value_key(term.object))


def _literal_key(literal: Literal) -> Key:
    text, datatype = literal.value, literal.datatype.value
    if datatype in NUMERIC_TYPES:
        number = numeric_key(text, datatype)
        if number is not None:
            return (_NUMBER, *number)
    elif datatype == XSD + "string":
        return (_STRING, text)
    elif datatype == XSD + "boolean" and text in ("true", "false", "1", "0"):
        return (_BOOLEAN, text in ("true", "1"))
    elif literal.language is not None:
        return (_LANGUAGE, text, literal.language)
    elif datatype in (XSD + "dateTime", XSD + "date") and (found := _DATE_TIME.match(text)):
        return (_DATE, datatype, _seconds_of_date(found))
    elif datatype == XSD + "time" and (found := _TIME.match(text)):
        hours, minutes, seconds, zone = found.groups()
        return (_CLOCK, int(hours) * 3600 + int(minutes) * 60 + Decimal(seconds) - _zone_seconds(zone))
    elif (
        datatype.startswith(XSD)
        and datatype.lower().endswith("duration")
        and (found := _DURATION.match(text))
    ):
        return (_SPAN, *_duration_key(found))
    return (_OTHER, datatype, text)


def numeric_key(text: str, datatype: str) -> tuple[int, Decimal] | None:
    """Return the key of a numeric literal (NaN after every number); None if the text is not a number.

    Values of numeric sort keys are multiplied by 10^18, so that most decimals become whole numbers.
    """
    if datatype in FLOAT_TYPES:
        special = {
            "NaN": (2, Decimal(0)),
            "INF": (1, Decimal(0)),
            "+INF": (1, Decimal(0)),
            "-INF": (-1, Decimal(0)),
        }
        if text in special:
            return special[text]
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return (0, _EXACT.scaleb(number, 18)) if number.is_finite() else None


def _zone_seconds(zone: str | None) -> int:
    if zone is None or zone == "Z":
        return 0
    sign = -1 if zone[0] == "-" else 1
    return sign * (int(zone[1:3]) * 3600 + int(zone[4:6]) * 60)


def _seconds_of_date(found: re.Match[str]) -> Decimal:
    """Return the seconds of a date since 1 March of year 0; a missing time zone counts as UTC."""
    year, month, day = int(found[1]), int(found[2]), int(found[3])
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year
    clock = int(found[4]) * 3600 + int(found[5]) * 60 + Decimal(found[6]) if found[4] else Decimal(0)
    return days * 86400 + clock - _zone_seconds(found[7])


def _duration_key(found: re.Match[str]) -> tuple[Decimal, int]:
    """Order durations by length with months of 30.44 days, then by months; SPARQL's order is partial."""
    sign = -1 if found[1] else 1
    months = sign * (int(found[2] or 0) * 12 + int(found[3] or 0))
    seconds = sign * (
        int(found[4] or 0) * 86400
        + int(found[5] or 0) * 3600
        + int(found[6] or 0) * 60
        + Decimal(found[7] or 0)
    )
    return (months * Decimal("2629746") + seconds, months)


class LazySortKey:
    """A sort key that is computed only at the first comparison that needs it."""

    __slots__ = ("_given", "_key", "_make")

    def __init__(self, make: Callable[[Any], Any], given: Any) -> None:
        self._make, self._given = make, given
        self._key: Any = None

    @property
    def key(self) -> Any:
        """The sort key, which is computed on first access."""
        if self._key is None:
            self._key = self._make(self._given)
        return self._key

    def __lt__(self, other: LazySortKey) -> bool:
        return bool(self.key < other.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LazySortKey) and bool(self.key == other.key)

    __hash__ = None  # type: ignore[assignment]  # it is compared only


# --- descending order -------------------------------------------------------------------------


def descending_key(key: Key) -> Key:
    """Return a sort key for descending order; numbers are negated, so they compare without Python code.

    No sort key is a prefix of another, because keys differ in length only after a part in which they differ.

    >>> sorted([(3, "a"), (3, "b"), (1, "c")], key=descending_key)
    [(3, 'b'), (3, 'a'), (1, 'c')]
    """
    return tuple([_opposite(part) for part in key])


def descending_number_key(scaled: int) -> Key:
    """Return the sort key of a number for descending order, given its `number_key`."""
    return (-_LITERAL, -_NUMBER, 0, -scaled)


def _opposite(part: Any) -> Any:
    if isinstance(part, tuple):
        return descending_key(part)
    if isinstance(part, Decimal):
        # The number's sign is changed by copy_negate, because the unary minus would round the number.
        return part.copy_negate()
    return -part if isinstance(part, int) else _descending(part)


@lru_cache(maxsize=4096)
def _descending(text: str) -> Descending:
    """Return one shared object for equal texts, so that equal datatype names compare fast."""
    return Descending(text)


@total_ordering
class Descending:
    """A part of a sort key that compares in reverse order, for texts, which cannot be negated."""

    __slots__ = ("key",)

    def __init__(self, key: Any) -> None:
        self.key = key

    def __lt__(self, other: Descending) -> bool:
        return bool(other.key < self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Descending) and bool(self.key == other.key)

    def __hash__(self) -> int:
        return hash(self.key)


# --- the sort orders of terms as text, for engines that sort strings ---------------------------


def value_text(term: Term) -> str:
    """Return a string whose order by code points is the order of `value_key`."""
    return _key_text(_value_key(term))


def total_text(term: Term) -> str:
    """Return a string whose order by code points is the order of `total_key`."""
    return _key_text((_value_key(term), str(term)))


def _key_text(key: Key) -> str:
    """Return a sort key as text; its parts are escaped and end with U+0000, so prefixes sort first."""
    return "".join(_part_text(part) for part in key)


def _part_text(part: Any) -> str:
    if isinstance(part, tuple):
        return _key_text(part)
    if isinstance(part, str):
        return part.replace("\x01", "\x01\x02").replace("\x00", "\x01\x01") + "\x00"
    if isinstance(part, Decimal):
        return _decimal_text(part) + "\x00"
    return _decimal_text(Decimal(part)) + "\x00"


def _decimal_text(number: Decimal) -> str:
    """Return a number as sortable text: sign, biased exponent and digits.

    Negative numbers in sortable text are written in nines' complement with a high terminator, so that their
    order is reversed.
    """
    if not number:
        return "1"
    sign, digits, _ = number.normalize(_WIDE).as_tuple()
    exponent = f"{number.adjusted() + 500_000_000:010d}"
    text = exponent + "".join(map(str, digits))
    return "2" + text if not sign else "0" + text.translate(_COMPLEMENT) + "~"


_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
_WIDE = Context(prec=4000, Emax=MAX_EMAX, Emin=MIN_EMIN)
_COMPLEMENT = str.maketrans("0123456789", "9876543210")
