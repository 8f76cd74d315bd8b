"""GROUP BY with aggregates (SPARQL 1.1, sections 11 and 18.5.1)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyoxigraph import Literal

from quadrill.store.errors import UnsupportedError

from ..algebra.nodes import Aggregate, Call, Constant, Expr, Group, Var
from ..algebra.set_functions import NotNumericError, numeric_value
from ..expressions.values import value_of
from . import expressions
from .frames import Frame, quoted

_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
_COMPARISONS = ("=", "!=", "<", ">", "<=", ">=")


def group(node: Group, frame: Frame, having: Sequence[Expr]) -> Frame:
    """Group a frame and compute its aggregates.

    Args:
        node: the GROUP BY node, in which each aggregate's argument is a variable or missing.
        frame: the solutions to group.
        having: HAVING conditions that compare a count with a number; see `decides`.
    """
    from pyspark.sql import functions as f

    keys = [key.name for key in node.keys]
    for name in (*keys, *(each.expr.name for _, each in node.aggregates if isinstance(each.expr, Var))):
        if name not in frame.names:
            frame = frame.with_column(name, f.lit(None).cast("string"))
    data, grouped = frame.data, frame.data.groupBy(*map(quoted, keys))
    columns = [_column(var.name, aggregate, frame) for var, aggregate in node.aggregates]
    if columns:
        data = grouped.agg(*columns)
    elif keys:
        data = data.select(*map(quoted, keys)).distinct()
    else:
        data = data.agg(f.count(f.lit(1)).alias("n")).select()
    counts = [var.name for var, aggregate in node.aggregates if aggregate.name == "COUNT"]
    for condition in having:
        data = data.where(_having(condition))
    shown = [
        f.concat(f.lit('"'), f.col(quoted(name)), f.lit(f'"^^<{_INTEGER}>')).alias(name)
        if name in counts
        else f.col(quoted(name))
        for name in data.columns
    ]
    kept = frozenset(keys)
    rows = min(frame.rows, _product(frame, keys))
    return Frame(
        data.select(*shown), (frame.certain & kept) | frozenset(counts), frame.nodes & kept, rows, {}
    )


def decides(expr: Expr, node: Group) -> bool:
    """Return True if an expression compares a COUNT of the group with an integer, as Spark can do exactly."""
    counts = {var.name for var, aggregate in node.aggregates if aggregate.name == "COUNT"}
    match expr:
        case Call(name, (Var(counted), Constant(Literal() as literal))):
            value = value_of(literal)
            return name in _COMPARISONS and counted in counts and type(value) is int and abs(value) < 2**62
        case _:
            return False


def _having(expr: Expr) -> Any:
    from pyspark.sql import functions as f

    match expr:
        case Call(name, (Var(counted), Constant(Literal() as literal))):
            return f.expr(f"{quoted(counted)} {name} {int(literal.value)}L")
        case _:
            raise AssertionError(expr)


def _column(name: str, aggregate: Aggregate, frame: Frame) -> Any:
    from pyspark.sql import functions as f

    expr = aggregate.expr
    if expr is None:
        if not aggregate.distinct:
            return f.count(f.lit(1)).alias(name)
        visible = [each for each in frame.names if not each.startswith("_:")]
        return f.countDistinct(f.struct(f.lit(0), *map(quoted, visible))).alias(name)
    assert isinstance(expr, Var)
    column = f.col(quoted(expr.name))
    if aggregate.name == "COUNT":
        return (f.countDistinct(column) if aggregate.distinct else f.count(column)).alias(name)
    failed = f.count(f.lit(1)) > f.count(column)
    values = f.collect_set(column) if aggregate.distinct else f.collect_list(column)
    return expressions.set_value(
        aggregate.name, aggregate.separator, _percentile(aggregate), values, failed
    ).alias(name)


def _percentile(aggregate: Aggregate) -> float | None:
    if aggregate.name != "PERCENTILE":
        return None
    if not isinstance(aggregate.parameter, Constant):
        raise UnsupportedError("PERCENTILE of a percentile that is not constant")
    try:
        return float(numeric_value(aggregate.parameter.term)[0])
    except NotNumericError as error:
        raise UnsupportedError("PERCENTILE of a percentile that is not a number") from error


def _product(frame: Frame, keys: Sequence[str]) -> float:
    result = 1.0
    for key in keys:
        result *= frame.distinct.get(key, frame.rows)
    return result
