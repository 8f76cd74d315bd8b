"""LIMIT and OFFSET: the first solutions in the order of ORDER BY, with ties broken by all columns.

Without ORDER BY, the projected columns alone determine the order (docs/semantics.md, section 1). The order of
the rows of a whole static part has no meaning.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..algebra.nodes import OrderCondition
from . import expressions
from .frames import Frame, quoted


def first(
    frame: Frame,
    conditions: Sequence[OrderCondition],
    columns: Sequence[str],
    offset: int,
    limit: int | None,
    base_iri: str | None,
) -> Frame:
    """Return at most ``limit`` solutions after the first ``offset`` solutions, with all variables.

    Args:
        frame: the solutions.
        conditions: the conditions of ORDER BY, without EXISTS.
        columns: the projected columns, which break ties.
        offset: the number of solutions to skip.
        limit: the maximum number of solutions; None for all.
        base_iri: the base IRI of the IRI() function in conditions.
    """
    from pyspark.sql import functions as f

    scope = expressions.scope_of(frame)
    data = frame.data
    order = []
    for place, condition in enumerate(conditions):
        name = f"{place}'order"
        key = expressions.order_key(expressions.value(condition.expr, scope, base_iri), total=False)
        data = data.withColumn(name, key)
        column = f.col(quoted(name))
        order.append(column.desc_nulls_last() if condition.descending else column.asc_nulls_first())
    for column_name in columns:
        if column_name in frame.names:
            name = f"{column_name}'order"
            data = data.withColumn(name, expressions.order_key(f.col(quoted(column_name)), total=True))
            order.append(f.col(quoted(name)).asc_nulls_first())
    if order:
        data = data.orderBy(*order)
    data = data.offset(offset) if offset else data
    data = data if limit is None else data.limit(limit)
    rows = frame.rows if limit is None else min(frame.rows, limit)
    return Frame(data.select(*map(quoted, frame.names)), frame.certain, frame.nodes, rows, {})
