"""Dependencies: the triples that the results of a shape depend on, as paths from the focus node.

An incremental validation follows each of these paths backward, from a changed triple to the focus nodes whose
results can change. It follows paths from removed triples in the state before the change, and from added
triples in the state after the change. All other focus nodes keep their results, unless ``anywhere`` has the
predicate of a changed triple.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..rules.triggers import union
from .vocabulary import SUB_CLASS_OF, TYPE

INSTANCE_OF = n.Sequence(n.Link(TYPE), n.ZeroOrMore(n.Link(SUB_CLASS_OF)))
"""The path from a node to the classes of which it is a SHACL instance."""
ANY_PROPERTY = n.NegatedSet((), ())
"""The path from a node to the objects of all its triples."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """The triples whose insertion or deletion can change the results of a shape.

    Attributes:
        paths: paths from a focus node; a changed triple on one of the paths can change the results at the
            focus node where the path starts.
        anywhere: predicates of triples that can change the results at every focus node; None for all
            predicates. The set has the predicates of triples that a SPARQL constraint reads without a path
            from its focus node, and of paths over the limits of `bounded`.
    """

    paths: frozenset[n.PathExpr] = frozenset()
    anywhere: frozenset[NamedNode] | None = frozenset()

    def after(self, path: n.PathExpr | None) -> Dependencies:
        """Return these dependencies for other focus nodes, from which ``path`` leads to the present ones."""
        if path is None:
            return self
        return bounded((n.Sequence(path, each) for each in self.paths), self.anywhere)


NONE = Dependencies()


def merged(parts: Iterable[Dependencies]) -> Dependencies:
    """Return the union of dependencies."""
    paths: set[n.PathExpr] = set()
    anywhere: frozenset[NamedNode] | None = frozenset()
    for part in parts:
        paths |= part.paths
        anywhere = union(anywhere, part.anywhere)
    return bounded(paths, anywhere)


def bounded(paths: Iterable[n.PathExpr], anywhere: frozenset[NamedNode] | None) -> Dependencies:
    """Return dependencies with at most `MOST_PATHS` paths, each with at most `LONGEST_PATH` syntax nodes.

    A longer path is replaced by its predicates in ``anywhere``; if too many paths remain, all paths are
    replaced. Without this limit, shapes that use one another in many ways would have too many paths to list.
    """
    kept: set[n.PathExpr] = set()
    for path in paths:
        if _size(path) > LONGEST_PATH:
            anywhere = union(anywhere, predicates_of(path))
        else:
            kept.add(path)
    if len(kept) > MOST_PATHS:
        for path in kept:
            anywhere = union(anywhere, predicates_of(path))
        kept = set()
    return Dependencies(frozenset(kept), anywhere)


MOST_PATHS = 500
LONGEST_PATH = 250


def joined(first: n.PathExpr | None, then: n.PathExpr) -> n.PathExpr:
    """Return the path that leads along ``first`` and then along ``then``; None stands for no path."""
    return then if first is None else n.Sequence(first, then)


def predicates_of(path: n.PathExpr) -> frozenset[NamedNode] | None:
    """Return the predicates of the triples that a path can use from a given node; None for all predicates."""
    match path:
        case n.Link(iri):
            return frozenset((iri,))
        case n.Sequence(left, right) | n.Alternative(left, right):
            return union(predicates_of(left), predicates_of(right))
        case n.NegatedSet():
            return None
        case n.Inverse(inner) | n.OneOrMore(inner) | n.ZeroOrMore(inner) | n.ZeroOrOne(inner):
            return predicates_of(inner)


def _size(path: n.PathExpr) -> int:
    match path:
        case n.Sequence(left, right) | n.Alternative(left, right):
            return 1 + _size(left) + _size(right)
        case n.Inverse(inner) | n.OneOrMore(inner) | n.ZeroOrMore(inner) | n.ZeroOrOne(inner):
            return 1 + _size(inner)
        case _:
            return 1


def reading(*paths: n.PathExpr) -> Dependencies:
    """Return dependencies that consist of paths from the focus node."""
    return Dependencies(frozenset(paths))
