"""Expressions by the standards, in plain Python: what SPARQL 1.1 and XPath say, not what Oxigraph does.

Numbers are exact (`fractions`), doubles Python's own, calendars `datetime`'s. None is an error. Terms are in
the store's canonical form; integers have 64 bits and decimals 18 places in 128 bits, as XPath lets an
implementation choose: a literal beyond is ill-typed, a result beyond is an overflow, other decimals are cut.
"""

from __future__ import annotations

import hashlib
import math
import re
import struct
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import quote

from pyoxigraph import BlankNode, Literal, NamedNode

XSD = "http://www.w3.org/2001/XMLSchema#"
RANKS = ["integer", "decimal", "float", "double"]
ONE = 10**18


@dataclass(frozen=True)
class Number:
    """A number: an int, a Fraction or a float by its kind."""

    kind: str
    value: Any

    def same(self, other: object) -> bool:
        if not isinstance(other, Number) or self.kind != other.kind:
            return False
        if self.kind in RANKS[:2]:
            return bool(self.value == other.value)
        return repr(float(self.value)) == repr(float(other.value))


@dataclass(frozen=True)
class Text:
    """A string with its language, "" where it has none."""

    text: str
    language: str = ""


@dataclass(frozen=True)
class Time:
    """A dateTime: its text's local time in microseconds, and minutes of its zone."""

    local: int
    zone: int | None
    term: Literal


@dataclass(frozen=True)
class Opaque:
    """A literal that is ill-typed, or of a datatype that is not looked into."""

    term: Literal
    ill_typed: bool


Value = Number | Text | Time | Opaque | bool | NamedNode | BlankNode | None


def single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def number(kind: str, value: Any) -> Number | None:
    """A result in its type: None for an overflow; decimals are cut."""
    if kind == "integer":
        return Number(kind, value) if -(2**63) <= value < 2**63 else None
    if kind == "decimal":
        scaled = abs(value) * ONE // 1
        cut = Fraction(scaled if value >= 0 else -scaled, ONE)
        return Number(kind, cut) if -(2**127) <= cut * ONE < 2**127 else None
    return Number(kind, single(value) if kind == "float" else value)


_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6}))?(Z|[+-]\d\d:\d\d)?", re.ASCII)


def read(text: str, kind: str) -> Number | None:
    """A number by its lexical form."""
    if kind == "integer":
        return number(kind, int(text)) if re.fullmatch(r"[+-]?\d+", text, re.ASCII) else None
    if kind == "decimal":
        plain = re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text, re.ASCII)
        exact = Fraction(text) if plain else None
        return None if exact is None or exact * ONE % 1 else number(kind, exact)
    if text in ("INF", "+INF", "-INF", "NaN"):
        return Number(kind, float(text.replace("INF", "inf")))
    return number(kind, float(text)) if _NUMBER.fullmatch(text) else None


def time(text: str, term: Literal) -> Time | None:
    found = _DATE.fullmatch(text)
    if found is None:
        return None
    *parts, fraction, zone = found.groups()
    try:
        local = datetime(*map(int, parts)) - datetime(1, 1, 1)  # type: ignore[arg-type]
    except ValueError:
        return None
    minutes = None
    if zone is not None:
        minutes = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 60 + int(zone[4:]))
        if abs(minutes) > 840:
            return None
    return Time(local // timedelta(microseconds=1) + int((fraction or "0").ljust(6, "0")), minutes, term)


def value_of(term: Any) -> Value:
    if not isinstance(term, Literal):
        return term  # type: ignore[no-any-return]
    if term.language is not None:
        return Text(term.value, term.language)
    name = term.datatype.value.removeprefix(XSD)
    found: Value = None
    if name == "string":
        return Text(term.value)
    if name in RANKS:
        found = read(term.value, name)
    elif name == "boolean":
        found = {"true": True, "false": False}.get(term.value)
    elif name == "dateTime":
        found = time(term.value, term)
    else:
        return Opaque(term, ill_typed=False)
    return Opaque(term, ill_typed=True) if found is None else found


# --- operators -----------------------------------------------------------------------------------


def promoted(a: Value, b: Value) -> tuple[str, Any, Any] | None:
    if not isinstance(a, Number) or not isinstance(b, Number):
        return None
    kind = RANKS[max(RANKS.index(a.kind), RANKS.index(b.kind))]
    return kind, _as(kind, a), _as(kind, b)


def _as(kind: str, a: Number) -> Any:
    if kind in ("float", "double"):
        return single(float(a.value)) if kind == "float" else float(a.value)
    return Fraction(a.value) if kind == "decimal" else a.value


def arithmetic(operator: str) -> Callable[[Value, Value], Value]:
    def compute(a: Value, b: Value) -> Value:
        pair = promoted(a, b)
        if pair is None:
            return None
        kind, x, y = pair
        if operator == "/":
            if kind in RANKS[:2]:
                return number("decimal", Fraction(x) / Fraction(y)) if y else None
            if not y:
                sign = math.copysign(1, x) * math.copysign(1, y)
                return Number(kind, math.nan if not x or x != x else math.copysign(math.inf, sign))
            return number(kind, x / y)
        return number(kind, {"+": x.__add__, "-": x.__sub__, "*": x.__mul__}[operator](y))

    return compute


def ebv(a: Value) -> bool | None:
    """17.2.2; an ill-typed boolean or number is false."""
    match a:
        case bool():
            return a
        case Number(_, number_):
            return bool(number_) and number_ == number_
        case Text(text, _):
            return bool(text)
        case Opaque(term, True) if not term.datatype.value.endswith("dateTime"):
            return False
    return None


def both(a: Value, b: Value) -> bool | None:
    x, y = ebv(a), ebv(b)
    return False if x is False or y is False else None if x is None or y is None else True


def either(a: Value, b: Value) -> bool | None:
    x, y = ebv(a), ebv(b)
    return True if x or y else None if x is None or y is None else False


def _bounds(a: Time) -> tuple[int, int]:
    """The first and the last moment that it may be: without a zone 14 hours around (XSD 3.2.7.4)."""
    minute = 60_000_000
    if a.zone is not None:
        return (a.local - a.zone * minute,) * 2
    return a.local - 840 * minute, a.local + 840 * minute


def compare_times(a: Time, b: Time) -> int | None:
    if (a.zone is None) == (b.zone is None):
        x, y = (a.local, b.local) if a.zone is None else (_bounds(a)[0], _bounds(b)[0])
        return (x > y) - (x < y)
    (low, high), (least, most) = _bounds(a), _bounds(b)
    return -1 if high < least else 1 if low > most else None


def equal(a: Value, b: Value) -> bool | None:
    """``=``; literals of known datatypes that differ are not equal, as SPARQL 1.2 has it."""
    if a is None or b is None:
        return None
    if (pair := promoted(a, b)) is not None:
        return bool(pair[1] == pair[2])
    if isinstance(a, Time) and isinstance(b, Time):
        # XSD 1.1: one with a zone never equals one without.
        return (a.zone is None) == (b.zone is None) and compare_times(a, b) == 0
    if isinstance(a, Opaque) or isinstance(b, Opaque):
        if isinstance(a, NamedNode | BlankNode) or isinstance(b, NamedNode | BlankNode):
            return False
        return True if a == b else None
    return type(a) is type(b) and a == b


def less(a: Value, b: Value, *, same: bool) -> bool | None:
    """``<`` and with ``same`` ``<=``: numbers, simple strings, booleans and dateTimes (17.3)."""
    if (pair := promoted(a, b)) is not None:
        return bool(pair[1] < pair[2] or (same and pair[1] == pair[2]))
    match a, b:
        case Text(x, ""), Text(y, ""):
            return x < y or (same and x == y)
        case bool(), bool():
            return a < b or (same and a is b)
        case Time(), Time():
            order = compare_times(a, b)
            return None if order is None else order < 0 or (same and order == 0)
    return None


def negated(found: bool | None) -> bool | None:
    return None if found is None else not found


OPERATORS: dict[str, Callable[[Value, Value], Value]] = {
    **{operator: arithmetic(operator) for operator in "+-*/"},
    "=": equal,
    "!=": lambda a, b: negated(equal(a, b)),
    "<": lambda a, b: less(a, b, same=False),
    "<=": lambda a, b: less(a, b, same=True),
    ">": lambda a, b: less(b, a, same=False),
    ">=": lambda a, b: less(b, a, same=True),
    "&&": both,
    "||": either,
    "IN": equal,
    "NOT IN": lambda a, b: negated(equal(a, b)),
}


# --- functions -----------------------------------------------------------------------------------


def compatible(function: Callable[[Text, Text], Value]) -> Callable[[Value, Value], Value]:
    """17.4.3.1.2: the second string has no language, or that of the first."""

    def call(a: Value, b: Value) -> Value:
        if isinstance(a, Text) and isinstance(b, Text) and b.language in ("", a.language):
            return function(a, b)
        return None

    return call


def before(a: Text, b: Text) -> Value:
    head, found, _ = a.text.partition(b.text) if b.text else ("", "here", "")
    return Text(head, a.language) if found else Text("")


def after(a: Text, b: Text) -> Value:
    _, found, tail = a.text.partition(b.text) if b.text else ("", "here", a.text)
    return Text(tail, a.language) if found else Text("")


def matches_language(a: Value, b: Value) -> bool | None:
    if not isinstance(a, Text) or not isinstance(b, Text) or a.language or b.language:
        return None
    tag, asked = a.text.lower(), b.text.lower()
    return bool(tag) if asked == "*" else tag == asked or tag.startswith(asked + "-")


def concat(a: Value, b: Value) -> Value:
    if not isinstance(a, Text) or not isinstance(b, Text):
        return None
    return Text(a.text + b.text, a.language if a.language == b.language else "")


def substring(a: Value, b: Value) -> Value:
    """SUBSTR from a place on, which counts from 1; SPARQL's is an integer."""
    if not isinstance(a, Text) or not isinstance(b, Number) or b.kind != "integer":
        return None
    return Text("".join(each for place, each in enumerate(a.text, 1) if place >= b.value), a.language)


PAIRS: dict[str, Callable[[Value, Value], Value]] = {
    "STRSTARTS": compatible(lambda a, b: a.text.startswith(b.text)),
    "STRENDS": compatible(lambda a, b: a.text.endswith(b.text)),
    "CONTAINS": compatible(lambda a, b: b.text in a.text),
    "STRBEFORE": compatible(before),
    "STRAFTER": compatible(after),
    "LANGMATCHES": matches_language,
    "CONCAT": concat,
    "SUBSTR": substring,
    "COALESCE": lambda a, b: b if a is None else a,
}


def numeric(function: Callable[[Any], Any]) -> Callable[[Value], Value]:
    def call(a: Value) -> Value:
        return number(a.kind, function(a.value)) if isinstance(a, Number) else None

    return call


def whole(rounding: Callable[[Any], int]) -> Callable[[Value], Value]:
    """CEIL, FLOOR and ROUND keep the type; a double its sign, infinities and NaN."""

    def call(value: Any) -> Any:
        if isinstance(value, float):
            return math.copysign(rounding(Fraction(value)), value) if math.isfinite(value) else value
        return rounding(value)

    return numeric(call)


def text_of(function: Callable[[str], str], *, keeps: bool = False) -> Callable[[Value], Value]:
    def call(a: Value) -> Value:
        if not isinstance(a, Text) or (a.language and not keeps):
            return None
        return Text(function(a.text), a.language)

    return call


def part(function: Callable[[datetime], int]) -> Callable[[Value], Value]:
    def call(a: Value) -> Value:
        if not isinstance(a, Time):
            return None
        return Number("integer", function(datetime(1, 1, 1) + timedelta(microseconds=a.local)))

    return call


def seconds(a: Value) -> Value:
    return Number("decimal", Fraction(a.local % 60_000_000, 1_000_000)) if isinstance(a, Time) else None


def zone(a: Value) -> Value:
    if not isinstance(a, Time):
        return None
    found = re.search(r"Z|[+-]\d\d:\d\d$", a.term.value)
    return Text(found.group() if found else "")


def digest(name: str) -> Callable[[Value], Value]:
    return text_of(lambda text: hashlib.new(name, text.encode()).hexdigest())


SINGLES: dict[str, Callable[[Value], Value]] = {
    "!": lambda a: negated(ebv(a)),
    "UNARY-": numeric(lambda x: -x),
    "UNARY+": numeric(lambda x: x),
    "ABS": numeric(abs),
    "CEIL": whole(math.ceil),
    "FLOOR": whole(math.floor),
    "ROUND": whole(lambda x: math.floor(x + Fraction(1, 2))),
    "ISIRI": lambda a: None if a is None else isinstance(a, NamedNode),
    "ISBLANK": lambda a: None if a is None else isinstance(a, BlankNode),
    "ISLITERAL": lambda a: None if a is None else not isinstance(a, NamedNode | BlankNode),
    "ISNUMERIC": lambda a: None if a is None else isinstance(a, Number),
    "STRLEN": lambda a: Number("integer", len(a.text)) if isinstance(a, Text) else None,
    "UCASE": text_of(str.upper, keeps=True),
    "LCASE": text_of(str.lower, keeps=True),
    "ENCODE_FOR_URI": lambda a: Text(quote(a.text, safe="-_.~")) if isinstance(a, Text) else None,
    "YEAR": part(lambda d: d.year),
    "MONTH": part(lambda d: d.month),
    "DAY": part(lambda d: d.day),
    "HOURS": part(lambda d: d.hour),
    "MINUTES": part(lambda d: d.minute),
    "SECONDS": seconds,
    "TZ": zone,
    **{name.upper(): digest(name) for name in ("md5", "sha1", "sha256", "sha384", "sha512")},
}


# --- casts (17.5) --------------------------------------------------------------------------------


def cast(name: str) -> Callable[[Value], Value]:
    """The constructor function; white space around numbers, booleans and dateTimes is no part of them."""

    def call(a: Value) -> Value:
        if isinstance(a, Text) and not a.language:
            if name == "string":
                return a
            text = a.text.strip(" \t\r\n")
            if name == "boolean":
                return {"true": True, "1": True, "false": False, "0": False}.get(text)
            if name == "dateTime":
                return time(text, Literal(text))
            return _read_any(text, name)
        if name == "dateTime":
            return a if isinstance(a, Time) else None
        if name == "string":
            return _string(a)
        if isinstance(a, bool):
            return a if name == "boolean" else number(name, _as(name, Number("integer", int(a))))
        if not isinstance(a, Number):
            return None
        if name == "boolean":
            return bool(a.value) and a.value == a.value
        if name in ("float", "double"):
            return number(name, _as(name, a))
        if isinstance(a.value, float) and not math.isfinite(a.value):
            return None
        return number(name, int(a.value) if name == "integer" else _nearest(a.value))

    return call


def _nearest(value: Any) -> Fraction:
    """Of two that are equally near the one nearer to zero (XPath 19.1.2.3)."""
    scaled = math.ceil(abs(Fraction(value)) * ONE - Fraction(1, 2))
    return Fraction(scaled if value >= 0 else -scaled, ONE)


def _read_any(text: str, kind: str) -> Number | None:
    if kind == "decimal" and re.fullmatch(r"[+-]?(\d+(\.\d*)?|\.\d+)", text, re.ASCII):
        return number(kind, Fraction(text))
    return read(text, kind)


def _string(a: Value) -> Value:
    """As XPath writes values: doubles from a million on with an exponent."""
    match a:
        case bool():
            return Text("true" if a else "false")
        case NamedNode():
            return Text(a.value)
        case Number("integer", x):
            return Text(str(x))
        case Number("decimal", x):
            digits = f"{abs(int(x * ONE)):019d}"
            shown = f"{digits[:-18]}.{digits[-18:]}".rstrip("0").rstrip(".")
            return Text("-" + shown if x < 0 else shown)
        case Number(kind, x):
            return Text(_double(x, kind))
        case Time(_, _, term):
            return Text(term.value)
    return None


def _double(x: float, kind: str) -> str:
    if not math.isfinite(x):
        return "NaN" if x != x else "INF" if x > 0 else "-INF"
    digits = next(each for n in range(1, 18) if _reads(each := f"{x:.{n - 1}e}", x, kind))
    mantissa, exponent = digits.split("e")
    if x == 0 or 1e-6 <= abs(x) < 1e6:
        shown = str(Fraction(digits)) if Fraction(digits).denominator == 1 else _plain(Fraction(digits))
        return "-0" if x == 0 and math.copysign(1, x) < 0 else shown
    mantissa = mantissa if "." in mantissa else mantissa + ".0"
    return f"{mantissa}E{int(exponent)}"


def _plain(x: Fraction) -> str:
    scaled = f"{abs(int(x * 10**30)):031d}"
    return ("-" if x < 0 else "") + f"{scaled[:-30]}.{scaled[-30:]}".rstrip("0")


def _reads(text: str, x: float, kind: str) -> bool:
    return (single(float(text)) if kind == "float" else float(text)) == x


ON_TERMS: dict[str, Callable[[Any], Any]] = {
    "STR": lambda term: None if term is None else Literal(term.value),
    "LANG": lambda term: Literal(term.language or "") if isinstance(term, Literal) else None,
    "DATATYPE": lambda term: term.datatype if isinstance(term, Literal) else None,
}
CASTS = {name: cast(name) for name in (*RANKS, "boolean", "string", "dateTime")}


def same(a: Value, b: Value) -> bool:
    """The same result, NaN and the sign of zero included; dateTimes by their moment and zone."""
    if isinstance(a, Number):
        return a.same(b)
    if isinstance(a, Time) and isinstance(b, Time):
        return (a.local, a.zone) == (b.local, b.zone)
    return type(a) is type(b) and a == b
