"""Arithmetic and comparison of values; numbers of different types are promoted to a common type."""

from __future__ import annotations

import math
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from .oxigraph import ask
from .values import (
    DECIMAL_LIMIT,
    DECIMAL_ONE,
    INTEGER_LIMIT,
    XSD,
    ComparableTime,
    Decimal18,
    Float32,
    Maybe,
    Value,
    double_of_decimal,
    single_of_integer,
    to_single,
    value_of,
)

_NUMERIC = (int, Decimal18, float, Float32)
_INT = int
_HALF = DECIMAL_ONE // 2


def add(a: Any, b: Any) -> Maybe:
    """``a + b``."""
    kind, other = type(a), type(b)
    if kind is Decimal18 and (other is Decimal18 or other is int):
        return _decimal(a + (b if other is Decimal18 else b * DECIMAL_ONE))
    if kind is not other or kind not in _FAST:
        return _promoted("+", a, b)
    return a + b if kind is float else _checked(kind, a + b)


def subtract(a: Any, b: Any) -> Maybe:
    """``a - b``."""
    kind, other = type(a), type(b)
    if kind is Decimal18 and (other is Decimal18 or other is int):
        return _decimal(a - (b if other is Decimal18 else b * DECIMAL_ONE))
    if kind is not other or kind not in _FAST:
        return _promoted("-", a, b)
    return a - b if kind is float else _checked(kind, a - b)


def multiply(a: Any, b: Any) -> Maybe:
    """``a * b``; the product of decimals has 18 places, and further digits are cut off."""
    kind = type(a)
    if kind is Decimal18 and type(b) is int:
        return _decimal(a * b)
    if kind is not type(b) or kind not in _FAST:
        return _promoted("*", a, b)
    if kind is float:
        return float(a * b)
    if kind is int:
        return _checked(int, a * b)
    return _cut(int(a) * int(b), DECIMAL_ONE)


def divide(a: Any, b: Any) -> Maybe:
    """``a / b``; two integers give a decimal with 18 places, further digits are cut off."""
    kind = type(a)
    if kind is Decimal18 and type(b) is int:
        return _cut(a, b)
    if kind is not type(b) or kind not in _FAST:
        return _promoted("/", a, b)
    if kind is float:
        return _float_quotient(a, b)
    return _cut(a * DECIMAL_ONE, b)


def negate(a: Maybe) -> Maybe:
    """Unary minus."""
    kind = type(a)
    if kind is float:
        return -a  # type: ignore[operator]
    if kind is Float32:
        return Float32(-a)  # type: ignore[operator]
    if kind is int or kind is Decimal18:
        return _checked(kind, -int(a))  # type: ignore[arg-type]
    return None if a is None or kind in (str, bool) else ask("-", a)


def plus(a: Maybe) -> Maybe:
    """Unary plus."""
    kind = type(a)
    if kind in _NUMERIC:
        return a
    return None if a is None or kind in (str, bool) else ask("+", a)


def absolute(a: Maybe) -> Maybe:
    """ABS."""
    kind = type(a)
    if kind is int or kind is Decimal18:
        return _checked(kind, abs(int(a)))  # type: ignore[arg-type]
    if kind is float or kind is Float32:
        return kind(abs(a))  # type: ignore[arg-type]
    return None


def ceiling(a: Maybe) -> Maybe:
    """CEIL."""
    kind = type(a)
    if kind is Decimal18:
        return _checked(kind, -(-int(a) // DECIMAL_ONE) * DECIMAL_ONE)  # type: ignore[arg-type]
    if kind is float or kind is Float32:
        return kind(_signed(math.ceil, a))  # type: ignore[arg-type]
    return a if kind is int else None


def floor(a: Maybe) -> Maybe:
    """FLOOR."""
    kind = type(a)
    if kind is Decimal18:
        return _checked(kind, int(a) // DECIMAL_ONE * DECIMAL_ONE)  # type: ignore[arg-type]
    if kind is float or kind is Float32:
        return kind(_signed(math.floor, a))  # type: ignore[arg-type]
    return a if kind is int else None


def round_half_up(a: Maybe) -> Maybe:
    """ROUND: halves are rounded towards positive infinity."""
    kind = type(a)
    if kind is Decimal18:
        return _checked(kind, (int(a) + _HALF) // DECIMAL_ONE * DECIMAL_ONE)  # type: ignore[arg-type]
    if kind is float or kind is Float32:
        return ask("ROUND", a)  # type: ignore[arg-type]
    return a if kind is int else None


def to_integer(a: Maybe) -> Maybe:
    """xsd:integer(): the fraction of a number is cut off."""
    if isinstance(a, float):
        return _checked(int, int(a)) if math.isfinite(a) else None
    return None if a is None else ask(f"<{XSD}integer>", a)


def to_decimal(a: Maybe) -> Maybe:
    """xsd:decimal(): a float or double becomes the nearest decimal of 18 places.

    A tie in the conversion to xsd:decimal is rounded towards zero.
    """
    if not isinstance(a, float):
        return None if a is None else ask(f"<{XSD}decimal>", a)
    if not math.isfinite(a):
        return None
    dividend, divisor = abs(a).as_integer_ratio()
    scaled = -((divisor - 2 * dividend * DECIMAL_ONE) // (2 * divisor))
    return _decimal(scaled if a >= 0 else -scaled)


def as_float(value: int | float) -> float:
    """Convert a numeric value to a double."""
    kind = type(value)
    if kind is Decimal18:
        return double_of_decimal(int(value))
    return float(value)


def as_single(value: int | float) -> Float32:
    """Convert a numeric value to a single precision number."""
    kind = type(value)
    if kind is Float32:
        return value  # type: ignore[return-value]
    if kind is int:
        return single_of_integer(value)  # type: ignore[arg-type]
    return to_single(as_float(value))


def is_numeric(value: Maybe) -> bool:
    """Return True if a value is an integer, decimal, float or double."""
    return type(value) in _NUMERIC


def common(a: int | float, b: int | float) -> tuple[int | float, int | float]:
    """Promote two numbers to their smallest common type: integer < decimal < float < double."""
    kinds = (type(a), type(b))
    if float in kinds:
        return as_float(a), as_float(b)
    if Float32 in kinds:
        return as_single(a), as_single(b)
    if Decimal18 in kinds:
        return _as_decimal(a), _as_decimal(b)
    return a, b


_FAST = (int, Decimal18, float)


def _promoted(operator: str, a: Maybe, b: Maybe) -> Maybe:
    kind, other = type(a), type(b)
    if kind not in _NUMERIC or other not in _NUMERIC:
        if a is None or b is None or kind in _NEVER or other in _NEVER:
            return None
        if operator == "+" and _is_moment(b) and not _is_moment(a):
            a, b = b, a  # Oxigraph computes time + duration, but not duration + time.
        return ask(operator, a, b)
    a, b = common(a, b)  # type: ignore[arg-type]
    if type(a) is Float32:
        result = {"+": add, "-": subtract, "*": multiply, "/": divide}[operator](float(a), float(b))
        return to_single(result)  # type: ignore[arg-type]
    return {"+": add, "-": subtract, "*": multiply, "/": divide}[operator](a, b)


_NEVER = (str, bool)


def _is_moment(value: Maybe) -> bool:
    return type(value) is ComparableTime


def _as_decimal(value: int | float) -> Decimal18:
    return value if isinstance(value, Decimal18) else Decimal18(value * DECIMAL_ONE)


def _checked(kind: type, result: Any) -> Maybe:
    if kind is _INT:
        return result if -INTEGER_LIMIT <= result < INTEGER_LIMIT else None
    return Decimal18(result) if -DECIMAL_LIMIT <= result < DECIMAL_LIMIT else None


def _decimal(scaled: int) -> Maybe:
    return Decimal18(scaled) if -DECIMAL_LIMIT <= scaled < DECIMAL_LIMIT else None


def _cut(dividend: int, divisor: int) -> Maybe:
    """Return a quotient that is already scaled by 10^18 as a decimal, rounded towards zero.

    Returns None for a division by zero and for a decimal out of range.
    """
    if not divisor:
        return None
    same = (dividend < 0) == (divisor < 0)
    return _decimal(dividend // divisor if same else -(-dividend // divisor))


def _float_quotient(a: float, b: float) -> float:
    if b:
        return a / b
    if a != a or a == 0 or b != b:
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def _signed(rounding: object, number: float) -> float:
    if not math.isfinite(number):
        return float(number)
    return math.copysign(float(rounding(number)), number)  # type: ignore[operator]


def ebv(value: Maybe) -> bool | None:
    """Return the effective boolean value of a value, or None for a type error."""
    kind = type(value)
    if kind is bool:
        return value  # type: ignore[return-value]
    if kind is str:
        return bool(value)
    if is_numeric(value):
        return value == value and bool(value)
    return None


def equals(a: Maybe, b: Maybe) -> bool | None:
    """``a = b``."""
    kind, other = type(a), type(b)
    if kind is other and kind in _PLAIN:
        return a == b
    if a is None or b is None:
        return None
    if is_numeric(a) and is_numeric(b):
        left, right = common(a, b)  # type: ignore[arg-type]
        return left == right
    if kind is ComparableTime and other is ComparableTime and _aligned(a, b):
        return a.instant == b.instant  # type: ignore[union-attr]
    if kind in _NODES or other in _NODES:
        return kind is other and a == b
    if kind is Triple or other is Triple:
        return _same_triple(a, b)
    if kind in _OPAQUE or other in _OPAQUE:
        return ask("=", a, b)  # type: ignore[return-value]
    return False


def differs(a: Maybe, b: Maybe) -> bool | None:
    """``a != b``."""
    same = equals(a, b)
    return None if same is None else not same


def less(a: Maybe, b: Maybe) -> bool | None:
    """``a < b``."""
    kind = type(a)
    if kind is Decimal18 and type(b) is int:
        return a < b * DECIMAL_ONE  # type: ignore[operator]
    if kind is int and type(b) is Decimal18:
        return a * DECIMAL_ONE < b  # type: ignore[operator]
    if kind is type(b) and kind in _ORDERED:
        return a < b if a == a and b == b else _not_a_number(a, b, False)  # type: ignore[operator]
    return _ordered("<", a, b)


def less_or_equal(a: Maybe, b: Maybe) -> bool | None:
    """``a <= b``."""
    kind = type(a)
    if kind is type(b) and kind in _ORDERED:
        return a <= b if a == a and b == b else _not_a_number(a, b, True)  # type: ignore[operator]
    return _ordered("<=", a, b)


def greater(a: Maybe, b: Maybe) -> bool | None:
    """``a > b``."""
    return less(b, a)


def greater_or_equal(a: Maybe, b: Maybe) -> bool | None:
    """``a >= b``."""
    return less_or_equal(b, a)


_PLAIN = (int, str, Decimal18, float, bool, Float32, NamedNode, BlankNode)
_ORDERED = (int, float, str, Decimal18, Float32)
_NODES = (NamedNode, BlankNode)
_UNORDERED = (NamedNode, BlankNode)
_OPAQUE = (Literal, ComparableTime)


def _not_a_number(a: Any, b: Any, same: bool) -> bool | None:
    """Compare two numbers of which one is NaN, as Oxigraph does.

    Oxigraph compares terms first, so two NaN of one type are equal.
    """
    return same if a != a and b != b else None


def _same_triple(a: Value, b: Value) -> bool | None:
    """Compare two triple terms by the terms of subject and predicate, and by the value of the object."""
    if not isinstance(a, Triple) or not isinstance(b, Triple):
        return False
    if a.subject != b.subject or a.predicate != b.predicate:
        return False
    return equals(value_of(a.object), value_of(b.object))


def _aligned(a: Value, b: Value) -> bool:
    return (
        isinstance(a, ComparableTime)
        and isinstance(b, ComparableTime)
        and a.kind == b.kind
        and a.zoned == b.zoned
    )


def _ordered(operator: str, a: Maybe, b: Maybe) -> bool | None:
    if a is None or b is None:
        return None
    if is_numeric(a) and is_numeric(b):
        left, right = common(a, b)  # type: ignore[arg-type]
        if left != left or right != right:
            return None
        return left < right if operator == "<" else left <= right
    if isinstance(a, ComparableTime) and isinstance(b, ComparableTime) and _aligned(a, b):
        return a.instant < b.instant if operator == "<" else a.instant <= b.instant
    if type(a) in _UNORDERED or type(b) in _UNORDERED:
        return operator == "<=" if type(a) is type(b) and a == b else None
    return ask(operator, a, b)  # type: ignore[return-value]
