"""Plans GROUP BY, ORDER BY and LIMIT over rows whose plan exists already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from ..algebra.build import has_exists
from ..algebra.nodes import Algebra, Expr, Group, OrderCondition, Var
from ..algebra.sliced import condition_variables, sliced
from ..expressions.aggregates import Tools, accumulator_factory
from ..expressions.compile import compile_value
from ..expressions.row_order import row_order
from ..operators.grouping import Aggregation, GroupAggregate
from ..operators.ordering import TopK
from ..rows import Schema
from .builder import PlanBuilder, PlanOutput

Marked = Callable[[PlanOutput, Expr], tuple[PlanOutput, Expr]]
"""A function that replaces each EXISTS in an expression by a boolean column that it adds to the rows."""


def group_by(
    builder: PlanBuilder, node: Group, built: PlanOutput, marked: Marked, context: PlanOutput | None
) -> PlanOutput:
    """Plan GROUP BY over the rows of an input that is planned already.

    In a block ``GRAPH ?g`` or ``STREAM ?s``, ``context`` has a row for each graph or stream. The input rows
    of GROUP BY bind the columns of ``context``, which are additional keys. If GROUP BY has no other keys,
    each row of ``context`` has a group, even without input rows.
    """
    around = () if context is None else context.schema.vars
    # Generated variables, such as the instant, do not distinguish rows for COUNT(DISTINCT *).
    named = [name for name in built.schema.vars if name in around or not name.startswith("_:")]
    given = builder.compilation
    values = given.context.values
    tools = Tools(values, given.keys, given.terms.terms, given.context.budget)
    aggregations = []
    exprs: list[Expr | None] = []
    for _, aggregate in node.aggregates:
        new, expr = accumulator_factory(aggregate, tools), aggregate.expr
        if expr is not None and has_exists(expr):
            built, expr = marked(built, expr)
        exprs.append(expr)
        if isinstance(expr, Var):
            (column,) = built.schema.columns([expr.name])
            aggregations.append(Aggregation(new, column=column))
        else:
            compute = None if expr is None else compile_value(expr, built.schema.vars, given.context)
            aggregations.append(Aggregation(new, compute=compute, columns=built.schema.positions(named)))
    keys = [*around, *(each.name for each in node.keys)]
    results = [var.name for var, _ in node.aggregates]
    counts = {var.name for var, each in node.aggregates if each.name == "COUNT"}
    schema = Schema((*keys, *results), (built.schema.certain & frozenset(keys)) | counts)
    operator = GroupAggregate(schema, built.schema.columns(keys), aggregations, values)
    grouped = builder.add("group", operator, [built], f"by {_listed(keys)}", exprs)
    if context is None or node.keys:
        return grouped
    empty = builder.without(context, builder.project(grouped, around))
    for name, each in zip(results, aggregations, strict=True):
        empty = builder.constant(empty, name, each.new().result_id(values))
    return builder.union(grouped, empty)


def top_k(
    builder: PlanBuilder,
    node: Algebra,
    build: Callable[[Algebra], PlanOutput],
    marked: Marked,
    context: Collection[str],
) -> PlanOutput:
    """Plan LIMIT and OFFSET over DISTINCT over projection over ORDER BY; all projected columns break ties.

    ``build`` plans the input of the modifiers. Rows are ordered and limited separately for each value of the
    columns ``context``.
    """
    order = partial(row_order, context=builder.compilation.context, keys=builder.compilation.keys)
    parts = sliced(node) if context else sliced(node).with_deferred_columns()
    built = build(parts.input)
    names = tuple(dict.fromkeys((*parts.shown, *sorted(context))))
    conditions = []
    for each in parts.conditions:
        expr = each.expr
        if has_exists(expr):
            built, expr = marked(built, expr)
        conditions.append(OrderCondition(expr, each.descending))
    if parts.distinct:
        if condition_variables(conditions) <= set(names):
            built = builder.distinct(builder.project(built, names))
        else:
            _, key = order(conditions, names, built.schema.vars, ())
            by = built.schema.columns(names)
            built = builder.add("first", TopK(built.schema, tuple, key, 0, 1, by=by), [built])
    form, key = order(conditions, names, built.schema.vars, parts.late)
    schema = Schema(names, built.schema.certain & frozenset(names))
    detail = f"offset {parts.offset} limit {'all' if parts.limit is None else parts.limit}"
    if context:
        detail += f" for each {_listed(sorted(context))}"
    if parts.late:
        detail += f", then {_listed([each.var.name for each in parts.late])}"
    operator = TopK(schema, form, key, parts.offset, parts.limit, by=built.schema.positions(sorted(context)))
    return builder.add("order", operator, [built], detail)


def _listed(names: Sequence[str]) -> str:
    return f"({' '.join('?' + each for each in names)})"
