"""GROUP BY, ORDER BY, LIMIT and OFFSET as operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..algebra.nodes import (
    Algebra,
    Distinct,
    Expr,
    Group,
    OrderBy,
    OrderCondition,
    Project,
    Reduced,
    Slice,
    Var,
)
from ..algebra.variables import expression_variables, in_scope
from ..expressions.compile import compile_value
from ..operators import linear
from ..operators.aggregate import Aggregate, Aggregation
from ..operators.first import First
from ..operators.topk import SortKey, TopK, TopKEach
from ..rows import IdRow, Schema
from .compilation import NO_NAMES, Grouping, columns_of
from .exists import has_exists
from .functions import accumulator_factory
from .plan import Built
from .solutions import Solutions

Marked = Callable[[Built, Expr], tuple[Built, Expr]]


class Modifiers:
    """Adds operators over groups of rows and their order to the plan of one query."""

    def __init__(self, solutions: Solutions) -> None:
        self._solutions = solutions
        self.compilation = solutions.compilation
        self.builder = solutions.builder

    def group_by(self, node: Group, built: Built, marked: Marked, context: Built | None = None) -> Built:
        """GROUP BY over rows that are planned; ``marked`` turns EXISTS in an expression to a column.

        In a block that is evaluated graph by graph or stream by stream ``context`` has a row for each of
        these; the rows that are planned bind its columns, which are keys, too. Without keys of its own there
        is a group for each of them, also over nothing.
        """
        around = () if context is None else context.schema.vars
        visible = [name for name in built.schema.vars if not name.startswith("_:") or name in around]
        if any(each.expr is None and each.distinct for _, each in node.aggregates):
            built = self._solutions.project(built, visible)
        aggregations = []
        exprs: list[Expr | None] = []
        for _, aggregate in node.aggregates:
            new = accumulator_factory(
                aggregate, self.compilation.context.values, self.compilation.keys, self.compilation.terms
            )
            exprs.append(aggregate.expr)
            if aggregate.expr is None:
                aggregations.append(Aggregation(new))
                continue
            expr = aggregate.expr
            if has_exists(expr):
                built, expr = marked(built, expr)
                exprs[-1] = expr
            if isinstance(expr, Var):
                (column,) = columns_of(built.schema, [expr.name])
                aggregations.append(Aggregation(new, column=column))
            else:
                compute = compile_value(expr, built.schema.vars, self.compilation.context)
                aggregations.append(Aggregation(new, compute=compute))
        keys = [*around, *(each.name for each in node.keys)]
        results = [var.name for var, _ in node.aggregates]
        counts = {var.name for var, each in node.aggregates if each.name == "COUNT"}
        schema = Schema((*keys, *results), (built.schema.certain & frozenset(keys)) | counts)
        operator = Aggregate(
            schema, columns_of(built.schema, keys), aggregations, self.compilation.context.values
        )
        shown = f"by ({' '.join('?' + each for each in keys)})"
        grouped = self.builder.add(
            "group", operator, [built], shown, extra=Grouping(node.aggregates, exprs)
        )
        if context is None or node.keys:
            return grouped
        empty = self._solutions.without(context, self._solutions.project(grouped, around))
        values = self.compilation.context.values
        for name, each in zip(results, aggregations, strict=True):
            empty = self._solutions.constant(empty, name, each.new().result_id(values))
        return self._solutions.union(grouped, empty)

    def top_k(
        self,
        node: Algebra,
        build: Callable[[Algebra], Built],
        marked: Marked,
        context: Sequence[str] = (),
    ) -> Built:
        """Slice over DISTINCT over projection over ORDER BY, with ties by the projected columns.

        ``marked`` turns EXISTS in an expression to a column; for each value of the columns ``context`` the
        rows are ordered and cut on their own.
        """
        offset, limit = 0, None
        if isinstance(node, Slice):
            offset, limit, node = node.offset, node.limit, node.input
        distinct = isinstance(node, Distinct)
        if isinstance(node, Distinct | Reduced):
            node = node.input
        columns: tuple[str, ...] | None = None
        if isinstance(node, Project):
            columns, node = tuple(each.name for each in node.vars), node.input
        conditions: tuple[OrderCondition, ...] = ()
        if isinstance(node, OrderBy):
            conditions, node = node.conditions, node.input
        if columns is None:
            columns = tuple(sorted(name for name in in_scope(node)))
        built = build(node)
        columns = (*columns, *(name for name in context if name not in columns))
        for place, condition in enumerate(conditions):
            if has_exists(condition.expr):
                built, expr = marked(built, condition.expr)
                changed = OrderCondition(expr, condition.descending)
                conditions = (*conditions[:place], changed, *conditions[place + 1 :])
        if distinct:
            asked = NO_NAMES.union(*(expression_variables(each.expr) for each in conditions))
            if asked <= set(columns):
                built = self._solutions.project(built, columns)
                built = self.builder.add("distinct", linear.Distinct(built.schema), [built])
            else:
                places = columns_of(built.schema, columns)
                key = self._sort_key(built.schema.vars, conditions, places)
                built = self.builder.add("first", First(built.schema, places, key), [built])
        schema = Schema(columns, built.schema.certain & frozenset(columns))
        places = columns_of(built.schema, columns)
        key = self._sort_key(built.schema.vars, conditions, places)
        shown = f"offset {offset} limit {'all' if limit is None else limit}"
        operator: TopK | TopKEach = TopK(schema, places, key, offset, limit)
        if context:
            new = partial(TopK, schema, places, key, offset, limit)
            operator = TopKEach(schema, built.schema.positions(context), new)
            shown += f" for each ({' '.join('?' + each for each in context)})"
        return self.builder.add("order", operator, [built], shown, extra=conditions)

    def _sort_key(
        self, names: tuple[str, ...], conditions: Sequence[OrderCondition], columns: Sequence[int]
    ) -> Any:
        """Keys of the conditions, then of the columns shown under the total order."""
        keys = self.compilation.keys
        parts = [
            (keys.falling if each.descending else keys.value, self._solutions.id_of(each.expr, names))
            for each in conditions
        ]

        def sort_key(row: IdRow) -> SortKey:
            return (
                *[key_of(id_of(row)) for key_of, id_of in parts],
                *[keys.total(row[column] if column >= 0 else 0) for column in columns],
            )

        return sort_key
