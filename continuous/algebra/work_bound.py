"""Upper bound of the rows that one evaluation of a pattern enumerates, from the sizes of its inputs."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from pyoxigraph import NamedNode

from . import nodes as n
from .build import operands
from .nodes import Algebra, PathExpr


class WorkBound:
    """Computes upper bounds of the rows that one evaluation of a pattern enumerates.

    For the bound, every triple pattern is assumed to match all quads, and every join to be a cross product.
    So the bound is never less than the number of enumerated rows, and often much greater.
    """

    def __init__(self, window: Callable[[NamedNode | n.Var], int], rows: Callable[[str], int]) -> None:
        """Create bounds from functions for a window's number of quads and a table's number of rows."""
        self._window = window
        self._rows = rows

    def of(self, node: Algebra, quads: int) -> int:
        """Return the bound of a pattern over the given number of quads.

        >>> from .nodes import Bgp, TriplePattern, Var
        >>> pattern = TriplePattern(Var("a"), NamedNode("urn:p"), Var("b"))
        >>> bound = WorkBound(lambda name: 100, lambda name: 10)
        >>> bound.of(n.Union(Bgp((pattern,)), n.Window(Var("w"), Bgp((pattern, pattern)))), 5)
        10005
        """
        match node:
            case n.Bgp(patterns):
                return prod([max(quads, 1)] * len(patterns))
            case n.Path(_, path):
                return _path(path, max(quads, 1))
            case n.Values(_, rows):
                return max(len(rows), 1)
            case n.TableNode(name):
                return max(self._rows(name), 1)
            case n.Union(left, right):
                return self.of(left, quads) + self.of(right, quads)
            case n.Window(name, below):
                return self.of(below, self._window(name))
            case _:
                return prod([self.of(each, quads) for each in operands(node)])


def _path(path: PathExpr, quads: int) -> int:
    """Return the bound of a path; a path of any length pairs each node with all that it reaches."""
    match path:
        case n.Sequence(left, right):
            return _path(left, quads) * _path(right, quads)
        case n.Alternative(left, right):
            return _path(left, quads) + _path(right, quads)
        case n.ZeroOrMore(below) | n.OneOrMore(below):
            return 2 * quads * _path(below, quads)
        case n.ZeroOrOne(below):
            return 2 * quads + _path(below, quads)
        case n.Inverse(below):
            return _path(below, quads)
        case _:
            return quads
