"""Splits the algebra of a SELECT into its clauses, the inverse of the translation to algebra."""

from __future__ import annotations

from dataclasses import dataclass

from . import nodes as n
from .nodes import Aggregate, Algebra, Expr, OrderCondition, Var
from .variables import Scopes


@dataclass(slots=True)
class SelectParts:
    """The clauses of a query, split from its algebra; ``columns`` is None without a projection."""

    pattern: Algebra
    mode: str = ""
    columns: tuple[Var, ...] | None = None
    items: tuple[tuple[Var, Expr], ...] = ()
    grouped: bool = False
    keys: tuple[tuple[Var, Expr | None], ...] = ()
    aggregates: tuple[tuple[Var, Aggregate], ...] = ()
    having: tuple[Expr, ...] = ()
    order: tuple[OrderCondition, ...] = ()
    values: n.Values | None = None
    offset: int = 0
    limit: int | None = None


def select_parts(node: Algebra, *, projected: bool) -> SelectParts:
    """Split a pattern into its solution modifiers and the pattern below the modifiers."""
    parts = SelectParts(node)
    if isinstance(node, n.Slice):
        parts.offset, parts.limit, node = node.offset, node.limit, node.input
    if projected:
        if isinstance(node, n.Distinct):
            parts.mode, node = "DISTINCT ", node.input
        if isinstance(node, n.Project):
            parts.columns, node = node.vars, node.input
    if isinstance(node, n.OrderBy):
        parts.order, node = node.conditions, node.input
    parts.pattern = node
    extended: list[tuple[Var, Expr]] = []
    while isinstance(node, n.Extend):
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
    """Split off HAVING, the trailing VALUES and GROUP BY; return False if the query has no grouping."""
    values: n.Values | None = None
    match node:
        case n.Join(left, n.Values() as rows):
            node, values = left, rows
    having: list[Expr] = []
    while isinstance(node, n.Filter):
        having.insert(0, node.condition)
        node = node.input
    if not isinstance(node, n.Group):
        return False
    parts.grouped, parts.aggregates, parts.values, parts.having = True, node.aggregates, values, tuple(having)
    pattern = node.input
    places = {key: place for place, key in enumerate(node.keys)}
    computed: dict[Var, Expr] = {}
    last = len(places)
    while isinstance(pattern, n.Extend) and places.get(pattern.var, last) < last:
        last = places[pattern.var]
        computed[pattern.var] = pattern.expr
        pattern = pattern.input
    parts.keys = tuple((key, computed.get(key)) for key in node.keys)
    parts.pattern = pattern
    return True


def _expressions(parts: SelectParts, columns: tuple[Var, ...]) -> None:
    """Split off the SELECT expressions: the outermost Extend nodes, in the order of the columns."""
    places = {column: place for place, column in enumerate(columns)}
    last = len(columns)
    found: list[tuple[Var, Expr]] = []
    node = parts.pattern
    while isinstance(node, n.Extend) and places.get(node.var, last) < last:
        last = places[node.var]
        found.insert(0, (node.var, node.expr))
        node = node.input
    parts.items, parts.pattern = tuple(found), node


def _all_columns(parts: SelectParts) -> tuple[Var, ...]:
    """Return the columns of a grouping without a projection: its keys and set functions."""
    parts.items += tuple((var, var) for var, _ in parts.aggregates)
    return tuple(key for key, _ in parts.keys) + tuple(var for var, _ in parts.items)
