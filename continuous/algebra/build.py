"""Constructors of algebra nodes without identity operands; functions that walk and rebuild the algebra."""

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
"""The empty basic graph pattern with one solution that binds nothing; the identity of Join."""

NOTHING = Values((), ())
"""Inline data without rows, hence without solutions; the identity of Union."""


def join(*parts: Algebra) -> Algebra:
    """Return the left-deep Join of the parts without empty patterns.

    Adjacent basic graph patterns are merged.

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
    """Return the Union of the parts; `NOTHING` if there are no parts."""
    result: Algebra | None = None
    for part in parts:
        result = part if result is None else Union(result, part)
    return NOTHING if result is None else result


def conjuncts(node: Algebra) -> list[Algebra]:
    """Return the operands of a tree of Joins in text order; Join is associative and commutative."""
    if isinstance(node, Join):
        return conjuncts(node.left) + conjuncts(node.right)
    return [node]


def conditions_of(expr: Expr) -> list[Expr]:
    """Return the operands of a conjunction, which a FILTER treats as separate conditions.

    An error in an operand of a condition has the effect of false, because a FILTER drops the row in both
    cases.
    """
    if isinstance(expr, Call) and expr.name == "&&":
        return [each for arg in expr.args for each in conditions_of(arg)]
    return [expr]


def children(node: Algebra) -> tuple[Algebra, ...]:
    """Return the direct operands of a node, without the patterns of EXISTS in its expressions."""
    if isinstance(node, (Join, Union, Minus, LeftJoin)):
        return (node.left, node.right)
    if isinstance(node, (Bgp, Path, Values, TableNode)):
        return ()
    return (node.input,)


def with_children(node: Algebra, changed: Sequence[Algebra]) -> Algebra:
    """Return a node with its `children` (operands) replaced; the same object if no child changed."""
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
    """Yield the expressions of a node, without those of the patterns below it."""
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
    """Return a node with its `expressions` replaced; the same object if no expression changed."""
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
    """Return all patterns directly below a node: EXISTS patterns of its expressions, then `children`."""
    below = children(node)
    if not isinstance(node, _WITH_EXPRESSIONS):
        return below
    patterns = [pattern for expr in expressions(node) for pattern in patterns_of(expr)]
    return (*patterns, *below) if patterns else below


_WITH_EXPRESSIONS = (Filter, LeftJoin, Extend, OrderBy, Group)


def with_operands(node: Algebra, changed: Sequence[Algebra]) -> Algebra:
    """Return a node with its `operands` replaced; rewrites of the algebra recurse through this function.

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
    """Return the node with the patterns of EXISTS in its own expressions replaced, in their order."""
    if not changed:
        return node
    rest = iter(changed)
    return with_expressions(node, [put_patterns(each, rest) for each in expressions(node)])


def sub_expressions(expr: Expr) -> list[Expr]:
    """Return an expression and its sub-expressions in pre-order, without those in EXISTS patterns."""
    found: list[Expr] = []
    waiting = [expr]
    while waiting:
        each = waiting.pop()
        found.append(each)
        if isinstance(each, (Call, FunctionCall)):
            waiting.extend(reversed(each.args))
    return found


def map_expression(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Replace sub-expressions top down; where ``change`` returns None, the arguments are visited, too."""
    new = change(expr)
    if new is not None:
        return new
    if isinstance(expr, (Call, FunctionCall)):
        args = tuple([map_expression(each, change) for each in expr.args])
        same = all(map(is_, args, expr.args))
        return expr if same else replace(expr, args=args)
    return expr


def has_exists(expr: Expr) -> bool:
    """Return True if the expression contains EXISTS or NOT EXISTS."""
    return any(isinstance(each, Exists) for each in sub_expressions(expr))


def patterns_of(expr: Expr) -> list[Algebra]:
    """Return the patterns of all EXISTS in an expression."""
    return [each.pattern for each in sub_expressions(expr) if isinstance(each, Exists)]


def put_patterns(expr: Expr, changed: Iterator[Algebra]) -> Expr:
    """Return the expression with its EXISTS patterns, which `patterns_of` lists, replaced."""
    if isinstance(expr, Exists):
        return Exists(next(changed), expr.negated)
    if isinstance(expr, (Call, FunctionCall)):
        args = tuple([put_patterns(each, changed) for each in expr.args])
        return expr if all(map(is_, args, expr.args)) else replace(expr, args=args)
    return expr


def all_nodes(node: Algebra) -> Iterator[Algebra]:
    """Yield the node and all nodes below it in pre-order, including the patterns of EXISTS."""
    yield node
    for each in operands(node):
        yield from all_nodes(each)


def is_plain(root: Algebra) -> bool:
    """Return True for a pattern without a path, an expression, a GRAPH with a variable or a grouping."""
    return not any(
        isinstance(each, (Group, Path))
        or (isinstance(each, Graph) and isinstance(each.name, Var))
        or any(True for _ in expressions(each))
        for each in all_nodes(root)
    )


def is_modifier(node: Algebra) -> bool:
    """Return True for an algebra node that SPARQL text can express only as a SELECT."""
    return isinstance(node, (Project, Distinct, Slice, OrderBy, Group))


CHAIN = 32
"""Maximum number of operands that an associative operator combines left to right.

Longer runs of operands become a balanced tree.
"""

T = TypeVar("T")


def fold(combine: Callable[[T, T], T], parts: Sequence[T]) -> T:
    """Combine the parts left to right; a long run of an associative operator becomes a balanced tree.

    A left-deep tree of a very long text would exhaust the stack of every recursive function that walks the
    tree.
    """
    if len(parts) <= CHAIN:
        result = parts[0]
        for part in parts[1:]:
            result = combine(result, part)
        return result
    half = len(parts) // 2
    return combine(fold(combine, parts[:half]), fold(combine, parts[half:]))
