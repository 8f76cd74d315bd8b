"""Recognises rule bodies whose solutions depend on which graphs exist, and not only on their triples."""

from __future__ import annotations

from ..algebra import nodes as n
from ..algebra.build import all_nodes
from .paths import may_be_empty


def lists_graphs(body: n.Algebra) -> bool:
    """Return True if a ``GRAPH ?g`` may have a solution that matches no triple, as ``GRAPH ?g {}`` has."""
    return any(
        isinstance(node, n.Graph) and isinstance(node.name, n.Var) and not _matches_triple(node.input)
        for node in all_nodes(body)
    )


def _matches_triple(node: n.Algebra) -> bool:
    """Return True if every solution of a node certainly matches a triple of the enclosing graph."""
    match node:
        case n.Bgp(patterns):
            return bool(patterns)
        case n.Path():
            return not may_be_empty(node.path)
        case n.Join(left, right):
            return _matches_triple(left) or _matches_triple(right)
        case n.Union(left, right):
            return _matches_triple(left) and _matches_triple(right)
        case n.LeftJoin(left) | n.Minus(left):
            return _matches_triple(left)
        case n.Filter(_, inner) | n.Extend(inner) | n.Project(inner) | n.Distinct(inner) | n.OrderBy(inner):
            return _matches_triple(inner)
        case n.Group(inner, keys):
            return bool(keys) and _matches_triple(inner)
        case _:
            return False
