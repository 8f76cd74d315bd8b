"""Rewrites RAND, UUID, STRUUID and BNODE to functions of the row that they are called for.

Before ``Extend(P, ?x, RAND())``; after ``Extend(P, ?x, <urn:quadrill:function:RAND>(1, COALESCE(?a, unbound),
...))`` with a number for the place in the text and every variable of P. The functions derive their value from
these arguments, so a replay repeats it (docs/semantics.md, section 1). NOW stays: its printer names it.
"""

from __future__ import annotations

from itertools import count

from pyoxigraph import Literal, NamedNode

from .build import map_children, map_expression, map_expressions
from .nodes import Algebra, Call, Constant, Exists, Expr, Extend, FunctionCall, Join, LeftJoin, Union, Var
from .static import VOLATILE, VOLATILE_PREFIX
from .variables import in_scope

UNBOUND = Literal("", datatype=NamedNode("urn:quadrill:unbound"))
"""Stands for an unbound variable in the arguments of a function that describes a row."""


def tie_to_rows(root: Algebra) -> Algebra:
    """The query with each call of RAND, UUID, STRUUID and BNODE tied to its row."""
    places = count(1)

    def visit(node: Algebra) -> Algebra:
        row: tuple[Expr, ...] | None = None

        def change(expr: Expr) -> Expr | None:
            if isinstance(expr, Exists):
                return Exists(visit(expr.pattern), expr.negated)
            if not isinstance(expr, Call) or expr.name not in VOLATILE or expr.name == "NOW":
                return None
            nonlocal row
            if row is None:
                row = tuple(_or_unbound(name) for name in sorted(in_scope(_base(node))))
            if expr.args:
                label = map_expression(expr.args[0], change)
                return FunctionCall(NamedNode(VOLATILE_PREFIX + "BNODE:named"), (label, *row))
            place = Constant(Literal(str(next(places))))
            return FunctionCall(NamedNode(VOLATILE_PREFIX + expr.name), (place, *row))

        return map_children(map_expressions(node, lambda expr: map_expression(expr, change)), visit)

    return visit(root)


def _base(node: Algebra) -> Algebra:
    """What the row of an expression is: the pattern below the BINDs, so that they share BNODE labels."""
    if isinstance(node, (Join, Union, LeftJoin)) or not hasattr(node, "input"):
        return node
    inner: Algebra = node.input
    if isinstance(node, Extend):
        while isinstance(inner, Extend):
            inner = inner.input
    return inner


def _or_unbound(name: str) -> Expr:
    return Call("COALESCE", (Var(name), Constant(UNBOUND)))
