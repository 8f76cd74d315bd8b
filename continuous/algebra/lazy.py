"""Deferred BINDs: a BIND that no join needs is evaluated after the joins of its group.

The CQELS paper of 2021 (section 4.1) computes the value of a BIND only when the value is used. A BIND in a
window's block whose variable no join, filter or key uses is evaluated after the last join, for the rows that
are emitted or read. Before:

    Join(Window(w, Extend(Bgp(?x :value ?v), ?d, ?v * 2)), Table(0))

after:

    Extend(Join(Window(w, Bgp(?x :value ?v)), Table(0)), ?d, ?v * 2)

A BIND is not moved if its value could differ at the new place: if it calls NOW, RAND or a similar function,
contains EXISTS, or reads a variable that another operand of the join may bind. No BIND moves out of the right
side of OPTIONAL or MINUS, a branch of UNION, EXISTS or a sub-query.

With late filters (heuristic H4 of the CQELS paper of 2021), conditions of a FILTER that call uncertainty
functions move by the same rules, together with the BINDs that only these conditions read.
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
from .uncertain import divided
from .variables import NO_NAMES, Names, certain, expression_variables, in_scope


@dataclass(frozen=True, slots=True)
class _Moving:
    """A BIND, or a FILTER if ``var`` is None, that moves behind the joins of its group."""

    var: Var | None
    expr: Expr


def defer_binds(root: Algebra, *, late_filters: bool = False) -> Algebra:
    """Return the query with each BIND after the joins of its group, unless the joins need its variable.

    With ``late_filters``, conditions that call uncertainty functions are also evaluated after the joins of
    their group.
    """
    used = NO_NAMES
    for node in all_nodes(root):
        if isinstance(node, Filter):
            parts = _divided(node.condition)[0] if late_filters else [node.condition]
            used = used.union(*map(expression_variables, parts))
        elif isinstance(node, LeftJoin):
            used = used.union(*map(expression_variables, expressions(node)))
        elif isinstance(node, Group):
            used |= {key.name for key in node.keys}
    moved = _Mover(late_filters).visit(root, used)
    # Moving a BIND out of one operand may allow a BIND of another operand to move, so the rewriting repeats
    # until nothing moves.
    return root if moved == root else defer_binds(moved, late_filters=late_filters)


@dataclass(frozen=True, slots=True)
class _Mover:
    """Moves BINDs, and with ``late_filters`` uncertain conditions, after the joins of their groups."""

    late_filters: bool

    def visit(self, node: Algebra, used: Names) -> Algebra:
        """Return a node with BINDs moved after its joins, except BINDs of a variable in ``used``."""
        if isinstance(node, Join):
            return _with_moved(*self._split(node, used))
        return with_children(node, [self.visit(each, used) for each in children(node)])

    def _split(self, node: Algebra, used: Names) -> tuple[Algebra, list[_Moving]]:
        """Return a join operand without its movable BINDs and FILTERs, and a list of these in order."""
        match node:
            case Join(left, right):
                used |= in_scope(left) & in_scope(right)
                first, second = self._split(left, used), self._split(right, used)
                # A BIND or FILTER that moves must not see variables that only the other side of the join
                # binds.
                kept = [_split_movable(*first, in_scope(right)), _split_movable(*second, in_scope(left))]
                return join(kept[0][0], kept[1][0]), [*kept[0][1], *kept[1][1]]
            case LeftJoin(left, right, _) | Minus(left, right):
                used |= in_scope(left) & in_scope(right)
                inner, moving = _split_movable(*self._split(left, used), in_scope(right))
                return replace(node, left=inner, right=self.visit(right, used)), moving
            case Filter(condition, inner):
                inner, moving = self._split(inner, used)
                early, late = _divided(condition) if self.late_filters else ([condition], [])
                for each in early:
                    inner = Filter(each, inner)
                return inner, [*moving, *(_Moving(None, each) for each in late)]
            case Window(NamedNode(), inner, None):
                inner, moving = self._split(inner, used)
                return replace(node, input=inner), moving
            case Graph(name, inner):
                own = frozenset((name.name,)) if isinstance(name, Var) else NO_NAMES
                inner, moving = _split_movable(*self._split(inner, used | own), own)
                return replace(node, input=inner), moving
            case Extend(inner, var, expr):
                if var.name in used or has_exists(expr) or is_volatile(expr):
                    inner, moving = self._split(inner, used | expression_variables(expr))
                    return Extend(inner, var, expr), moving
                inner, moving = self._split(inner, used)
                return inner, [*moving, _Moving(var, expr)]
            case _:
                return self.visit(node, used), []


def _divided(condition: Expr) -> tuple[list[Expr], list[Expr]]:
    """Split a FILTER condition into the conditions that stay and the uncertain conditions that move."""
    early, late = divided(condition)
    stays = not late or has_exists(condition) or is_volatile(condition)
    return ([condition], []) if stays else (early, late)


def _split_movable(node: Algebra, moving: list[_Moving], others: Names) -> tuple[Algebra, list[_Moving]]:
    """Put back each moved BIND or FILTER that would see a variable of ``others``, and BINDs it reads."""
    sure = certain(node)
    back: list[_Moving] = []
    read = NO_NAMES
    for each in reversed(moving):
        name = None if each.var is None else each.var.name
        if name in read | others or expression_variables(each.expr) & others - sure:
            back.insert(0, each)
            read |= expression_variables(each.expr)
    return _with_moved(node, back), [each for each in moving if each not in back]


def _with_moved(node: Algebra, moving: list[_Moving]) -> Algebra:
    for each in moving:
        node = Filter(each.expr, node) if each.var is None else Extend(node, each.var, each.expr)
    return node
