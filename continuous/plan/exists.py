"""When EXISTS may be answered by a join.

EXISTS substitutes the variables of the row into its pattern before it is evaluated (SPARQL 1.1, section
18.6). For patterns that only restrict (joins, unions, filters over what they bind) that gives the same as
joining the pattern's solutions with the row, which can be kept up to date. For others it does not, and they
are refused.
"""

from __future__ import annotations

from quadrill.store.errors import UnsupportedError

from ..algebra.build import sub_expressions
from ..algebra.nodes import (
    Algebra,
    Bgp,
    Distinct,
    Exists,
    Expr,
    Extend,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Path,
    Project,
    Reduced,
    Table,
    Union,
    Values,
    Window,
)
from ..algebra.variables import certain, expression_variables, mentioned

Names = frozenset[str]


def has_exists(expr: Expr) -> bool:
    """True when the expression holds EXISTS or NOT EXISTS."""
    return any(isinstance(each, Exists) for each in sub_expressions(expr))


def correlation(node: Algebra, outer: Names) -> None:
    """Check that joining with the row is substitution; raises UnsupportedError when it is not.

    ``outer`` are the variables of the row that EXISTS is asked for.
    """
    if outer & mentioned(node) and not _joins(node, outer):
        raise UnsupportedError(
            "EXISTS over a pattern in which the outer row is used below OPTIONAL, MINUS or BIND"
        )


def _joins(node: Algebra, outer: Names) -> bool:
    used = outer & mentioned(node)
    if not used:
        return True
    match node:
        case Bgp() | Path() | Table() | Values():
            return True
        case Join(left, right) | Union(left, right):
            return _joins(left, outer) and _joins(right, outer)
        case Graph(_, inner) | Window(_, inner, _) | Distinct(inner) | Reduced(inner):
            return _joins(inner, outer)
        case Filter(condition, inner):
            return (
                not has_exists(condition)
                and expression_variables(condition) & outer <= certain(inner)
                and _joins(inner, outer)
            )
        case LeftJoin(left, right, condition):
            inside = mentioned(right) | (
                expression_variables(condition) if condition is not None else frozenset()
            )
            return inside & outer <= certain(left) and _joins(left, outer) and _joins(right, outer)
        case Extend(inner, var, expr):
            return (
                var.name not in outer
                and not has_exists(expr)
                and expression_variables(expr) & outer <= certain(inner)
                and _joins(inner, outer)
            )
        case Project(inner, variables):
            return _joins(inner, outer & {each.name for each in variables})
        case Group(inner, keys, _):
            return bool(keys) and _joins(inner, outer & {each.name for each in keys})
        case _:
            return False
