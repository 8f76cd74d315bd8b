"""The patterns of a rule body, and how a changed match of each can affect the solutions of the body."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.build import children, conditions_of, patterns_of
from ..algebra.variables import certain
from .lists import FIRST, REST, ListCells


@dataclass(frozen=True, slots=True)
class Occurrence:
    """One triple pattern or path of a rule body.

    Attributes:
        pattern: the pattern.
        visible: the variables that have the same value in a match of the pattern and in every solution of the
            body that the match affects.
        closed: True if a new match can remove solutions: in NOT EXISTS, in an EXISTS that is part of a larger
            expression, on the right side of MINUS or OPTIONAL, and in an aggregating sub-select.
        graph: the name of the enclosing GRAPH; None outside of GRAPH.
    """

    pattern: n.TriplePattern | n.Path
    visible: frozenset[str]
    closed: bool
    graph: NamedNode | n.Var | None = None


def occurrences(root: n.Algebra) -> list[Occurrence]:
    """Return all triple patterns and paths of a rule body."""
    return list(_walk(root, certain(root), False, None))


def _walk(
    node: n.Algebra, visible: frozenset[str], closed: bool, graph: NamedNode | n.Var | None
) -> Iterator[Occurrence]:
    match node:
        case n.Bgp(patterns):
            for triple in patterns:
                yield Occurrence(triple, visible, closed, graph)
        case n.Path():
            yield Occurrence(node, visible, closed, graph)
        case n.Graph(name, inner):
            yield from _walk(inner, visible, closed, name)
        case n.Filter(condition, inner):
            yield from _walk(inner, visible, closed, graph)
            seen = visible & certain(inner)
            for part in conditions_of(condition):
                positive = isinstance(part, n.Exists) and not part.negated
                for pattern in patterns_of(part):
                    yield from _walk(pattern, seen, closed or not positive, graph)
        case n.Extend(inner, _, expr):
            yield from _walk(inner, visible, closed, graph)
            for pattern in patterns_of(expr):
                yield from _walk(pattern, visible & certain(inner), True, graph)
        case n.LeftJoin(left, right, condition):
            yield from _walk(left, visible, closed, graph)
            seen = visible & certain(left)
            yield from _walk(right, seen, True, graph)
            for pattern in patterns_of(condition) if condition is not None else ():
                yield from _walk(pattern, seen, True, graph)
        case n.Minus(left, right):
            yield from _walk(left, visible, closed, graph)
            yield from _walk(right, visible & certain(left), True, graph)
        case n.Group(inner, keys, aggregates):
            seen = visible & {var.name for var in keys} & certain(inner)
            yield from _walk(inner, seen, True, graph)
            for _, aggregate in aggregates:
                for pattern in patterns_of(aggregate.expr) if aggregate.expr is not None else ():
                    yield from _walk(pattern, seen, True, graph)
        case n.Project(inner, variables):
            yield from _walk(inner, visible & {var.name for var in variables}, closed, graph)
        case _:
            for child in children(node):
                yield from _walk(child, visible, closed, graph)


def predicates_of(path: n.PathExpr | ListCells) -> frozenset[NamedNode] | None:
    """Return the predicates that a path reads; None if it may read any one, or may have length zero."""
    match path:
        case ListCells():
            return frozenset((FIRST, REST))
        case n.Link(iri):
            return frozenset((iri,))
        case n.Inverse(inner) | n.OneOrMore(inner):
            return predicates_of(inner)
        case n.Sequence(left, right) | n.Alternative(left, right):
            return union(predicates_of(left), predicates_of(right))
        case _:
            return None


def union(
    first: frozenset[NamedNode] | None, second: frozenset[NamedNode] | None
) -> frozenset[NamedNode] | None:
    """Return the union of two sets of predicates; None stands for all predicates."""
    return None if first is None or second is None else first | second
