"""Splits LIMIT over DISTINCT over projection over ORDER BY, so that columns are computed after LIMIT.

A computed column is needed only for the rows of the result, since an expression is a function of its row. A
condition of ORDER BY that uses a computed column computes the column's value itself, without a term id.

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
    """A LIMIT split from its input; ``late`` are columns that are computed after LIMIT."""

    input: Algebra
    conditions: Sequence[OrderCondition]
    shown: Sequence[str]
    distinct: bool
    offset: int
    limit: int | None
    late: Sequence[Extend] = ()

    def with_deferred_columns(self) -> Sliced:
        """Return the same LIMIT with columns computed after it, unless DISTINCT compares rows."""
        if self.limit is None or self.distinct or any(has_exists(each.expr) for each in self.conditions):
            return self
        node, columns = self.input, []
        while isinstance(node, Extend) and not has_exists(node.expr):
            columns.append(node)
            node = node.input
        return replace(self, input=node, late=columns[::-1])


def sliced(node: Algebra) -> Sliced:
    """Split a node into LIMIT, DISTINCT, projection and ORDER BY, each of which may be missing."""
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
    """Return the variables that conditions of ORDER BY use."""
    return NO_NAMES.union(*(expression_variables(each.expr) for each in conditions))
