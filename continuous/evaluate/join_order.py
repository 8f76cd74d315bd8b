"""The order of joins over the evaluation store: small operands first, then what shares variables with them.

Oxigraph orders joins by the shape of patterns alone; it can not know that a window [NOW] holds a few triples
and a static table forty thousand rows. Here the sizes are known, so the operands of each join group are put
in order, and those that may be are looked up row by row (`may_be_lateral`).
"""

from __future__ import annotations

from collections.abc import Mapping

from pyoxigraph import NamedNode

from ..algebra.build import conjuncts, join, map_children, map_expressions, map_patterns
from ..algebra.lateral import may_be_lateral
from ..algebra.nodes import (
    Algebra,
    Bgp,
    Exists,
    Filter,
    Graph,
    Group,
    Join,
    LeftJoin,
    Minus,
    Slice,
    Table,
    Union,
    Values,
    Window,
)
from ..algebra.query import WindowDeclaration
from ..algebra.variables import certain, in_scope

_UNKNOWN = 1e6
_PER_SECOND = 10.0
_PER_ELEMENT = 4.0


class JoinOrder:
    """Orders the joins of one query; ``rows`` are the sizes of its static tables."""

    def __init__(self, windows: Mapping[NamedNode, WindowDeclaration], rows: Mapping[str, int]) -> None:
        self._windows = windows
        self._rows = rows

    def order(self, node: Algebra) -> Algebra:
        """The query with the operands of each join group in the order of evaluation."""
        if isinstance(node, Window):
            return node
        if isinstance(node, Join):
            return join(*self._greedy([self.order(each) for each in conjuncts(node)]))
        node = map_expressions(node, lambda expr: map_patterns(expr, self.order))
        node = map_children(node, self.order)
        return _as_exists(node) if isinstance(node, Minus) else node

    def _greedy(self, operands: list[Algebra]) -> list[Algebra]:
        """Start with the smallest; go on with the smallest that shares a variable, if any does."""
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
        """About how many solutions the pattern has."""
        match node:
            case Table(name, _, _):
                return float(self._rows.get(name, 0))
            case Values(_, rows):
                return float(len(rows))
            case Window(name, inner, _):
                return self._window_size(name) if _is_pattern(inner) else _UNKNOWN
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

    def _window_size(self, name: object) -> float:
        declaration = self._windows.get(name) if isinstance(name, NamedNode) else None
        if declaration is None:
            return _UNKNOWN
        spec = declaration.spec
        match spec.kind:
            case "now":
                return 2.0
            case "triples" | "batch":
                return float(spec.count)
            case "elements":
                return spec.count * _PER_ELEMENT
            case "range" | "grid":
                return max(4.0, spec.width_ms / 1000 * _PER_SECOND)
            case "all":
                return _UNKNOWN


def _as_exists(node: Minus) -> Algebra:
    """MINUS as NOT EXISTS where they are the same: Oxigraph looks that up, but scans the right side of MINUS.

    They are when both sides surely bind what they share, and share something (SPARQL 1.1 section 8.3).
    """
    shared = in_scope(node.left) & in_scope(node.right)
    sure = shared and shared <= certain(node.left) & certain(node.right)
    if sure and may_be_lateral(node.left, node.right):
        return Filter(Exists(node.right, negated=True), node.left)
    return node


def _is_pattern(node: Algebra) -> bool:
    """A basic graph pattern, perhaps filtered or in GRAPH."""
    while isinstance(node, (Filter, Graph)):
        node = node.input
    return isinstance(node, Bgp)
