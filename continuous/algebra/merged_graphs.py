"""Evaluates patterns over a default graph that is the merge of several graphs, as a set of triples.

For a merged default graph, Oxigraph returns a solution once for each graph that contains the triple. The
solutions of a basic graph pattern over a set of triples differ in at least one variable or blank node of the
pattern, so DISTINCT over all of these variables gives each solution once. Source: SPARQL 1.1 Query 13.2.1
(the RDF merge), Update 3.1.3 (USING).
"""

from __future__ import annotations

from itertools import count

from . import nodes as n
from .build import (
    UNIT,
    children,
    expressions,
    join,
    patterns_of,
    put_patterns,
    sub_expressions,
    with_children,
    with_expressions,
)
from .nodes import Algebra, Call, Var
from .static import is_volatile
from .variables import in_scope

_VOLATILE = frozenset(("RAND", "UUID", "STRUUID", "BNODE"))
_ONCE = frozenset(("MIN", "MAX", "SAMPLE"))


def as_set(node: Algebra, counts: bool = True) -> Algebra:
    """Return the pattern over a merged default graph; ``counts``: duplicates change the result."""
    return _Merged().rewrite(node, counts)


class _Merged:
    def __init__(self) -> None:
        self._numbers = count(1)

    def rewrite(self, node: Algebra, counts: bool) -> Algebra:
        if counts and not isinstance(node, n.Bgp) and _is_a_set(node):
            # DISTINCT is put around the whole group of patterns, so that Oxigraph can still look up rows of
            # one pattern in the others.
            return _distinct(self.rewrite(node, False))
        match node:
            case n.Bgp(patterns):
                return _distinct(node) if counts and patterns else node
            case n.Path(_, n.NegatedSet(), _):
                return _distinct(self._negated(node)) if counts else node
            case n.Graph():
                return node
            case n.Service(name, _) if name != n.LATERAL:
                return node
            case n.Slice():
                counts = True
            case n.Distinct():
                counts = False
            case n.Group(_, _, aggregates):
                counts = any(each.name not in _ONCE and not each.distinct for _, each in aggregates)
            case n.Extend(_, _, expr):
                counts = counts or any(
                    isinstance(each, Call) and each.name in _VOLATILE for each in sub_expressions(expr)
                )
        new = with_expressions(
            node,
            [
                put_patterns(each, iter([self.rewrite(below, False) for below in patterns_of(each)]))
                for each in expressions(node)
            ],
        )
        below = [self.rewrite(each, counts) for each in children(new)]
        return n.Join(*below) if isinstance(new, n.Join) else with_children(new, below)

    def _negated(self, node: n.Path) -> Algebra:
        """Rewrite ``!(a|^b)`` to triple patterns with a variable predicate: one solution for each triple."""
        path = node.path
        assert isinstance(path, n.NegatedSet)
        ways = []
        for one, other, names in (
            (node.subject, node.object, path.forward),
            (node.object, node.subject, path.inverse),
        ):
            if names or (one is node.subject and not path.inverse):
                step = Var(f"_:merged {next(self._numbers)}")
                bgp = n.Bgp((n.TriplePattern(one, step, other),))
                listed = tuple(n.Constant(each) for each in names)
                ways.append(n.Filter(Call("NOT IN", (step, *listed)), bgp) if names else bgp)
        return ways[0] if len(ways) == 1 else n.Union(*ways)


def _is_a_set(node: Algebra) -> bool:
    """Return True for a group of basic graph patterns whose solutions over a set of triples are distinct.

    Each solution of such a group binds all variables of the patterns that it comes from, so no two solutions
    are equal.
    """
    match node:
        case n.Bgp(patterns):
            return bool(patterns)
        case n.Join(left, right) | n.LeftJoin(left, right, _):
            sides = _is_a_set(left) and _is_a_set(right)
            return sides and not any(map(is_volatile, expressions(node)))
        case n.Filter(condition, inner) | n.Extend(inner, _, condition):
            return _is_a_set(inner) and not is_volatile(condition)
        case n.Minus(left, _):
            return _is_a_set(left)
        case _:
            return False


def _distinct(node: Algebra) -> Algebra:
    if isinstance(node, n.Union):
        return n.Union(_distinct(node.left), _distinct(node.right))
    columns = tuple(Var(name) for name in sorted(in_scope(node)))
    return n.Distinct(n.Project(node, columns)) if columns else join(UNIT, n.Slice(n.Project(node, ()), 0, 1))
