"""The set functions of SPARQL 1.1 section 18.5.1 and statistical ones, each with one defined result.

An error or an unbound value makes SUM, AVG, MIN, MAX, GROUP_CONCAT and the statistical functions an error
(unbound); SAMPLE and COUNT pass over it. For an empty group, SUM and AVG are 0, GROUP_CONCAT is the empty
string, and other set functions have no value. Sums of doubles are correctly rounded (`math.fsum`), those of
integers and decimals exact, and a mean is the sum divided by the number of values; a quotient of decimals
keeps 18 digits after the point and an integer 64 bits, as in the store. SAMPLE returns the least term, and
GROUP_CONCAT concatenates in term order. Set functions write numbers as the store does: shortest digits, never
an exponent.

MEDIAN is the middle value in value order, or the mean of the two middle ones; PERCENTILE with parameter p
interpolates linearly at rank p/100 * (n - 1), so that PERCENTILE 50 equals MEDIAN. VARIANCE and STDDEV
are computed as those of a sample (divisor n - 1), as doubles; for a single value both are errors.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_DOWN, Context, Decimal, localcontext
from fractions import Fraction

from pyoxigraph import Literal, NamedNode

from quadrill.store.errors import QueryTextError

from .nodes import Aggregate, Constant, Expr, Term
from .order import FLOAT_TYPES, INTEGER_TYPES, NUMERIC_TYPES, XSD, total_key


def double_text(number: float) -> str:
    """Return a double as text as Oxigraph prints it: the shortest digits that parse back, no exponent."""
    if number != number:
        return "NaN"
    if number in (float("inf"), float("-inf")):
        return "INF" if number > 0 else "-INF"
    if 2.0**49 <= abs(number) < 2.0**51 and abs(number) % 0.5 == 0.25:
        # If two decimal texts of a double are equally near and short, Rust prints the larger one and Python's
        # repr the one with an even digit.
        return f"{int(number)}.{3 if abs(number) % 1 == 0.25 else 8}"
    return _without_exponent(repr(number))


def single_text(number: float) -> str:
    """Return a single-precision number as Oxigraph prints it: the nearest of the shortest decimal texts."""
    if not number or not math.isfinite(number):
        return double_text(float(number))
    size = Decimal(abs(float(number)))
    sign = "-" if number < 0 else ""
    for digits in range(1, 10):
        unit = Decimal((0, (1,), size.adjusted() - digits + 1))
        below = size // unit * unit
        for candidate in sorted((below + unit, below), key=lambda text: abs(text - size)):
            if _single(float(candidate)) == abs(number):
                return sign + _without_exponent(repr(float(candidate)))
    raise AssertionError(f"nine digits always identify a single precision number, here {number!r}")


def _without_exponent(text: str) -> str:
    sign = "-" if text.startswith("-") else ""
    mantissa, _, exponent = text.lstrip("-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = (whole + fraction).rstrip("0") if point < len(whole + fraction) else whole + fraction
    if point <= 0:
        return f"{sign}0.{'0' * -point}{digits}" if digits.strip("0") else f"{sign}0"
    digits = digits.ljust(point, "0")
    rest = digits[point:].rstrip("0")
    return f"{sign}{digits[:point]}" + (f".{rest}" if rest else "")


NATIVE = frozenset(("COUNT",))
"""Set functions whose result SPARQL defines completely, so that the store's own implementation is used."""

STATISTICAL = frozenset(("MEDIAN", "STDDEV", "VARIANCE", "PERCENTILE"))
"""The statistical set functions, which SPARQL does not have."""

AGGREGATE_NAMESPACE = "urn:quadrill:aggregate:"
"""Prefix of the IRIs of ``median``, ``stddev``, ``variance`` and ``percentile:<0 to 100>`` in plain
SPARQL."""

# The call ``…percentile:95(e)`` in plain SPARQL is PERCENTILE(e, 95), because custom aggregates of Oxigraph
# take one argument.
PERCENTILE_IRI = re.compile(re.escape(AGGREGATE_NAMESPACE) + r"percentile:([0-9]+|[0-9]+\.[0-9]+)")


def aggregate_iri(aggregate: Aggregate) -> tuple[NamedNode, Expr | None]:
    """Return the IRI of a statistical set function, and its parameter unless the IRI contains it."""
    match aggregate.parameter:
        case Constant(Literal() as number):
            iri = f"{AGGREGATE_NAMESPACE}percentile:{number.value}"
            kind = _DECIMAL if "." in number.value else _INTEGER
            if number.datatype == kind and PERCENTILE_IRI.fullmatch(iri) is not None:
                return NamedNode(iri), None
    return NamedNode(AGGREGATE_NAMESPACE + aggregate.name.lower()), aggregate.parameter


_INTEGER, _DECIMAL, _FLOAT, _DOUBLE = (
    NamedNode(XSD + name) for name in ("integer", "decimal", "float", "double")
)
_PRECISE = Context(prec=120)
_MAX_INTEGER = 2**63 - 1
_MAX_DECIMAL = Decimal(2**127 - 1).scaleb(-18)
_QUANTUM = Decimal(1).scaleb(-18)

Number = int | Decimal | float


class NotNumericError(ValueError):
    """A value that a numeric set function cannot take, or a result out of the range of its type."""


@dataclass(frozen=True, slots=True)
class SetFunction:
    """The definition of a set function (aggregate function).

    Attributes:
        value: computes the result over all bound values of a group, without duplicates for DISTINCT; None is
            an error. GROUP_CONCAT takes a ``separator``, PERCENTILE a ``parameter``.
        passes_over_errors: True if an error among the values does not make the result an error.
    """

    value: Callable[..., Term | None]
    passes_over_errors: bool = False


def set_function(
    name: str,
    values: Sequence[Term],
    *,
    separator: str | None = None,
    parameter: float | None = None,
) -> Term | None:
    """Return the result of a set function over a multiset of bound values; None for an error.

    For a set function with DISTINCT, the caller has removed duplicates from ``values``. The argument
    ``parameter`` is the percentile of the set function PERCENTILE.
    """
    given = {"separator": separator, "parameter": parameter}
    try:
        options = {key: value for key, value in given.items() if value is not None}
        return FUNCTIONS[name].value(values, **options)
    except NotNumericError:
        return None


def numeric_value(term: Term) -> tuple[Number, NamedNode]:
    """Return the value of a numeric literal and its promoted type: integer, decimal, float or double."""
    if isinstance(term, Literal):
        datatype = term.datatype.value
        try:
            if datatype in INTEGER_TYPES:
                return int(term.value), _INTEGER
            if datatype in FLOAT_TYPES:
                number = float(term.value.replace("INF", "inf"))
                return (number, _DOUBLE) if datatype.endswith("double") else (_single(number), _FLOAT)
            if datatype in NUMERIC_TYPES:
                return Decimal(term.value), _DECIMAL
        except (ArithmeticError, ValueError) as error:
            raise NotNumericError(str(error)) from error
    raise NotNumericError(f"{term} is not a number")


def _single(number: float) -> float:
    """Return a number rounded to single precision, as values of xsd:float are."""
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def promoted(values: Sequence[Term]) -> tuple[list[Number], NamedNode]:
    """Return the values in the widest type among them (XPath numeric type promotion)."""
    pairs = [numeric_value(term) for term in values]
    types = {datatype for _, datatype in pairs}
    for widest in (_DOUBLE, _FLOAT):
        if widest in types:
            return [float(number) for number, _ in pairs], widest
    if _DECIMAL in types:
        return [Decimal(number) for number, _ in pairs], _DECIMAL
    return [number for number, _ in pairs], _INTEGER


def number_literal(value: Number, datatype: NamedNode) -> Literal:
    """Return a number's canonical literal; raise NotNumericError if it is out of its type's range."""
    if datatype == _INTEGER:
        if not -_MAX_INTEGER - 1 <= value <= _MAX_INTEGER:
            raise NotNumericError(f"integer {value} is beyond 64 bits")
        return Literal(str(value), datatype=_INTEGER)
    if datatype == _DECIMAL:
        decimal = Decimal(value)
        if abs(decimal) > _MAX_DECIMAL:
            raise NotNumericError(f"decimal {value} is out of range")
        text = f"{decimal.normalize(_PRECISE):f}"
        return Literal("0" if text == "-0" else text, datatype=_DECIMAL)
    number = float(value)
    text = single_text(_single(number)) if datatype == _FLOAT else double_text(number)
    return Literal(text, datatype=datatype)


def _double(value: float) -> Literal:
    return number_literal(value, _DOUBLE)


def float_sum(values: Sequence[float]) -> float:
    """Return the correctly rounded sum of doubles; infinities and NaN are those of IEEE 754.

    An overflow of a sum of doubles is an infinity.
    """
    try:
        return math.fsum(values)
    except ValueError:
        return math.nan
    except OverflowError:
        exact = sum(map(Fraction, values))
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def _total(numbers: Sequence[Number], datatype: NamedNode) -> Number:
    if datatype in (_DOUBLE, _FLOAT):
        return float_sum([float(number) for number in numbers])
    if datatype == _DECIMAL:
        with localcontext(_PRECISE):
            return sum((Decimal(number) for number in numbers), Decimal(0))
    return sum(int(number) for number in numbers)


def _quotient(dividend: Number, divisor: int) -> Decimal:
    with localcontext(_PRECISE):
        return (Decimal(dividend) / divisor).quantize(_QUANTUM, rounding=ROUND_DOWN)


def _least(values: Sequence[Term]) -> Term | None:
    return min(values, key=total_key) if values else None


def _greatest(values: Sequence[Term]) -> Term | None:
    return max(values, key=total_key) if values else None


def _sum(values: Sequence[Term]) -> Literal:
    numbers, datatype = promoted(values)
    return number_literal(_total(numbers, datatype), datatype)


def _average(values: Sequence[Term]) -> Literal:
    if not values:
        return Literal("0", datatype=_INTEGER)
    numbers, datatype = promoted(values)
    return _mean_literal(numbers, datatype)


def _mean_literal(numbers: Sequence[Number], datatype: NamedNode) -> Literal:
    if datatype in (_DOUBLE, _FLOAT):
        return number_literal(float(_total(numbers, datatype)) / len(numbers), datatype)
    return number_literal(_quotient(_total(numbers, datatype), len(numbers)), _DECIMAL)


def _group_concat(values: Sequence[Term], separator: str = " ") -> Literal:
    """Concatenate strings with the typing of CONCAT: a language tag is kept if all values share it."""
    ordered = sorted(values, key=total_key)
    languages = set()
    for term in ordered:
        if not isinstance(term, Literal) or (term.language is None and term.datatype.value != XSD + "string"):
            raise NotNumericError(f"{term} is not a string")
        languages.add((term.language, term.direction))
    text = separator.join(term.value for term in ordered if isinstance(term, Literal))
    if len(languages) == 1:
        language, direction = languages.pop()
        if language is not None:
            return Literal(text, language=language, direction=direction)
    return Literal(text)


def _percentile(values: Sequence[Term], parameter: float = 50.0) -> Term | None:
    """Interpolate linearly between the values next to PERCENTILE's rank; a whole rank returns its value."""
    if not values or not 0 <= parameter <= 100:
        return None
    promoted(values)
    ordered = sorted(values, key=total_key)
    rank = Decimal(str(parameter)) * (len(ordered) - 1) / 100
    below = int(rank)
    share = rank - below
    if not share:
        return ordered[below]
    numbers, datatype = promoted(ordered[below : below + 2])
    low, high = numbers
    if datatype in (_DOUBLE, _FLOAT):
        low, high = float(low), float(high)
        if share == Decimal("0.5"):
            return number_literal(float_sum([low, high]) / 2, datatype)
        return number_literal(low + (high - low) * float(share), datatype)
    with localcontext(_PRECISE):
        between = Decimal(low) + (Decimal(high) - Decimal(low)) * share
        return number_literal(between.quantize(_QUANTUM, rounding=ROUND_DOWN), _DECIMAL)


def _variance(values: Sequence[Term]) -> float:
    if len(values) < 2:
        raise NotNumericError("the variance of a sample needs two values")
    numbers, datatype = promoted(values)
    if datatype in (_DOUBLE, _FLOAT):
        mean = float_sum([float(number) for number in numbers]) / len(numbers)
        return float_sum([(float(number) - mean) ** 2 for number in numbers]) / (len(numbers) - 1)
    with localcontext(_PRECISE):
        exact = [Decimal(number) for number in numbers]
        centre = sum(exact, Decimal(0)) / len(exact)
        return float(sum(((each - centre) ** 2 for each in exact), Decimal(0)) / (len(exact) - 1))


FUNCTIONS: dict[str, SetFunction] = {
    "SUM": SetFunction(_sum),
    "AVG": SetFunction(_average),
    "MIN": SetFunction(_least),
    "MAX": SetFunction(_greatest),
    "SAMPLE": SetFunction(_least, passes_over_errors=True),
    "GROUP_CONCAT": SetFunction(_group_concat),
    "MEDIAN": SetFunction(_percentile),
    "PERCENTILE": SetFunction(_percentile),
    "VARIANCE": SetFunction(lambda values: _double(_variance(values))),
    "STDDEV": SetFunction(lambda values: _double(math.sqrt(_variance(values)))),
}
"""The set functions except COUNT, which the store and every engine compute themselves.

The name of an extension's aggregate is its IRI in angle brackets
(`quadrill.continuous.expressions.aggregates`).
"""
STANDARD = frozenset(FUNCTIONS)
"""The names of the built-in set functions (aggregates)."""


class CustomAccumulator:
    """Accumulates the values of one group for a set function, as Oxigraph's custom aggregates do."""

    def __init__(
        self,
        name: str,
        *,
        distinct: bool,
        separator: str | None = None,
        parameter: float | None = None,
        skip: Term | None = None,
        take_text: Callable[[int], bool] | None = None,
    ) -> None:
        """Create an accumulator; ``take_text`` gets the text length so far and returns False to stop."""
        self._name = name
        self._distinct = distinct
        self._separator = separator
        self._parameter = parameter
        self._skip = skip
        self._values: list[Term] = []
        self._distinct_values: set[Term] = set()
        self._take_text = take_text
        self._size = -len(" " if separator is None else separator)

    def accumulate(self, term: Term) -> None:
        """Add one value of the group; Oxigraph stops at the first error, and the result is unbound."""
        if term == self._skip:
            return
        if self._distinct:
            if term in self._distinct_values:
                return
            self._distinct_values.add(term)
        if self._take_text is not None and isinstance(term, Literal):
            self._size += len(term.value) + len(" " if self._separator is None else self._separator)
            if not self._take_text(self._size):
                self._values.clear()
                return
        self._values.append(term)

    def finish(self) -> Term | None:
        """Return the set function's result for the group; Oxigraph calls this after the last value."""
        return set_function(self._name, self._values, separator=self._separator, parameter=self._parameter)


def percentile_parameter(aggregate: Aggregate) -> float | None:
    """Return PERCENTILE's constant, and None for other functions.

    Raises:
        QueryTextError: the constant is not a number from 0 to 100.
    """
    if aggregate.name != "PERCENTILE":
        return None
    try:
        if not isinstance(aggregate.parameter, Constant):
            raise NotNumericError("the percentile must be a constant")
        value = float(numeric_value(aggregate.parameter.term)[0])
    except NotNumericError as error:
        raise QueryTextError(f"PERCENTILE: {error}", hint="write PERCENTILE(?x, 95)") from error
    if not 0 <= value <= 100:
        raise QueryTextError(f"PERCENTILE: the percentile must be between 0 and 100, is {value:g}")
    return value
