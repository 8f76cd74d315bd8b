"""Variants of a rule body, each with one triple pattern that matches only the content of a window.

    body        ?x a ?c . ?c rdfs:subClassOf ?d          each pattern matches the content or the graphs of D
    variants    [?x a ?c] . ?c rdfs:subClassOf ?d        [...] matches the content alone
                ?x a ?c . [?c rdfs:subClassOf ?d]

A solution of the body uses the content if and only if it is a solution of a variant.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.build import all_nodes, conditions_of, join
from .lists import ListCells

CONTENT = NamedNode("urn:quadrill:content-of-the-window")
"""The name of a graph that has the content of a window; in each variant, one pattern matches this graph
only."""

_Leaf = tuple[n.PathExpr | None, n.Link | n.NegatedSet, bool, n.PathExpr | None]
"""One step of a path: the path before it, the step, True if the step goes backward, and the path after it."""


def has_variants(body: n.Algebra) -> bool:
    """Return False for a body with a path over the cells of a list, which has no variants."""
    return not any(isinstance(each, n.Path) and isinstance(each.path, ListCells) for each in all_nodes(body))


def variants(body: n.Algebra) -> list[n.Algebra]:
    """Return the variants of a body; patterns inside GRAPH, NOT EXISTS and MINUS always stay as they are."""
    numbers = count(1)
    return list(_variants(body, numbers))


def _variants(node: n.Algebra, numbers: Iterator[int]) -> Iterator[n.Algebra]:
    match node:
        case n.Bgp(patterns):
            for place, pattern in enumerate(patterns):
                rest = n.Bgp(patterns[:place] + patterns[place + 1 :])
                yield join(_marked(pattern), rest)
        case n.Path():
            for leaf in _leaves(node.path):
                yield _through(node, leaf, numbers)
        case n.Join(left, right):
            yield from (n.Join(each, right) for each in _variants(left, numbers))
            yield from (n.Join(left, each) for each in _variants(right, numbers))
        case n.Union(left, right):
            yield from _variants(left, numbers)
            yield from _variants(right, numbers)
        case n.LeftJoin(left, right, condition):
            yield from (n.LeftJoin(each, right, condition) for each in _variants(left, numbers))
            for each in _variants(right, numbers):
                both = n.Join(left, each)
                yield both if condition is None else n.Filter(condition, both)
        case n.Minus(left, right):
            yield from (n.Minus(each, right) for each in _variants(left, numbers))
        case n.Filter(condition, inner):
            yield from (n.Filter(condition, each) for each in _variants(inner, numbers))
            for part in conditions_of(condition):
                if isinstance(part, n.Exists) and not part.negated:
                    for each in _variants(part.pattern, numbers):
                        yield n.Filter(n.Exists(each), node)
        case n.Group(inner):
            # A group uses the content if one of the solutions in it does.
            yield from (n.Filter(n.Exists(each), node) for each in _variants(inner, numbers))
        case n.Extend(inner) | n.Project(inner) | n.Distinct(inner) | n.OrderBy(inner):
            yield from (replace(node, input=each) for each in _variants(inner, numbers))
        case _:
            return


def _marked(pattern: n.TriplePattern) -> n.Algebra:
    return n.Graph(CONTENT, n.Bgp((pattern,)))


def _through(node: n.Path, leaf: _Leaf, numbers: Iterator[int]) -> n.Algebra:
    """Return the variant of a path pattern in which one step of the path matches only the content."""
    before, step, backward, after = leaf
    start: n.TermPattern = node.subject
    end: n.TermPattern = node.object
    around: list[n.Algebra] = []
    if before is not None:
        start = n.Var(f"_:step {next(numbers)}")
        around.append(n.Path(node.subject, before, start))
    if after is not None:
        end = n.Var(f"_:step {next(numbers)}")
        around.append(n.Path(end, after, node.object))
    one, other = (end, start) if backward else (start, end)
    if isinstance(step, n.Link):
        return join(_marked(n.TriplePattern(one, step.iri, other)), *around)
    predicate = n.Var(f"_:step {next(numbers)}")
    found = _marked(n.TriplePattern(one, predicate, other))
    if step.forward:
        listed = tuple(n.Constant(each) for each in step.forward)
        found = n.Filter(n.Call("NOT IN", (predicate, *listed)), found)
    return join(found, *around)


def _leaves(path: n.PathExpr) -> Iterator[_Leaf]:
    """Yield every step of a path expression, with the paths before and after it."""
    match path:
        case n.Link():
            yield None, path, False, None
        case n.NegatedSet(forward, inverse):
            if forward or not inverse:
                yield None, n.NegatedSet(forward, ()), False, None
            if inverse:
                yield None, n.NegatedSet(inverse, ()), True, None
        case n.Inverse(inner):
            for before, step, backward, after in _leaves(inner):
                yield _inverse(after), step, not backward, _inverse(before)
        case n.Sequence(left, right):
            for before, step, backward, after in _leaves(left):
                yield before, step, backward, _then(after, right)
            for before, step, backward, after in _leaves(right):
                yield _then(left, before), step, backward, after
        case n.Alternative(left, right):
            yield from _leaves(left)
            yield from _leaves(right)
        case n.ZeroOrOne(inner):
            yield from _leaves(inner)
        case n.ZeroOrMore(inner) | n.OneOrMore(inner):
            any_number = n.ZeroOrMore(inner)
            for before, step, backward, after in _leaves(inner):
                yield _then(any_number, before), step, backward, _then(after, any_number)


def _inverse(path: n.PathExpr | None) -> n.PathExpr | None:
    return None if path is None else n.Inverse(path)


def _then(first: n.PathExpr | None, second: n.PathExpr | None) -> n.PathExpr | None:
    if first is None or second is None:
        return second if first is None else first
    return n.Sequence(first, second)
