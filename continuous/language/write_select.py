"""Solution modifiers as query text: the inverse of `select.SelectTranslator`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ..algebra import nodes as a
from ..algebra.nodes import Aggregate, Algebra, Expr, OrderCondition, Var
from ..algebra.variables import Scopes
from .write_terms import ExpressionWriter, Names


class Groups(Protocol):
    """The writer of the WHERE part."""

    names: Names
    scopes: Scopes
    expressions: ExpressionWriter

    def braces(self, head: str, node: Algebra) -> list[str]:
        """The lines of ``head { … }``."""
        ...

    def values(self, values: a.Values) -> list[str]:
        """The lines of inline data."""
        ...


@dataclass(slots=True)
class SelectParts:
    """A query or sub-query taken apart. ``columns`` is None without a projection (ASK, CONSTRUCT)."""

    pattern: Algebra
    mode: str = ""
    columns: tuple[Var, ...] | None = None
    items: tuple[tuple[Var, Expr], ...] = ()
    grouped: bool = False
    keys: tuple[tuple[Var, Expr | None], ...] = ()
    aggregates: tuple[tuple[Var, Aggregate], ...] = ()
    having: tuple[Expr, ...] = ()
    order: tuple[OrderCondition, ...] = ()
    values: a.Values | None = None
    offset: int = 0
    limit: int | None = None


def select_parts(node: Algebra, *, projected: bool) -> SelectParts:
    """The modifiers of a pattern and what stands below them."""
    parts = SelectParts(node)
    if isinstance(node, a.Slice):
        parts.offset, parts.limit, node = node.offset, node.limit, node.input
    if projected:
        if isinstance(node, (a.Distinct, a.Reduced)):
            parts.mode = "DISTINCT " if isinstance(node, a.Distinct) else "REDUCED "
            node = node.input
        if isinstance(node, a.Project):
            parts.columns, node = node.vars, node.input
    if isinstance(node, a.OrderBy):
        parts.order, node = node.conditions, node.input
    parts.pattern = node
    extended: list[tuple[Var, Expr]] = []
    while isinstance(node, a.Extend):
        extended.insert(0, (node.var, node.expr))
        node = node.input
    if _group(parts, node):
        parts.items = tuple(extended)
    elif parts.columns is not None:
        _expressions(parts, parts.columns)
    if projected and parts.columns is None:
        parts.columns = tuple(Scopes().of(parts.pattern)) if not parts.grouped else _all_columns(parts)
    return parts


def _group(parts: SelectParts, node: Algebra) -> bool:
    """Take HAVING, the trailing VALUES and GROUP BY apart; False when there is no grouping."""
    values: a.Values | None = None
    match node:
        case a.Join(left, a.Values() as rows):
            node, values = left, rows
    having: list[Expr] = []
    while isinstance(node, a.Filter):
        having.insert(0, node.condition)
        node = node.input
    if not isinstance(node, a.Group):
        return False
    parts.grouped, parts.aggregates, parts.values, parts.having = True, node.aggregates, values, tuple(having)
    pattern = node.input
    places = {key: place for place, key in enumerate(node.keys)}
    computed: dict[Var, Expr] = {}
    last = len(places)
    while isinstance(pattern, a.Extend) and places.get(pattern.var, last) < last:
        last = places[pattern.var]
        computed[pattern.var] = pattern.expr
        pattern = pattern.input
    parts.keys = tuple((key, computed.get(key)) for key in node.keys)
    parts.pattern = pattern
    return True


def _expressions(parts: SelectParts, columns: tuple[Var, ...]) -> None:
    """Take off SELECT expressions: what was extended last, in the order of the columns."""
    places = {column: place for place, column in enumerate(columns)}
    last = len(columns)
    found: list[tuple[Var, Expr]] = []
    node = parts.pattern
    while isinstance(node, a.Extend) and places.get(node.var, last) < last:
        last = places[node.var]
        found.insert(0, (node.var, node.expr))
        node = node.input
    parts.items, parts.pattern = tuple(found), node


def _all_columns(parts: SelectParts) -> tuple[Var, ...]:
    """The columns of a grouping that is shown alone: its keys and set functions."""
    parts.items += tuple((var, var) for var, _ in parts.aggregates)
    return tuple(key for key, _ in parts.keys) + tuple(var for var, _ in parts.items)


def select_text(
    writer: Groups, parts: SelectParts, head: Sequence[str] | None = None, clauses: Sequence[str] = ()
) -> list[str]:
    """The lines of a query or sub-query.

    The WHERE is written first, as it is read first: blocks in it declare their windows before those of the
    expressions. ``head`` stands in the place of SELECT and its columns, ``clauses`` before WHERE.
    """
    names, write = writer.names, writer.expressions.write
    aggregates = dict(parts.aggregates)
    where = writer.braces("WHERE", parts.pattern)
    keys = [
        names.var(key) if expr is None else f"({write(expr)}{'' if key.hidden else f' AS {names.var(key)}'})"
        for key, expr in parts.keys
    ]
    if head is None:
        items = dict(parts.items)
        columns = [
            f"({write(items[column], aggregates)} AS {names.var(column)})"
            if column in items
            else names.var(column)
            for column in parts.columns or ()
        ]
        head = f"SELECT {parts.mode}{' '.join(columns) or '*'}".split("\n")
    having = " ".join(writer.expressions.constraint(condition, aggregates) for condition in parts.having)
    order = " ".join(_order_key(writer, key, aggregates) for key in parts.order)
    limits = [f"LIMIT {parts.limit}"] if parts.limit is not None else []
    limits += [f"OFFSET {parts.offset}"] if parts.offset else []
    tail = [
        f"GROUP BY {' '.join(keys)}" if keys else "",
        f"HAVING {having}" if having else "",
        f"ORDER BY {order}" if order else "",
        " ".join(limits),
    ]
    lines = [*head, *clauses, *where, *(line for text in tail if text for line in text.split("\n"))]
    return lines if parts.values is None else [*lines, *writer.values(parts.values)]


def _order_key(writer: Groups, key: OrderCondition, aggregates: dict[Var, Aggregate]) -> str:
    text = writer.expressions.write(key.expr, aggregates)
    if key.descending:
        return f"DESC({text})"
    plain = isinstance(key.expr, Var) and key.expr not in aggregates
    return text if plain else f"ASC({text})"
