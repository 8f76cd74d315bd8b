"""Lazy variables: BINDs that wait until the joins of their group have been made.

The paper of 2021 (section 4.1) computes a value when it is used. A BIND in a window's block whose variable
no join, filter or key uses is evaluated behind the last join, for the rows that are emitted or read. Before:

    Join(Window(w, Extend(Bgp(?x :value ?v), ?d, ?v * 2)), Table(0))

after:

    Extend(Join(Window(w, Bgp(?x :value ?v)), Table(0)), ?d, ?v * 2)

A BIND stays where the other place could give it another value: where it calls NOW, RAND or their like, holds
EXISTS, or reads a variable that the rest of the join may bind. Nothing leaves the right side of OPTIONAL or
MINUS, a branch of UNION, EXISTS or a sub-query.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyoxigraph import NamedNode

from .build import all_nodes, children, expressions, has_exists, join, with_children
from .nodes import (
    Algebra,
    Expr,
    Extend,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    Var,
    Window,
)
from .static import is_volatile
from .variables import NO_NAMES, Names, certain, expression_variables, in_scope


@dataclass(frozen=True, slots=True)
class _Bind:
    """A BIND on its way out of its block."""

    var: Var
    expr: Expr


def compute_late(root: Algebra) -> Algebra:
    """The query with each BIND behind the joins of its group where its variable is used no sooner."""
    used = NO_NAMES
    for node in all_nodes(root):
        if isinstance(node, Filter | LeftJoin):
            used = used.union(*map(expression_variables, expressions(node)))
        elif isinstance(node, Group):
            used |= {key.name for key in node.keys}
    return _visit(root, used)


def _visit(node: Algebra, used: Names) -> Algebra:
    """The node with what its joins let out behind them; ``used`` are variables that are needed early."""
    if isinstance(node, Join):
        return _placed(*_taken(node, used))
    return with_children(node, [_visit(each, used) for each in children(node)])


def _taken(node: Algebra, used: Names) -> tuple[Algebra, list[_Bind]]:
    """An operand of a join without the BINDs that may wait, and these in their order."""
    match node:
        case Join(left, right):
            used |= in_scope(left) & in_scope(right)
            first, second = _taken(left, used), _taken(right, used)
            # A BIND must not see what the other side binds.
            kept = [_staying(*first, in_scope(right)), _staying(*second, in_scope(left))]
            return join(kept[0][0], kept[1][0]), [*kept[0][1], *kept[1][1]]
        case LeftJoin(left, right, _) | Minus(left, right):
            used |= in_scope(left) & in_scope(right)
            inner, binds = _staying(*_taken(left, used), in_scope(right))
            return replace(node, left=inner, right=_visit(right, used)), binds
        case Filter(_, inner):
            inner, binds = _taken(inner, used)
            return replace(node, input=inner), binds
        case Window(NamedNode(), inner, None):
            inner, binds = _taken(inner, used)
            return replace(node, input=inner), binds
        case Graph(name, inner):
            own = frozenset((name.name,)) if isinstance(name, Var) else NO_NAMES
            inner, binds = _staying(*_taken(inner, used | own), own)
            return replace(node, input=inner), binds
        case Extend(inner, var, expr):
            if var.name in used or has_exists(expr) or is_volatile(expr):
                inner, binds = _taken(inner, used | expression_variables(expr))
                return Extend(inner, var, expr), binds
            inner, binds = _taken(inner, used)
            return inner, [*binds, _Bind(var, expr)]
        case _:
            return _visit(node, used), []


def _staying(node: Algebra, binds: list[_Bind], others: Names) -> tuple[Algebra, list[_Bind]]:
    """Put the BINDs back that could see a variable of ``others`` elsewhere, and those that they read."""
    sure = certain(node)
    back: list[_Bind] = []
    read = NO_NAMES
    for bind in reversed(binds):
        if bind.var.name in read | others or expression_variables(bind.expr) & others - sure:
            back.insert(0, bind)
            read |= expression_variables(bind.expr)
    return _placed(node, back), [each for each in binds if each not in back]


def _placed(node: Algebra, binds: list[_Bind]) -> Algebra:
    for bind in binds:
        node = Extend(node, bind.var, bind.expr)
    return node
