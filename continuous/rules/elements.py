"""Elements of a conjunction, and the estimates by which the planner orders them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .layout import Matcher, Names


def order_after(names: Names, inner: n.Algebra, before: list[JoinElement]) -> tuple[Names, list[JoinElement]]:
    """Return the variables that must be bound before an expression, or all elements of its operand.

    The elements are needed for a variable that a solution of the operand may leave unbound.
    """
    return (names, []) if names <= certain(inner) else (frozenset(), before)


class JoinElement:
    """One element of a conjunction, which the planner orders.

    Attributes:
        compile: returns the matcher for the variables bound before it.
        binds: the variables that are bound after it.
        cost: an estimate of its solutions for the variables bound before it.
        needs: variables that must be bound before it.
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
        """Return True if one of the elements must come first."""
        return any(each in elements for each in self._before)


def cost_of(node: n.Algebra) -> Callable[[Names], float]:
    """Return an estimate of a node's number of solutions, as a function of the variables bound before."""
    names = in_scope(node)

    def cost(bound: Names) -> float:
        if isinstance(node, n.Values):
            return float(len(node.rows))
        free = len(names - bound)
        return 5.0 if not free else 1e6 * free / (1 + len(names & bound))

    return cost


def cost_of_cells(node: n.Path, size: int) -> Callable[[Names], float]:
    """Return the cost of a path over the cells of a list: somewhat more than that of a triple pattern."""
    names = in_scope(node)

    def cost(bound: Names) -> float:
        free = len(names - bound)
        return 2.0 if not free else 4.0 + size**0.5 if free < len(names) else 1e6 + size

    return cost
