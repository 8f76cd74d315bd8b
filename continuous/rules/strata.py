"""Strata: groups of rules that are evaluated one after the other, so that negation sees complete facts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from pyoxigraph import BlankNode, NamedNode, Triple

from quadrill.store.errors import InputError, LimitError

from ..algebra import nodes as n
from .rule import BindCycleError, NegationCycleError, Rule, described
from .triggers import Occurrence, predicates_of

_MAX_PAIRS = 2_000_000
"""Maximum number of pairs of a head triple and a pattern of a set's rules that are compared: some seconds."""
_MAX_SEARCHES = 100
"""Number of closed dependencies from which the shortest cycle is chosen for an error message."""


def strata(rules: Sequence[Rule]) -> list[list[int]]:
    """Return the numbers of the rules by stratum, lowest first.

    A rule depends on the rules whose head triples may match one of its patterns. A dependency is closed if
    the pattern is negated or aggregated, or if the rule computes terms. A rule is never in a lower stratum
    than a rule that it depends on; if the dependency is closed, it is in a higher one.

    Raises:
        NegationCycleError: a cycle of dependencies has one through a negation or an aggregate.
        BindCycleError: a cycle of dependencies has closed ones, all of them through computed terms.
    """
    edges = _dependencies(rules)
    components = _components(len(rules), edges)
    place = {rule: number for number, component in enumerate(components) for rule in component}
    _require_open_cycles(rules, edges, components, place)
    level = [0] * len(components)
    for number, component in enumerate(components):  # each component comes after those that it depends on
        for rule in component:
            for other, kind in edges[rule].items():
                if place[other] != number:
                    level[number] = max(level[number], level[place[other]] + (kind is not None))
    result: list[list[int]] = [[] for _ in range(max(level, default=0) + 1)]
    for number, component in enumerate(components):
        result[level[number]].extend(component)
    return [sorted(stratum) for stratum in result if stratum]


def negated_dependency(rules: Sequence[Rule]) -> tuple[int, int] | None:
    """Return the numbers of a rule and of one that it negates or aggregates; None if there are none."""
    for number, found in enumerate(_dependencies(rules)):
        for other, kind in found.items():
            if kind == "negation":
                return number, other
    return None


def require_for_windows(name: str, rules: Sequence[Rule]) -> None:
    """Check that windows can have the consequences of a rule set.

    Raises:
        InputError: a rule negates or aggregates what rules of the set derive.
    """
    found = negated_dependency(rules)
    if found is None:
        return
    numbers = list(dict.fromkeys(found))
    what = "its own triples" if len(numbers) == 1 else f"triples that the rule {found[1]} derives"
    raise InputError(
        f"windows cannot have the consequences of the rule set {name}: its rule {found[0]} negates or "
        f"aggregates {what}",
        hint="put this rule into a second rule set that reads this one, and name the first set",
        rules=described(rules, numbers),
    )


Edges = list[dict[int, str | None]]
"""For each rule, the rules that it depends on, with the kind of the dependency.

The kind is ``negation`` or ``bind`` for a closed dependency, else None.
"""


def _dependencies(rules: Sequence[Rule]) -> Edges:
    index = HeadIndex(rules)
    edges: Edges = []
    left = _MAX_PAIRS
    for rule in rules:
        found: dict[int, str | None] = {}
        for occurrence in rule.patterns:
            if occurrence.graph is not None:
                continue
            kind = "negation" if occurrence.closed else "bind" if rule.computes else None
            for heads in index.candidates(occurrence):
                left -= len(heads)
                if left < 0:
                    raise LimitError(
                        f"more than {_MAX_PAIRS:,} pairs of a head and a pattern of the rules may match",
                        hint="name the predicates in the rules, or put the rules into several sets",
                    )
                for number, head in heads:
                    if number in found and (kind is None or found[number] in ("negation", kind)):
                        continue
                    if _may_derive(head, occurrence):
                        found[number] = kind
        edges.append(found)
    return edges


def _require_open_cycles(
    rules: Sequence[Rule], edges: Edges, components: Sequence[Sequence[int]], place: dict[int, int]
) -> None:
    for number, component in enumerate(components):
        kinds = {
            kind
            for rule in component
            for other, kind in edges[rule].items()
            if place[other] == number and kind is not None
        }
        if not kinds:
            continue
        negated = "negation" in kinds
        cycle = _cycle(edges, component, "negation" if negated else "bind")
        names = ", ".join(str(each) for each in cycle)
        subject = (
            f"the rules {names} depend on one another"
            if len(cycle) > 1
            else f"the rule {names} depends on itself"
        )
        error = NegationCycleError if negated else BindCycleError
        raise error(
            f"{subject} through {'a negation or an aggregate' if negated else 'a computed term'}",
            hint="put the rule that negates, aggregates or computes in a second rule set that reads this one",
            rules=described(rules, cycle),
        )


def _cycle(edges: Edges, component: Sequence[int], kind: str) -> list[int]:
    """Return the rules of a cycle with a dependency of a kind; each rule depends on the next.

    The cycle is a shortest one among those through the first dependencies of the kind.
    """
    inside = set(component)
    closed = [
        (start, other)
        for start in component
        for other, found in edges[start].items()
        if found == kind and other in inside
    ]
    for start, other in closed:
        if start == other:
            return [start]
    return min((_path(edges, inside, *edge) for edge in closed[:_MAX_SEARCHES]), key=len)


def _path(edges: Edges, inside: set[int], start: int, other: int) -> list[int]:
    """Return ``start`` and then the rules of a shortest path from ``other`` back to it, without its end."""
    before = {other: start}
    waiting = deque([other])
    while start not in before:
        rule = waiting.popleft()
        for following in edges[rule]:
            if following in inside and following not in before:
                before[following] = rule
                waiting.append(following)
    path = [start]
    while (rule := before[path[-1]]) != start:
        path.append(rule)
    return [start, *reversed(path[1:])]


def _components(count: int, edges: Edges) -> list[list[int]]:
    """Return the strongly connected components, each after those that it depends on (Tarjan 1972)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    waiting: set[int] = set()
    components: list[list[int]] = []
    for root in range(count):
        if root in index:
            continue
        work: list[tuple[int, Iterator[int]]] = [(root, iter(edges[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        waiting.add(root)
        while work:
            node, following = work[-1]
            for other in following:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    waiting.add(other)
                    work.append((other, iter(edges[other])))
                    break
                if other in waiting:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    component = []
                    while True:
                        member = stack.pop()
                        waiting.discard(member)
                        component.append(member)
                        if member == node:
                            break
                    components.append(component)
    return components


class HeadIndex:
    """The head triples of rules by predicate and object; finds those that may match a pattern or path."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._heads: dict[object, dict[object, _Heads]] = {}
        for number, rule in enumerate(rules):
            for head in rule.head:
                by_object = self._heads.setdefault(_constant(head.predicate), {})
                by_object.setdefault(_constant(head.object), []).append((number, head))

    def candidates(self, occurrence: Occurrence) -> Iterator[_Heads]:
        """Yield lists of heads, with the numbers of their rules; heads in no list do not match."""
        pattern = occurrence.pattern
        if isinstance(pattern, n.Path):
            predicates, value = predicates_of(pattern.path), None
        else:
            predicates = None if isinstance(pattern.predicate, n.Var) else frozenset((pattern.predicate,))
            value = _constant(pattern.object)
        for name in self._heads if predicates is None else (*map(_constant, predicates), None):
            by_object = self._heads.get(name, {})
            if value is None:
                yield from by_object.values()
            else:
                yield from (by_object[each] for each in (value, None) if each in by_object)


_Heads = list[tuple[int, n.TriplePattern]]
"""Head triples with the numbers of their rules."""


def _constant(term: n.TermPattern) -> object:
    """Return a key of a constant term; None for a variable and for a triple term, which may match others."""
    return None if isinstance(term, n.Var | n.TripleTerm | Triple) else (type(term), term)


# --- unification --------------------------------------------------------------------------------


def _may_derive(head: n.TriplePattern, occurrence: Occurrence) -> bool:
    """Return True if the triples of a head may match a pattern or path of a body."""
    pattern = occurrence.pattern
    if isinstance(pattern, n.Path):
        predicates = predicates_of(pattern.path)
        return predicates is None or not isinstance(head.predicate, NamedNode) or head.predicate in predicates
    bindings: dict[tuple[str, str], object] = {}
    return all(
        _unify(_tagged(one, "head"), _tagged(other, "body"), bindings)
        for one, other in (
            (head.subject, pattern.subject),
            (head.predicate, pattern.predicate),
            (head.object, pattern.object),
        )
    )


def _tagged(term: n.TermPattern | BlankNode, side: str) -> object:
    """Return a term for unification: a variable as the pair of ``side`` and its name, a triple as a list."""
    match term:
        case n.Var(name):
            return (side, name)
        case n.TripleTerm(s, p, o):
            return [_tagged(s, side), _tagged(p, side), _tagged(o, side)]
        case Triple():
            return [_tagged(term.subject, side), _tagged(term.predicate, side), _tagged(term.object, side)]
        case _:
            return term


def _unify(one: object, other: object, bindings: dict[tuple[str, str], object]) -> bool:
    one, other = _resolved(one, bindings), _resolved(other, bindings)
    if isinstance(one, tuple):
        if one != other:
            bindings[one] = other
        return True
    if isinstance(other, tuple):
        bindings[other] = one
        return True
    if isinstance(one, list) and isinstance(other, list):
        return all(_unify(left, right, bindings) for left, right in zip(one, other, strict=True))
    return type(one) is type(other) and one == other


def _resolved(term: object, bindings: dict[tuple[str, str], object]) -> object:
    while isinstance(term, tuple) and term in bindings:
        term = bindings[term]
    return term
