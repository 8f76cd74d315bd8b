"""The parts of LIMIT over DISTINCT over projection over ORDER BY, and what can wait for it.

A computed column is there for the rows shown alone, since an expression is a function of its row. A
condition of ORDER BY that asks for one computes its value, which needs no id.

    slice(project(order(extend(extend(P, ?key, k), ?text, t), ?key), ?text), 10)
        ->  ?text = t of ten rows of P, in the order of k
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .build import has_exists
from .nodes import Algebra, Distinct, Extend, OrderBy, OrderCondition, Project, Slice
from .variables import NO_NAMES, expression_variables, in_scope


@dataclass(frozen=True, slots=True)
class Sliced:
    """Rows of ``input`` in an order and cut; ``late`` are columns of them that it has not."""

    input: Algebra
    conditions: Sequence[OrderCondition]
    shown: Sequence[str]
    distinct: bool
    offset: int
    limit: int | None
    late: Sequence[Extend] = ()

    def with_deferred_columns(self) -> Sliced:
        """The same with columns computed as late as can be; all of them before where rows are compared."""
        if self.limit is None or self.distinct or any(has_exists(each.expr) for each in self.conditions):
            return self
        node, columns = self.input, []
        while isinstance(node, Extend) and not has_exists(node.expr):
            columns.append(node)
            node = node.input
        return replace(self, input=node, late=columns[::-1])


def sliced(node: Algebra) -> Sliced:
    """The parts of a node, each of which may be missing."""
    offset, limit = 0, None
    if isinstance(node, Slice):
        offset, limit, node = node.offset, node.limit, node.input
    distinct = isinstance(node, Distinct)
    if isinstance(node, Distinct):
        node = node.input
    shown: Sequence[str] | None = None
    if isinstance(node, Project):
        shown, node = [each.name for each in node.vars], node.input
    conditions: Sequence[OrderCondition] = ()
    if isinstance(node, OrderBy):
        conditions, node = node.conditions, node.input
    return Sliced(
        node, conditions, sorted(in_scope(node)) if shown is None else shown, distinct, offset, limit
    )


def condition_variables(conditions: Sequence[OrderCondition]) -> frozenset[str]:
    """The variables that conditions ask for."""
    return NO_NAMES.union(*(expression_variables(each.expr) for each in conditions))
