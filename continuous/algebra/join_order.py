"""The order of joins over the evaluation store, and the condition for row-by-row joins."""

from __future__ import annotations

from collections.abc import Mapping

from pyoxigraph import NamedNode

from .build import conjuncts, join, operands, sub_expressions, with_operands
from .nodes import (
    Algebra,
    Alternative,
    Bgp,
    Exists,
    Expr,
    Extend,
    Filter,
    Graph,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Minus,
    OneOrMore,
    Path,
    PathExpr,
    Sequence,
    Slice,
    TableNode,
    Union,
    Values,
    Window,
    ZeroOrMore,
    ZeroOrOne,
)
from .variables import Names, certain, expression_variables, in_scope


def may_be_lateral(left: Algebra, right: Algebra) -> bool:
    """Return True if evaluating a join's right side per row of the left side gives the join's rows.

    LATERAL (SPARQL-dev SEP-0006) substitutes each row of the left side L into the right side R before R is
    evaluated. The result of LATERAL is the join unless an expression, OPTIONAL or sub-query of R would see a
    variable of L that SPARQL hides from it.
    """
    return _same(right, in_scope(left))


def _same(node: Algebra, outer: Names) -> bool:
    match node:
        case Bgp() | TableNode():
            return True
        case Path(_, path, _):
            return not _matches_nothing(path)
        case Values(variables, _):
            # SEP-0006 (LATERAL) forbids inline data, like BIND, for a variable that the left side binds.
            return not outer & {var.name for var in variables}
        case Join(left, right) | Union(left, right):
            return _same(left, outer) and _same(right, outer)
        case Graph(_, inner):
            return _same(inner, outer)
        case Filter(condition, inner):
            return _sees_the_same(condition, outer, certain(inner)) and _same(inner, outer)
        case Extend(inner, var, expr):
            return (
                var.name not in outer and _sees_the_same(expr, outer, certain(inner)) and _same(inner, outer)
            )
        case LeftJoin(left, right, condition):
            both = certain(left) | certain(right)
            return (
                _same(left, outer)
                and _same(right, outer)
                and in_scope(right) & outer <= certain(left)
                and (condition is None or _sees_the_same(condition, outer, both))
            )
        case _:
            return False


def _sees_the_same(expr: Expr, outer: Names, bound: Names) -> bool:
    if any(isinstance(each, Exists) for each in sub_expressions(expr)):
        return False
    return expression_variables(expr) & outer <= bound


def _matches_nothing(path: PathExpr) -> bool:
    """Return True for a path of length zero, which matches a term even if the graph lacks the term."""
    match path:
        case ZeroOrMore() | ZeroOrOne():
            return True
        case Inverse(inner) | OneOrMore(inner):
            return _matches_nothing(inner)
        case Sequence(left, right):
            return _matches_nothing(left) and _matches_nothing(right)
        case Alternative(left, right):
            return _matches_nothing(left) or _matches_nothing(right)
        case _:
            return False


_UNKNOWN = 1e6


class JoinOrder:
    """Orders the joins of one query by the sizes of its windows and of its static tables."""

    def __init__(self, windows: Mapping[NamedNode, float], rows: Mapping[str, int]) -> None:
        self._windows = windows
        self._rows = rows

    def order(self, node: Algebra) -> Algebra:
        """Return the query with the operands of each group of joins in the order of evaluation."""
        if isinstance(node, Window):
            return node
        if isinstance(node, Join):
            return join(*self._greedy([self.order(each) for each in conjuncts(node)]))
        node = with_operands(node, [self.order(each) for each in operands(node)])
        return _as_exists(node) if isinstance(node, Minus) else node

    def _greedy(self, operands: list[Algebra]) -> list[Algebra]:
        """Return the order of joins: first the smallest operand, then the smallest that shares a variable."""
        waiting = list(operands)
        ordered: list[Algebra] = []
        bound: frozenset[str] = frozenset()
        while waiting:
            touching = [each for each in waiting if in_scope(each) & bound] or waiting
            chosen = min(touching, key=self.size)
            waiting.remove(chosen)
            ordered.append(chosen)
            bound |= in_scope(chosen)
        return ordered

    def size(self, node: Algebra) -> float:
        """Return an estimate of how many solutions the pattern has."""
        match node:
            case TableNode(name, _, _):
                return float(self._rows.get(name, 0))
            case Values(_, rows):
                return float(len(rows))
            case Window(name, inner, _):
                return self._windows.get(name, _UNKNOWN) if _is_pattern(inner) else _UNKNOWN  # type: ignore[arg-type]
            case Join(left, right):
                return max(self.size(left), self.size(right))
            case Union(left, right):
                return self.size(left) + self.size(right)
            case LeftJoin(left, _, _) | Minus(left, _) | Filter(_, left):
                return self.size(left)
            case Group(_, (), _):
                return 1.0
            case Slice(_, _, limit) if limit is not None:
                return float(limit)
            case _:
                return _UNKNOWN


def _as_exists(node: Minus) -> Algebra:
    """Return MINUS as NOT EXISTS if both are equal, because Oxigraph scans the right side of MINUS.

    MINUS and NOT EXISTS are equal if the sides share a variable and both sides always bind all shared
    variables (SPARQL 1.1 section 8.3).
    """
    shared = in_scope(node.left) & in_scope(node.right)
    sure = shared and shared <= certain(node.left) & certain(node.right)
    if sure and may_be_lateral(node.left, node.right):
        return Filter(Exists(node.right, negated=True), node.left)
    return node


def _is_pattern(node: Algebra) -> bool:
    """Return True for a basic graph pattern, possibly inside FILTERs and GRAPH."""
    while isinstance(node, (Filter, Graph)):
        node = node.input
    return isinstance(node, Bgp)
