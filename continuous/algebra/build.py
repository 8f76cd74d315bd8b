"""Smart constructors that drop identities, and the one place that knows the children of each node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from operator import is_
from typing import TypeVar

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
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    OrderBy,
    OrderCondition,
    Path,
    Project,
    Slice,
    TableNode,
    Union,
    Values,
    Var,
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


def conjuncts(node: Algebra) -> list[Algebra]:
    """The operands of a tree of Joins, in text order. Join is associative and commutative on multisets."""
    if isinstance(node, Join):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]


def conditions_of(expr: Expr) -> list[Expr]:
    """The conditions that must all be true; an error in any of them is as good as false."""
    if isinstance(expr, Call) and expr.name == "&&":
        return [each for arg in expr.args for each in conditions_of(arg)]
    return [expr]


def children(node: Algebra) -> tuple[Algebra, ...]:
    """The direct operands of a node; patterns inside expressions are not among them."""
    if isinstance(node, (Join, Union, Minus, LeftJoin)):
        return (node.left, node.right)
    if isinstance(node, (Bgp, Path, Values, TableNode)):
        return ()
    return (node.input,)


def with_children(node: Algebra, changed: Sequence[Algebra]) -> Algebra:
    """The node with other operands in the places of `children`; itself where they are the same."""
    match node:
        case Join():
            return join(*changed)
        case Bgp() | Path() | Values() | TableNode():
            return node
        case Union() | Minus() | LeftJoin():
            left, right = changed
            same = left is node.left and right is node.right
            return node if same else replace(node, left=left, right=right)
        case _:
            (inner,) = changed
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


def with_expressions(node: Algebra, changed: Sequence[Expr]) -> Algebra:
    """The node with other expressions in the places of `expressions`; itself where they are the same."""
    if all(map(is_, changed, expressions(node))):
        return node
    match node:
        case Filter() | LeftJoin():
            return replace(node, condition=changed[0])
        case Extend():
            return replace(node, expr=changed[0])
        case OrderBy(_, conditions):
            pairs = zip(changed, conditions, strict=True)
            return replace(
                node, conditions=tuple(OrderCondition(expr, old.descending) for expr, old in pairs)
            )
        case Group(_, _, aggregates):
            rest = iter(changed)
            new = []
            for var, each in aggregates:
                expr = None if each.expr is None else next(rest)
                parameter = None if each.parameter is None else next(rest)
                new.append((var, replace(each, expr=expr, parameter=parameter)))
            return replace(node, aggregates=tuple(new))
        case _:
            return node


def operands(node: Algebra) -> tuple[Algebra, ...]:
    """All patterns directly below a node: those of EXISTS in its own expressions, then its `children`."""
    below = children(node)
    if not isinstance(node, _WITH_EXPRESSIONS):
        return below
    patterns = [pattern for expr in expressions(node) for pattern in patterns_of(expr)]
    return (*patterns, *below) if patterns else below


_WITH_EXPRESSIONS = (Filter, LeftJoin, Extend, OrderBy, Group)


def with_operands(node: Algebra, changed: Sequence[Algebra]) -> Algebra:
    """The node with other patterns in the places of `operands`: how a rewrite goes on below a node.

    >>> from .nodes import Var
    >>> def without_filters(node: Algebra) -> Algebra:
    ...     node = node.input if isinstance(node, Filter) else node
    ...     return with_operands(node, [without_filters(each) for each in operands(node)])
    >>> without_filters(Union(UNIT, Filter(Var("x"), UNIT))) == Union(UNIT, UNIT)
    True
    """
    if not isinstance(node, _WITH_EXPRESSIONS):
        return with_children(node, changed)
    count = len(changed) - len(children(node))
    return with_children(with_patterns(node, changed[:count]), changed[count:])


def with_patterns(node: Algebra, changed: Sequence[Algebra]) -> Algebra:
    """The node with other patterns in the EXISTS of its own expressions, in their order."""
    if not changed:
        return node
    rest = iter(changed)
    return with_expressions(node, [put_patterns(each, rest) for each in expressions(node)])


def sub_expressions(expr: Expr) -> list[Expr]:
    """The expression and all below it, in pre-order; the patterns of EXISTS are not entered."""
    found: list[Expr] = []
    waiting = [expr]
    while waiting:
        each = waiting.pop()
        found.append(each)
        if isinstance(each, (Call, FunctionCall)):
            waiting.extend(reversed(each.args))
    return found


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


def patterns_of(expr: Expr) -> list[Algebra]:
    """The patterns of the EXISTS in an expression."""
    return [each.pattern for each in sub_expressions(expr) if isinstance(each, Exists)]


def put_patterns(expr: Expr, changed: Iterator[Algebra]) -> Expr:
    """The expression with other patterns in the places of `patterns_of`."""
    if isinstance(expr, Exists):
        return Exists(next(changed), expr.negated)
    if isinstance(expr, (Call, FunctionCall)):
        args = tuple([put_patterns(each, changed) for each in expr.args])
        return expr if all(map(is_, args, expr.args)) else replace(expr, args=args)
    return expr


def all_nodes(node: Algebra) -> Iterator[Algebra]:
    """The node and all below it, the patterns inside EXISTS included, in pre-order."""
    yield node
    for each in operands(node):
        yield from all_nodes(each)


def is_plain(root: Algebra) -> bool:
    """True for patterns without a path, an expression, a variable of GRAPH or a grouping."""
    return not any(
        isinstance(each, (Group, Path))
        or (isinstance(each, Graph) and isinstance(each.name, Var))
        or any(True for _ in expressions(each))
        for each in all_nodes(root)
    )


def is_modifier(node: Algebra) -> bool:
    """True for the nodes that SPARQL writes as a SELECT."""
    return isinstance(node, (Project, Distinct, Slice, OrderBy, Group))


CHAIN = 32
"""So many operands at most are combined one after the other."""

T = TypeVar("T")


def fold(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine two by two from the left; long runs of an associative operator as a balanced tree.

    A tree as deep as a text is long would exhaust the stack of everything that walks it.
    """
    if len(parts) <= CHAIN:
        result = parts[0]
        for part in parts[1:]:
            result = combine(result, part)
        return result
    half = len(parts) // 2
    return combine(fold(combine, parts[:half]), fold(combine, parts[half:]))
