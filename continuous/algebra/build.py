"""Smart constructors that drop identities, and the one place that knows the children of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from operator import is_

from .nodes import (
    Algebra,
    Bgp,
    Call,
    Distinct,
    Exists,
    Expr,
    Extend,
    Filter,
    FunctionCall,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    OrderCondition,
    Path,
    Project,
    Reduced,
    Slice,
    Table,
    Union,
    Values,
)

UNIT = Bgp()
"""One solution that binds nothing: the identity of Join."""

NOTHING = Values((), ())
"""No solution: the identity of Union."""


def join(*parts: Algebra) -> Algebra:
    """Left-deep Join of the parts without the units; adjacent basic graph patterns become one.

    >>> from pyoxigraph import NamedNode
    >>> join(UNIT, Values((), ()), UNIT) == Values((), ())
    True
    """
    result: Algebra = UNIT
    for part in parts:
        if part == UNIT:
            continue
        if result == UNIT:
            result = part
        elif isinstance(result, Bgp) and isinstance(part, Bgp):
            result = Bgp(result.patterns + part.patterns)
        else:
            result = Join(result, part)
    return result


def union(parts: Iterable[Algebra]) -> Algebra:
    """Union of the parts; no part at all gives no solution."""
    result: Algebra | None = None
    for part in parts:
        result = part if result is None else Union(result, part)
    return NOTHING if result is None else result


def filter_all(conditions: Iterable[Expr], node: Algebra) -> Algebra:
    """The node under one Filter for each condition."""
    for condition in conditions:
        node = Filter(condition, node)
    return node


def conjuncts(node: Algebra) -> list[Algebra]:
    """The operands of a tree of Joins, in text order. Join is associative and commutative on multisets."""
    if isinstance(node, Join):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]


def children(node: Algebra) -> tuple[Algebra, ...]:
    """The direct operands of a node; patterns inside expressions are not among them."""
    match node:
        case Join(left, right) | Union(left, right) | Minus(left, right) | LeftJoin(left, right, _):
            return (left, right)
        case Bgp() | Path() | Values() | Table():
            return ()
        case _:
            return (node.input,)


def map_children(node: Algebra, change: Callable[[Algebra], Algebra]) -> Algebra:
    """The node with each direct operand changed; itself where nothing is."""
    match node:
        case Join(left, right):
            return join(change(left), change(right))
        case Union() | Minus() | LeftJoin():
            left, right = change(node.left), change(node.right)
            same = left is node.left and right is node.right
            return node if same else replace(node, left=left, right=right)
        case Bgp() | Path() | Values() | Table():
            return node
        case _:
            inner = change(node.input)
            return node if inner is node.input else replace(node, input=inner)


def expressions(node: Algebra) -> Iterator[Expr]:
    """The expressions of the node itself."""
    match node:
        case Filter(condition, _):
            yield condition
        case LeftJoin(_, _, condition) if condition is not None:
            yield condition
        case Extend(_, _, expr):
            yield expr
        case OrderBy(_, conditions):
            for each in conditions:
                yield each.expr
        case Group(_, _, aggregates):
            for _, aggregate in aggregates:
                if aggregate.expr is not None:
                    yield aggregate.expr
                if aggregate.parameter is not None:
                    yield aggregate.parameter
        case _:
            return


def map_expressions(node: Algebra, change: Callable[[Expr], Expr]) -> Algebra:
    """The node with each of its own expressions changed."""
    match node:
        case Filter(condition, _):
            changed = change(condition)
            return node if changed is condition else replace(node, condition=changed)
        case LeftJoin(_, _, condition) if condition is not None:
            return replace(node, condition=change(condition))
        case Extend(_, _, expr):
            changed = change(expr)
            return node if changed is expr else replace(node, expr=changed)
        case OrderBy(_, conditions):
            return replace(
                node,
                conditions=tuple(OrderCondition(change(each.expr), each.descending) for each in conditions),
            )
        case Group(_, _, aggregates):
            return replace(
                node,
                aggregates=tuple(
                    (var, replace(each, expr=change(each.expr)) if each.expr is not None else each)
                    for var, each in aggregates
                ),
            )
        case _:
            return node


def sub_expressions(expr: Expr) -> Iterator[Expr]:
    """The expression and all below it; the patterns of EXISTS are not entered."""
    yield expr
    if isinstance(expr, (Call, FunctionCall)):
        for argument in expr.args:
            yield from sub_expressions(argument)


def map_expression(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace top down: where ``change`` gives None the arguments are visited instead."""
    new = change(expr)
    if new is not None:
        return new
    if isinstance(expr, (Call, FunctionCall)):
        args = tuple([map_expression(each, change) for each in expr.args])
        same = all(map(is_, args, expr.args))
        return expr if same else replace(expr, args=args)
    return expr


def has_exists(expr: Expr) -> bool:
    """True when the expression holds EXISTS or NOT EXISTS."""
    return any(isinstance(each, Exists) for each in sub_expressions(expr))


def map_patterns(expr: Expr, change: Callable[[Algebra], Algebra]) -> Expr:
    """The expression with the pattern of each EXISTS changed."""
    return map_expression(
        expr, lambda each: Exists(change(each.pattern), each.negated) if isinstance(each, Exists) else None
    )


def all_nodes(node: Algebra) -> Iterator[Algebra]:
    """The node and all below it, the patterns inside EXISTS included, in pre-order."""
    yield node
    for expr in expressions(node):
        for each in sub_expressions(expr):
            if isinstance(each, Exists):
                yield from all_nodes(each.pattern)
    for child in children(node):
        yield from all_nodes(child)


def is_modifier(node: Algebra) -> bool:
    """True for the nodes that SPARQL writes as a SELECT."""
    return isinstance(node, (Project, Distinct, Reduced, Slice, OrderBy, Group))
