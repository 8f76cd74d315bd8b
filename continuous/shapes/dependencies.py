"""Dependencies: the triples that the results of a shape depend on, as paths from the focus node.

An incremental validation gets changed triples. For each path of a shape's dependencies,
`PathSteps.starts_through` walks back from a changed triple to the focus nodes whose results can change. A
path may use a triple before or after the change only, so callers walk back in both states. Focus nodes
that no path reaches, and that are focus nodes before and after, have the same results as before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from .vocabulary import SUB_CLASS_OF, TYPE

INSTANCE_OF = n.Sequence(n.Link(TYPE), n.ZeroOrMore(n.Link(SUB_CLASS_OF)))
"""The path from a node to the classes of which it is a SHACL instance."""
ANY_PROPERTY = n.NegatedSet((), ())
"""The path from a node to the objects of all its triples."""


@dataclass(frozen=True, slots=True)
class Dependencies:
    """Triples whose insertion or deletion can change results.

    Attributes:
        paths: paths from a focus node; a changed triple that such a path uses can change the results at the
            start of the path.
        anywhere: predicates of triples that can change the results at every focus node; None for all
            predicates. Empty unless a SPARQL constraint reads triples that no path connects with its focus
            node.
    """

    paths: frozenset[n.PathExpr] = frozenset()
    anywhere: frozenset[NamedNode] | None = frozenset()

    def after(self, path: n.PathExpr | None) -> Dependencies:
        """Return the dependencies of nodes from which ``path`` leads to the focus nodes of these."""
        if path is None:
            return self
        return Dependencies(frozenset(n.Sequence(path, each) for each in self.paths), self.anywhere)


NONE = Dependencies()


def merged(parts: Iterable[Dependencies]) -> Dependencies:
    """Return the union of dependencies."""
    paths: set[n.PathExpr] = set()
    anywhere: set[NamedNode] | None = set()
    for part in parts:
        paths |= part.paths
        anywhere = None if anywhere is None or part.anywhere is None else anywhere | part.anywhere
    return Dependencies(frozenset(paths), None if anywhere is None else frozenset(anywhere))


def reading(*paths: n.PathExpr) -> Dependencies:
    """Return the dependencies on paths from the focus node."""
    return Dependencies(frozenset(paths))
