"""The parts of a conjunction (patterns, FILTERs, BINDs and others), and their cost estimates.

`matching` orders the parts of a conjunction by these estimates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .layout import Matcher, Names


def order_after(names: Names, inner: n.Algebra, before: list[JoinElement]) -> tuple[Names, list[JoinElement]]:
    """Return what must come before a FILTER or BIND that reads the variables ``names``.

    If each solution of the operand ``inner`` binds them, the result is ``names`` and no elements. Otherwise
    the result is no variables and the elements ``before`` of the operand, because a variable may then stay
    unbound after the operand has been evaluated.
    """
    return (names, []) if names <= certain(inner) else (frozenset(), before)


class JoinElement:
    """One part of a conjunction: a pattern, a FILTER, a BIND or any other node of the algebra.

    Attributes:
        compile: returns the matcher of the part, given the variables that are bound before the matcher runs.
        binds: the variables that the part certainly binds.
        cost: estimates the number of solutions of the part, given the variables that are bound before.
        needs: the variables that must be bound before the part.
    """

    __slots__ = ("_before", "binds", "compile", "cost", "needs")

    def __init__(
        self,
        compile: Callable[[Names], Matcher],
        binds: Names,
        cost: Callable[[Names], float],
        needs: Names = frozenset(),
        before: Sequence[JoinElement] = (),
    ) -> None:
        self.compile, self.binds, self.cost, self.needs = compile, binds, cost, needs
        self._before = before

    def follows(self, elements: Sequence[JoinElement]) -> bool:
        """Return True if this part must come after at least one of ``elements``."""
        return any(each in elements for each in self._before)


def cost_of(node: n.Algebra) -> Callable[[Names], float]:
    """Return a function that estimates the number of solutions of a node from the variables bound before."""
    names = in_scope(node)

    def cost(bound: Names) -> float:
        if isinstance(node, n.Values):
            return float(len(node.rows))
        free = len(names - bound)
        return 5.0 if not free else 1e6 * free / (1 + len(names & bound))

    return cost


def cost_of_cells(node: n.Path, size: int) -> Callable[[Names], float]:
    """Return the cost function of a path over the cells of a list: about the cost of a triple pattern.

    ``size`` is the estimated number of list cells among the facts.
    """
    names = in_scope(node)

    def cost(bound: Names) -> float:
        free = len(names - bound)
        return 2.0 if not free else 4.0 + size**0.5 if free < len(names) else 1e6 + size

    return cost
