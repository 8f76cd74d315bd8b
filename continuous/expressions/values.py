"""RDF terms as Python values, with which expressions compute, and sort keys of terms.

    xsd:integer   int            xsd:string    str          everything else: the pyoxigraph term itself
    xsd:decimal   Decimal18      xsd:boolean   bool         (IRIs, blank nodes, triples, language strings,
    xsd:double    float          dateTime      ComparableTime    durations, unknown datatypes)
    xsd:float     Float32        date, time    ComparableTime

The Python value None stands for an error (SPARQL 1.1, section 17.2) and for an unbound variable. The rules of
arithmetic (64-bit integers, decimals of 18 places in 128 bits, conditions for errors) are those of Oxigraph's
crate oxsdatatypes, because tests compare every answer with a recomputation by Oxigraph. Products and
quotients of decimals are an exception to equality with Oxigraph (docs/decisions/0092-expressions.md).
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import isfinite
from typing import Final, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from quadrill.store.dictionary import (
    TermDictionary,
    decimal_id,
    inline_decimal,
    inline_integer,
    integer_id,
)
from quadrill.store.results import inline_written
from quadrill.store.terms import Term

from ..algebra.order import Key, LazySortKey, descending_key, descending_number_key, number_key, value_key
from ..algebra.set_functions import double_text, single_text

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
DECIMAL_ONE: Final = 10**18
INTEGER_LIMIT: Final = 2**63
DECIMAL_LIMIT: Final = 2**127
_ESCAPED = re.compile(r'["\\]').search
_POWERS = [10**n for n in range(19)]
_MOST_COMPUTED = 4096

_INTEGER = NamedNode(XSD + "integer")
_DECIMAL = NamedNode(XSD + "decimal")
_DECIMAL_END = f'"^^{_DECIMAL}'
_DOUBLE = NamedNode(XSD + "double")
_FLOAT = NamedNode(XSD + "float")
_TRUE = Literal("true", datatype=NamedNode(XSD + "boolean"))
_FALSE = Literal("false", datatype=NamedNode(XSD + "boolean"))


class Decimal18(int):
    """An xsd:decimal, stored as the integer value · 10^18.

    A Decimal18 may only be compared with and added to other Decimal18 values.
    """

    __slots__ = ()


class Float32(float):
    """An xsd:float; the value always has single precision."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ComparableTime:
    """An xsd:dateTime, xsd:date or xsd:time that can be compared without Oxigraph.

    The ``instant`` of a comparable time is its seconds · 10^18 from an arbitrary origin, in UTC if ``zoned``.
    ``kind`` is the local name of the time's datatype. Two times of one kind can be compared by ``instant`` if
    both or none of them have a time zone.
    """

    kind: str
    instant: int
    zoned: bool
    term: Literal


Value: TypeAlias = int | float | str | bool | ComparableTime | NamedNode | BlankNode | Literal | Triple
Maybe: TypeAlias = Value | None


def value_of(term: Term) -> Value:
    """Convert a canonical term to a Python value; to the term itself if no Python type represents it."""
    if not isinstance(term, Literal) or term.language is not None:
        return term
    name = term.datatype.value
    if not name.startswith(XSD):
        return term
    text = term.value
    match name[len(XSD) :]:
        case "string":
            return text
        case "integer":
            return _integer(text, term)
        case "decimal":
            return _decimal(text, term)
        case "double":
            return _number(text, term)
        case "float":
            number = _number(text, term)
            return to_single(number) if type(number) is float else number
        case "boolean":
            return {"true": True, "false": False}.get(text, term)
        case ("dateTime" | "date" | "time") as kind:
            return _moment(kind, text, term)
        case _:
            return term


def term_of(value: Value) -> Term:
    """Convert an expression value to a term in the store's canonical form."""
    kind = type(value)
    if kind is int:
        return Literal(str(value), datatype=_INTEGER)
    if kind is Decimal18:
        return Literal(decimal_text(int(value)), datatype=_DECIMAL)  # type: ignore[arg-type]
    if kind is float:
        return Literal(double_text(value), datatype=_DOUBLE)  # type: ignore[arg-type]
    if kind is str:
        return Literal(value)  # type: ignore[arg-type]
    if kind is bool:
        return _TRUE if value else _FALSE
    if kind is Float32:
        return Literal(single_text(value), datatype=_FLOAT)  # type: ignore[arg-type]
    if kind is ComparableTime:
        return value.term  # type: ignore[union-attr]
    return value  # type: ignore[return-value]


_NUMBERS = (int, float, Float32)


class ValueTable(dict[int, Maybe]):
    """Values by term id, computed on first use; id 0 (unbound) has the value None.

    The method `id_of` returns the term id of a value. When the term dictionary deletes a term id, the id's
    value is deleted, too.
    """

    def __init__(self, dictionary: TermDictionary) -> None:
        super().__init__()
        self.dictionary = dictionary
        self.decimal_ids = _DecimalIds(self)
        self[0] = None
        dictionary.forget_with(self)

    def __missing__(self, term_id: int) -> Maybe:
        if term_id > 0:
            value: Maybe = value_of(self.dictionary.terms[term_id])
        elif (scaled := inline_decimal(term_id)) is not None:
            value = Decimal18(scaled)
        elif (value := inline_integer(term_id)) is None:
            value = value_of(self.dictionary.terms[term_id])
        self[term_id] = value
        if term_id < 0 and term_id not in self.dictionary.text_of:
            self.dictionary.met_inline(term_id)
        return value

    def number(self, term_id: int) -> float | None:
        """Return a term's number as a double, rounded; None if the term is not a number or not finite."""
        value = self[term_id]
        if type(value) is Decimal18:
            return value / DECIMAL_ONE
        if type(value) in _NUMBERS and isfinite(value):  # type: ignore[arg-type]  # its kind
            return float(value)  # type: ignore[arg-type]
        return None

    def id_of(self, value: Maybe) -> int:
        """Return the term id of a value; the id of None (an error, unbound) is 0."""
        kind = type(value)
        if kind is Decimal18:
            return self.decimal_ids[value]  # type: ignore[index]  # its kind
        if kind is int and (found := integer_id(value)):  # type: ignore[arg-type]
            return found
        if value is None:
            return 0
        if isinstance(value, str) and value.isascii() and value.isprintable() and not _ESCAPED(value):
            return self.dictionary.texts[f'"{value}"']
        return self.dictionary.ids[term_of(value)]

    def clear(self) -> None:
        """Empty the cache of values by term id, which can all be computed again."""
        super().clear()
        self.decimal_ids.clear()
        self[0] = None


class _DecimalIds(dict[Decimal18, int]):
    """Term ids by decimal value, cached because computed numbers, such as grid cells and means, repeat.

    Hot loops look up the ids of decimal values by subscription. Only term ids that encode their number inline
    are cached by value.
    """

    def __init__(self, values: ValueTable) -> None:
        super().__init__()
        self._values = values

    def __missing__(self, value: Decimal18) -> int:
        if not (found := _id_of_decimal(value)):
            found = self._values.dictionary.texts[f'"{decimal_text(value)}{_DECIMAL_END}']
            self._values[found] = value
            return found
        if len(self) >= _MOST_COMPUTED:
            self.clear()
        self[value] = found
        return found


class OrderKeys:
    """Sort keys by term id, under SPARQL's order and under the total order.

    Keys of integers and decimals under SPARQL's order are computed on each call. Sort keys of other terms are
    cached until their term id is deleted.
    """

    def __init__(self, values: ValueTable) -> None:
        self._values = values
        self._terms = terms = values.dictionary
        self._value: dict[int, Key] = {}
        self._falling: dict[int, Key] = {}
        self._total: dict[int, Key] = {}
        terms.forget_with(self._value)
        terms.forget_with(self._falling)
        terms.forget_with(self._total)

    def value(self, term_id: int) -> Key:
        """Return a term's sort key for ORDER BY; terms of equal value have equal keys."""
        number = self._values[term_id]
        if type(number) is Decimal18:
            return number_key(number)
        if type(number) is int:
            return number_key(number * DECIMAL_ONE)
        key = self._value.get(term_id)
        if key is None:
            key = self._value[term_id] = value_key(self._terms.decode(term_id))
        return key

    def descending_key(self, term_id: int) -> Key:
        """Return a term's sort key for ORDER BY DESC."""
        number = self._values[term_id]
        if type(number) is Decimal18:
            return descending_number_key(number)
        if type(number) is int:
            return descending_number_key(number * DECIMAL_ONE)
        key = self._falling.get(term_id)
        if key is None:
            key = self._falling[term_id] = descending_key(self.value(term_id))
        return key

    def total(self, term_id: int) -> Key:
        """Return a term's sort key under the total order; different terms have different keys."""
        key = self._total.get(term_id)
        if key is None:
            key = self._total[term_id] = self.value(term_id), LazySortKey(self._text, term_id)
        return key

    def _text(self, term_id: int) -> str:
        """Return the N-Triples text of the term with an id, as a sort key.

        An unbound variable (id 0) has the empty text as sort key and sorts first.
        """
        if term_id < 0:
            return inline_written(term_id)
        return str(self._terms.terms[term_id]) if term_id else ""


def _id_of_decimal(scaled: int) -> int:
    """Return the inline id of the decimal ``scaled`` / 10^18; 0 if the decimal does not fit into an id."""
    whole, rest = divmod(scaled, DECIMAL_ONE)
    if not rest:
        return decimal_id(whole, 0)
    if rest % 10:
        return decimal_id(scaled, 18)
    fraction = f"{rest:018d}".rstrip("0")
    return decimal_id(scaled // _POWERS[18 - len(fraction)], len(fraction))


def decimal_text(scaled: int) -> str:
    """Return the canonical text of the decimal ``scaled`` / 10^18, as Oxigraph prints it."""
    sign = "-" if scaled < 0 else ""
    whole, fraction = divmod(abs(scaled), DECIMAL_ONE)
    if not fraction:
        return f"{sign}{whole}"
    return f"{sign}{whole}.{fraction:018d}".rstrip("0")


def to_single(number: float) -> Float32:
    """Round a double to single precision, ties to even; numbers out of range become infinite."""
    try:
        return Float32(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        return Float32(float("inf") if number > 0 else float("-inf"))


def single_of_integer(number: int) -> Float32:
    """Round a 64-bit integer to single precision in one step."""
    size = abs(number)
    drop = size.bit_length() - 24
    if drop <= 0:
        return Float32(number)
    kept, rest = size >> drop, size & ((1 << drop) - 1)
    half = 1 << (drop - 1)
    if rest > half or (rest == half and kept & 1):
        kept += 1
    size = kept << drop
    return Float32(size if number > 0 else -size)


def double_of_decimal(scaled: int) -> float:
    """Convert a decimal to a double with Oxigraph's steps: drop trailing zeros, then divide two doubles."""
    if not scaled:
        return 0.0
    shift = DECIMAL_ONE
    while shift != 1 and scaled % 10 == 0:
        scaled //= 10
        shift //= 10
    return float(scaled) / float(shift)


def _integer(text: str, term: Literal) -> Value:
    if not _INTEGER_TEXT.fullmatch(text):
        return term
    number = int(text)
    return number if -INTEGER_LIMIT <= number < INTEGER_LIMIT else term


def _decimal(text: str, term: Literal) -> Value:
    if not _DECIMAL_TEXT.fullmatch(text):
        return term
    whole, _, fraction = text.partition(".")
    fraction = fraction.rstrip("0")
    if len(fraction) > 18:
        return term
    scaled = int((whole if whole not in ("", "-", "+") else whole + "0") + fraction.ljust(18, "0"))
    return Decimal18(scaled) if -DECIMAL_LIMIT <= scaled < DECIMAL_LIMIT else term


def _number(text: str, term: Literal) -> float | Literal:
    if text in ("INF", "-INF", "NaN"):
        return float(text.replace("INF", "inf"))
    return float(text) if _DOUBLE_TEXT.fullmatch(text) else term


def _moment(kind: str, text: str, term: Literal) -> Value:
    found = _MOMENT_TEXT[kind].fullmatch(text)
    if found is None:
        return term
    part = found.groupdict()
    year, month, day = int(part.get("year") or 1972), int(part.get("month") or 12), int(part.get("day") or 31)
    if not (1 <= month <= 12 and 1 <= day <= 31) or (day > 28 and _is_behind(year, month, day)):
        return term
    if part.get("hour", "0") > "23" or part.get("minute", "0") > "59" or part.get("second", "0") >= "60":
        return term
    days = _days(year, month, day)
    seconds, _, fraction = (part.get("second") or "0").partition(".")
    whole = (
        days * 86_400 + int(part.get("hour") or 0) * 3600 + int(part.get("minute") or 0) * 60 + int(seconds)
    )
    zone = part["zone"]
    if zone and zone != "Z":
        offset = int(zone[1:3]) * 60 + int(zone[4:6])
        if offset > 840 or zone[4] > "5":
            return term
        whole -= (offset if zone[0] == "+" else -offset) * 60
    return ComparableTime(
        kind, whole * DECIMAL_ONE + int(fraction[:18].ljust(18, "0") or "0"), zone is not None, term
    )


def _is_behind(year: int, month: int, day: int) -> bool:
    """Return True if ``day`` is greater than the number of days of the month."""
    return _days(year, month, day) >= _days(year + month // 12, month % 12 + 1, 1)


def _days(year: int, month: int, day: int) -> int:
    """Return a date's number of days from a fixed origin (proleptic Gregorian calendar, any year)."""
    if month <= 2:
        year -= 1
        month += 12
    return 365 * year + year // 4 - year // 100 + year // 400 + (153 * (month - 3) + 2) // 5 + day


_ZONE = r"(?P<zone>Z|[+-]\d\d:\d\d)?"
_DATE = r"(?P<year>-?\d{4,})-(?P<month>\d\d)-(?P<day>\d\d)"
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:\.\d+)?)"
_MOMENT_TEXT = {
    "dateTime": re.compile(f"{_DATE}T{_TIME}{_ZONE}", re.ASCII),
    "date": re.compile(f"{_DATE}{_ZONE}", re.ASCII),
    "time": re.compile(f"{_TIME}{_ZONE}", re.ASCII),
}
_INTEGER_TEXT = re.compile(r"[+-]?\d+", re.ASCII)
_DECIMAL_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)", re.ASCII)
_DOUBLE_TEXT = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
