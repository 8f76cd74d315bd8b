"""NOW() as a variable: the instant becomes a relation of one row that changes at every instant.

Before ``Filter(?t > NOW(), P)``; after ``Project(Filter(?t > ?_:now, Join(P, clock)), variables of P)``.
An incremental join with the clock evaluates the expression anew for the rows of P when the instant moves, and
only then; whatever stands around it sees the rows that changed.
"""

from __future__ import annotations

from dataclasses import replace

from .build import (
    expressions,
    join,
    map_children,
    map_expression,
    map_expressions,
    map_patterns,
    sub_expressions,
)
from .nodes import Algebra, Call, Expr, Extend, Filter, Group, LeftJoin, OrderBy, Project, Table, Var
from .variables import in_scope

NOW = "_:now"
CLOCK = Table("clock", (Var(NOW),), frozenset((NOW,)))


def with_clock(node: Algebra) -> Algebra:
    """The pattern with every NOW() read from the clock; the same pattern when there is none."""
    node = map_children(node, with_clock)
    node = map_expressions(node, lambda expr: map_patterns(expr, with_clock))
    if not any(map(_asks, expressions(node))):
        return node
    visible = tuple(Var(name) for name in sorted(in_scope(node)))
    node = map_expressions(node, lambda expr: map_expression(expr, _read))
    match node:
        case Filter() | Extend():
            return Project(replace(node, input=join(node.input, CLOCK)), visible)
        case LeftJoin(_, right, _):
            return Project(replace(node, right=join(right, CLOCK)), visible)
        case Group() | OrderBy():
            return replace(node, input=join(node.input, CLOCK))
        case _:
            return node


def _asks(expr: Expr) -> bool:
    return any(isinstance(each, Call) and each.name == "NOW" for each in sub_expressions(expr))


def _read(expr: Expr) -> Expr | None:
    return Var(NOW) if isinstance(expr, Call) and expr.name == "NOW" else None
