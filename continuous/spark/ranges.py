"""Comparisons of a variable with a constant number or time, evaluated on the mirror's typed columns.

    n   xsd:integer and xsd:decimal, exact        d   xsd:double        t   microseconds or days

A comparison that is an error for a value, such as a string with a number, drops the row just as false does.
Comparisons on typed columns are therefore exact unless the predicate has comparable objects without a typed
column, which the kinds of the predicate's objects show.
"""

from __future__ import annotations

from typing import Any

from pyoxigraph import Literal

from quadrill.store.bulk.typed import DATE, DATE_TIME, DECIMAL_LIMIT, moment_number

from ..algebra.nodes import Call, Constant, Expr, Var
from ..expressions.oxigraph import canonical
from ..expressions.values import DECIMAL_ONE, ComparableTime, Decimal18, Maybe, value_of

_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "=": "="}
_EXACT_IN_DOUBLE = 2**53
# Kinds of objects that are comparable with a number or with a time but are outside of the typed columns
# that such a comparison reads.
_OUTSIDE_NUMBERS = frozenset(("other",))
_OUTSIDE_TIMES = frozenset(("other", "dateTime", "date"))


def decides(expr: Expr, name: str, kinds: frozenset[str]) -> bool:
    """Return True if an expression compares ``?name`` with a constant exactly by the typed columns."""
    found = _comparison(expr)
    if found is None or found[1] != name:
        return False
    value = found[2]
    if isinstance(value, ComparableTime):
        own = _kind_of(value)
        return own is not None and not kinds & (_OUTSIDE_TIMES - {own})
    if kinds & _OUTSIDE_NUMBERS:
        return False
    if "double" in kinds:
        return type(value) is int and abs(value) <= _EXACT_IN_DOUBLE
    return True


def column(expr: Expr) -> Any:
    """Return a boolean column for a comparison over the typed columns; null for an error."""
    from pyspark.sql import functions as f

    found = _comparison(expr)
    assert found is not None
    operator, _, value = found
    if isinstance(value, ComparableTime):
        number = moment_number(value.term)
        assert number is not None
        own = f.col("kind") == _kind_of(value)
        return own & _compare(operator, f.col("t"), f.lit(number))
    exact = f.lit(_text(value)).cast("decimal(38,18)")
    exactly = _compare(operator, f.col("n"), exact)
    if type(value) is not int or abs(value) > _EXACT_IN_DOUBLE:
        return exactly
    return f.coalesce(exactly, _compare(operator, f.col("d"), f.lit(float(value))))


def _comparison(expr: Expr) -> tuple[str, str, Maybe] | None:
    """Return operator, variable and constant of a comparison of a variable with a constant, else None."""
    match expr:
        case Call(operator, (Var(name), Constant(Literal() as literal))) if operator in _FLIPPED:
            pass
        case Call(operator, (Constant(Literal() as literal), Var(name))) if operator in _FLIPPED:
            operator = _FLIPPED[operator]
        case _:
            return None
    value = value_of(canonical(literal))
    if type(value) is int or type(value) is Decimal18:
        scaled = value * DECIMAL_ONE if type(value) is int else int(value)
        return (operator, name, value) if abs(scaled) < DECIMAL_LIMIT * DECIMAL_ONE else None
    if (
        isinstance(value, ComparableTime)
        and _kind_of(value) is not None
        and moment_number(value.term) is not None
    ):
        return operator, name, value
    return None


def _kind_of(value: ComparableTime) -> str | None:
    if value.kind == "dateTime":
        return DATE_TIME if value.zoned else None
    return DATE if value.kind == "date" and not value.zoned else None


def _text(value: Any) -> str:
    if type(value) is int:
        return str(value)
    whole, fraction = divmod(abs(int(value)), DECIMAL_ONE)
    return f"{'-' if value < 0 else ''}{whole}.{fraction:018d}"


def _compare(operator: str, left: Any, right: Any) -> Any:
    match operator:
        case "=":
            return left == right
        case "<":
            return left < right
        case ">":
            return left > right
        case "<=":
            return left <= right
        case _:
            return left >= right
