"""Whether the solutions of a query have an order of their own (SPARQL 1.1 section 15)."""

from __future__ import annotations

from .nodes import Algebra, Distinct, OrderBy, Project, Reduced, Slice


def has_order(root: Algebra) -> bool:
    """True when the query itself has ORDER BY, LIMIT or OFFSET; those of a sub-query order nothing here."""
    if isinstance(root, Slice):
        return True
    inner = root.input if isinstance(root, Distinct | Reduced) else root
    inner = inner.input if isinstance(inner, Project) else inner
    return isinstance(inner, OrderBy)
