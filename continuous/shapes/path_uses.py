"""The triples that a property path can use, each with the part of the path that leads to the triple.

An incremental validation looks up the predicate of a changed triple among the steps of all paths. The
validation walks back to the start of a path only from triples that the path can use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from .dependencies import joined


@dataclass(frozen=True, slots=True)
class PathUse:
    """One step of a property path, which leads over one triple.

    Attributes:
        predicate: the predicate of the triple; None for any predicate.
        near: the position in the triple of the node that the path reaches first: 0 for the subject, 2 for the
            object.
        before: the path from the start to this node; None if this node is the start.
    """

    predicate: NamedNode | None
    near: Literal[0, 2]
    before: n.PathExpr | None


def uses_of(path: n.PathExpr) -> Iterator[PathUse]:
    """Yield the steps of a path over triples.

    A path from a start uses a triple only if a step with its predicate is yielded, whose path ``before``
    leads from the start to the near node of the triple in the same graph.
    """
    yield from _uses(path, None, True)


def _uses(path: n.PathExpr, before: n.PathExpr | None, ahead: bool) -> Iterator[PathUse]:
    """Yield the steps of a path that starts after ``before``, or of its inverse if ``ahead`` is False."""
    match path:
        case n.Link(iri):
            yield PathUse(iri, 0 if ahead else 2, before)
        case n.Inverse(inner):
            yield from _uses(inner, before, not ahead)
        case n.Sequence(left, right):
            first, second = (left, right) if ahead else (right, left)
            yield from _uses(first, before, ahead)
            yield from _uses(second, joined(before, first if ahead else n.Inverse(first)), ahead)
        case n.Alternative(left, right):
            yield from _uses(left, before, ahead)
            yield from _uses(right, before, ahead)
        case n.ZeroOrOne(inner):
            yield from _uses(inner, before, ahead)
        case n.ZeroOrMore(inner) | n.OneOrMore(inner):
            repeated = n.ZeroOrMore(inner)
            yield from _uses(inner, joined(before, repeated if ahead else n.Inverse(repeated)), ahead)
        case n.NegatedSet(forward, inverse):
            if forward or not inverse:
                yield PathUse(None, 0 if ahead else 2, before)
            if inverse:
                yield PathUse(None, 2 if ahead else 0, before)
