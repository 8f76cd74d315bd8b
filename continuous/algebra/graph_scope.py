"""The scope of ?g in GRAPH ?g { }: the block does not see ?g unless a pattern outside the block binds it.

Source: SPARQL 1.1 Query, section 18.6: the block is evaluated over one graph, and then its solutions are
joined with the graph's name.
"""

from __future__ import annotations

from itertools import count

from .build import children, expressions, patterns_of, with_children, with_patterns
from .canonical import rename
from .nodes import Algebra, Extend, Filter, Graph, Join, LeftJoin, Minus, Var, Window
from .variables import NO_NAMES, Names, in_scope, mentioned


def hide_graph_names(root: Algebra) -> Algebra:
    """Return the query with ?g inside GRAPH ?g { } renamed to a new variable if only the GRAPH binds ?g."""
    return _GraphScopes().rewrite(root, NO_NAMES, NO_NAMES)


class _GraphScopes:
    def __init__(self) -> None:
        self._numbers = count(1)

    def rewrite(self, node: Algebra, outer: Names, given: Names) -> Algebra:
        """Return the pattern with GRAPH variables renamed inside their blocks where necessary.

        ``outer`` are variables that enclosing groups bind and that a FILTER of the pattern may move to;
        ``given`` are the variables of the pattern that an enclosing EXISTS substitutes.
        """
        tested = given.union(*map(in_scope, children(node)))
        found = [self.rewrite(each, NO_NAMES, tested) for each in _patterns(node)]
        node = with_patterns(node, found)
        sides: list[tuple[Algebra, Names]]
        match node:
            case Join(left, right) | LeftJoin(left, right):
                sides = [(left, outer | in_scope(right)), (right, outer | in_scope(left))]
            case Minus(left, right):
                sides = [(left, outer), (right, NO_NAMES)]
            case Extend(inner, var, _):
                sides = [(inner, outer | {var.name})]
            case Graph(Var(name), inner) if name not in in_scope(inner) | outer | given:
                if name in mentioned(inner):
                    own = f"_:graph {next(self._numbers)}"
                    node = Graph(node.name, rename(inner, {name: own}))
                sides = [(node.input, outer)]
            case Filter(_, inner) | Graph(_, inner) | Window(_, inner):
                sides = [(inner, outer)]
            case _:
                sides = [(each, NO_NAMES) for each in children(node)]
        return with_children(node, [self.rewrite(each, names, given) for each, names in sides])


def _patterns(node: Algebra) -> list[Algebra]:
    return [pattern for expr in expressions(node) for pattern in patterns_of(expr)]
