"""Effective boolean value, equality and order of values (sections 17.2.2, 17.3 and 17.4.1)."""

from __future__ import annotations

from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from .numeric import common, is_numeric
from .oxigraph import ask
from .values import DECIMAL_ONE, Decimal18, Float32, Maybe, Moment, Value, value_of


def ebv(value: Maybe) -> bool | None:
    """Effective boolean value, or None for a type error."""
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
    if kind is Moment and other is Moment and _aligned(a, b):
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
_OPAQUE = (Literal, Moment)


def _not_a_number(a: Any, b: Any, same: bool) -> bool | None:
    """Two NaN of one type are the same term, which Oxigraph lets decide before IEEE 754 does."""
    return same if a != a and b != b else None


def _same_triple(a: Value, b: Value) -> bool | None:
    """Subjects and predicates are the same terms, objects are equal."""
    if not isinstance(a, Triple) or not isinstance(b, Triple):
        return False
    if a.subject != b.subject or a.predicate != b.predicate:
        return False
    return equals(value_of(a.object), value_of(b.object))


def _aligned(a: Value, b: Value) -> bool:
    return isinstance(a, Moment) and isinstance(b, Moment) and a.kind == b.kind and a.zoned == b.zoned


def _ordered(operator: str, a: Maybe, b: Maybe) -> bool | None:
    if a is None or b is None:
        return None
    if is_numeric(a) and is_numeric(b):
        left, right = common(a, b)  # type: ignore[arg-type]
        if left != left or right != right:
            return None
        return left < right if operator == "<" else left <= right
    if isinstance(a, Moment) and isinstance(b, Moment) and _aligned(a, b):
        return a.instant < b.instant if operator == "<" else a.instant <= b.instant
    if type(a) in _UNORDERED or type(b) in _UNORDERED:
        return operator == "<=" if type(a) is type(b) and a == b else None
    return ask(operator, a, b)  # type: ignore[return-value]
