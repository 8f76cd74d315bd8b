"""The predicates that a pattern can match: what decides whether a change can touch it."""

from __future__ import annotations

from collections.abc import Iterable

from pyoxigraph import NamedNode

from .nodes import (
    Algebra,
    Alternative,
    Bgp,
    Inverse,
    Link,
    NegatedSet,
    OneOrMore,
    Path,
    PathExpr,
    Sequence,
    Table,
    Var,
    ZeroOrMore,
    ZeroOrOne,
)


def predicates_of(nodes: Iterable[Algebra]) -> frozenset[NamedNode] | None:
    """All predicates of the triple patterns and paths among the nodes; None when any predicate may match."""
    found: set[NamedNode] = set()
    for node in nodes:
        if isinstance(node, Bgp):
            for pattern in node.patterns:
                if isinstance(pattern.predicate, Var):
                    return None
                found.add(pattern.predicate)
        elif isinstance(node, Path):
            links = _links(node.path)
            if links is None:
                return None
            found |= links
        elif isinstance(node, Table):
            return None
    return frozenset(found)


def _links(path: PathExpr) -> frozenset[NamedNode] | None:
    """The predicates of a path; a path of length zero matches every node of the graph."""
    match path:
        case Link(iri):
            return frozenset((iri,))
        case Inverse(inner) | OneOrMore(inner):
            return _links(inner)
        case Sequence(left, right) | Alternative(left, right):
            first, second = _links(left), _links(right)
            return None if first is None or second is None else first | second
        case ZeroOrMore() | ZeroOrOne() | NegatedSet():
            return None
