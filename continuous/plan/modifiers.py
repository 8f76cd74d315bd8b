"""GROUP BY, ORDER BY and LIMIT over rows that are planned already."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

from ..algebra.build import has_exists
from ..algebra.nodes import (
    Algebra,
    Distinct,
    Expr,
    Extend,
    Group,
    OrderBy,
    OrderCondition,
    Project,
    Reduced,
    Slice,
    Var,
)
from ..algebra.order import Tie
from ..algebra.variables import NO_NAMES, expression_variables, in_scope
from ..expressions.aggregates import Tools, accumulator_factory
from ..expressions.compile import compile_value
from ..operators.grouping import Aggregate, Aggregation
from ..operators.ordering import SortKey, TopK, cells
from ..rows import IdRow, Schema
from .builder import Built, PlanBuilder

Marked = Callable[[Built, Expr], tuple[Built, Expr]]
"""Turns EXISTS in an expression to a column of the rows."""


def group_by(builder: PlanBuilder, node: Group, built: Built, marked: Marked, context: Built | None) -> Built:
    """GROUP BY over planned rows.

    In a block that is evaluated graph by graph or stream by stream ``context`` has a row for each of these;
    the planned rows bind its columns, which are keys, too. Without keys of its own there is a group for each
    of them, also over nothing.
    """
    around = () if context is None else context.schema.vars
    if any(each.expr is None and each.distinct for _, each in node.aggregates):
        hidden = {name for name in built.schema.vars if name.startswith("_:")} - set(around)
        built = builder.project(built, [name for name in built.schema.vars if name not in hidden])
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
            aggregations.append(Aggregation(new, compute=compute))
    keys = [*around, *(each.name for each in node.keys)]
    results = [var.name for var, _ in node.aggregates]
    counts = {var.name for var, each in node.aggregates if each.name == "COUNT"}
    schema = Schema((*keys, *results), (built.schema.certain & frozenset(keys)) | counts)
    operator = Aggregate(schema, built.schema.columns(keys), aggregations, values)
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
    build: Callable[[Algebra], Built],
    marked: Marked,
    context: Collection[str],
) -> Built:
    """Slice over DISTINCT over projection over ORDER BY, with ties by the projected columns.

    ``build`` plans what is below; for each value of the columns ``context`` rows are ordered and cut on their
    own.
    """
    offset, limit = 0, None
    if isinstance(node, Slice):
        offset, limit, node = node.offset, node.limit, node.input
    distinct = isinstance(node, Distinct)
    if isinstance(node, Distinct | Reduced):
        node = node.input
    shown: Sequence[str] | None = None
    if isinstance(node, Project):
        shown, node = [each.name for each in node.vars], node.input
    given: Sequence[OrderCondition] = ()
    if isinstance(node, OrderBy):
        given, node = node.conditions, node.input
    if shown is None:
        shown = sorted(in_scope(node))
    late: list[Extend] = []
    if limit is not None and not distinct and not context:
        node, late = _late(node, given)
    built = build(node)
    names = tuple(dict.fromkeys((*shown, *sorted(context))))
    conditions = []
    for each in given:
        expr = each.expr
        if has_exists(expr):
            built, expr = marked(built, expr)
        conditions.append(OrderCondition(expr, each.descending))
    if distinct:
        if NO_NAMES.union(*(expression_variables(each.expr) for each in conditions)) <= set(names):
            built = builder.distinct(builder.project(built, names))
        else:
            _, key = _order(builder, built.schema, conditions, names, ())
            by = built.schema.columns(names)
            built = builder.add("first", TopK(built.schema, tuple, key, 0, 1, by=by), [built])
    form, key = _order(builder, built.schema, conditions, names, late)
    schema = Schema(names, built.schema.certain & frozenset(names))
    told = f"offset {offset} limit {'all' if limit is None else limit}"
    if context:
        told += f" for each {_listed(sorted(context))}"
    if late:
        told += f", then {' '.join('?' + each.var.name for each in late)}"
    operator = TopK(schema, form, key, offset, limit, by=built.schema.positions(sorted(context)))
    return builder.add("order", operator, [built], told)


def _late(node: Algebra, conditions: Sequence[OrderCondition]) -> tuple[Algebra, list[Extend]]:
    """The node without columns that are computed of the rows shown alone, and these in their order.

    No condition asks for them; expressions are functions of the row.
    """
    columns: list[Extend] = []
    while isinstance(node, Extend) and not has_exists(node.expr):
        columns.append(node)
        node = node.input
    asked = set(NO_NAMES.union(*(expression_variables(each.expr) for each in conditions)))
    late = []
    for each in columns:
        if each.var.name in asked:
            asked |= expression_variables(each.expr)
        else:
            late.append(each)
    for each in reversed(columns):
        if each not in late:
            node = replace(each, input=node)
    return node, late[::-1]


def _order(
    builder: PlanBuilder,
    schema: Schema,
    conditions: Sequence[OrderCondition],
    names: Sequence[str],
    late: Sequence[Extend],
) -> tuple[Callable[[IdRow], IdRow], Callable[[IdRow], SortKey]]:
    """The columns that are shown of a row, and its key: conditions, then these under the total order.

    ``late`` are those of them that the row has not yet.
    """
    keys, known = builder.compilation.keys, schema.vars
    parts = [
        (keys.falling if each.descending else keys.value, builder.id_of(each.expr, schema.vars))
        for each in conditions
    ]
    computed = []
    for each in late:
        computed.append(builder.id_of(each.expr, known))
        known = (*known, each.var.name)
    columns = Schema(known, schema.certain).columns(names)

    def form(row: IdRow) -> IdRow:
        for compute in computed:
            row = (*row, compute(row))
        return cells(row, columns)

    def tie(row: IdRow) -> SortKey:
        return tuple(map(keys.total, form(row)))

    def sort_key(row: IdRow) -> SortKey:
        # Side by side: of two keys none is the beginning of the other.
        key: list[Any] = []
        for key_of, id_of in parts:
            key += key_of(id_of(row))
        return (*key, Tie(tie, row))

    return form, sort_key


def _listed(names: Sequence[str]) -> str:
    return f"({' '.join('?' + each for each in names)})"
