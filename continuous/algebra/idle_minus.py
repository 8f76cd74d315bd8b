"""MINUS whose sides share no variable removes nothing (SPARQL 1.1 section 8.3.3), so it is dropped.

Before ``Minus(P, Q)`` with no variable in common; after ``P``. Inside EXISTS Oxigraph would count the
variables of the row that is tested as common ones and remove rows.
"""

from __future__ import annotations

from .build import map_children, map_expressions, map_patterns
from .nodes import Algebra, Minus
from .variables import in_scope


def drop_idle_minus(node: Algebra) -> Algebra:
    """The query without every MINUS that can not remove anything."""
    if isinstance(node, Minus) and not in_scope(node.left) & in_scope(node.right):
        return drop_idle_minus(node.left)
    node = map_expressions(node, lambda expr: map_patterns(expr, drop_idle_minus))
    return map_children(node, drop_idle_minus)
