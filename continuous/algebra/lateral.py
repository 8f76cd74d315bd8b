"""When a join may be evaluated row by row: Join(L, R) = LATERAL(L, R).

LATERAL (SPARQL-dev SEP-0006) substitutes each row of L into R before R is evaluated. That gives the join as
long as no expression, OPTIONAL or sub-query of R would see a variable of L that it does not see in SPARQL.
"""

from __future__ import annotations

from .build import sub_expressions
from .nodes import (
    Algebra,
    Alternative,
    Bgp,
    Exists,
    Expr,
    Extend,
    Filter,
    Graph,
    Inverse,
    Join,
    LeftJoin,
    OneOrMore,
    Path,
    PathExpr,
    Sequence,
    Table,
    Union,
    Values,
    ZeroOrMore,
    ZeroOrOne,
)
from .variables import Names, certain, expression_variables, in_scope


def may_be_lateral(left: Algebra, right: Algebra) -> bool:
    """True when the right side gives the same joined rows with the left side's bindings substituted."""
    return _same(right, in_scope(left))


def _same(node: Algebra, outer: Names) -> bool:
    match node:
        case Bgp() | Table():
            return True
        case Path(_, path, _):
            return not _matches_nothing(path)
        case Values(variables, _):
            # SEP-0006 forbids inline data for a variable that the left side has, as it forbids BIND.
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
    """True for paths of length zero, which match a substituted term that is not in the graph."""
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
