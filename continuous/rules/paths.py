"""Property paths: their evaluation from one end, and the starts of paths that a changed fact can affect."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from .facts import Fact, Facts
from .lists import FIRST, NIL, REST, ListCells, Lists
from .terms import RuleTerms


class FactReader:
    """Reads the facts of a rule set, or the triples of one named input graph."""

    __slots__ = ("_facts", "_graph")

    def __init__(self, facts: Facts, graph: int | None) -> None:
        self._facts, self._graph = facts, graph

    def match(self, s: int | None, p: int | None, o: int | None) -> Collection[Fact]:
        """Return the matching triples; None matches any term."""
        if self._graph is None:
            return self._facts.match(s, p, o)
        return [fact for _, fact in self._facts.match_in(self._graph, s, p, o)]

    def is_node(self, node: int) -> bool:
        """Return True if a triple has the node as its subject or object."""
        return bool(self.match(node, None, None) or self.match(None, None, node))

    def nodes(self) -> set[int]:
        """Return the subjects and objects of all triples."""
        found = set()
        for s, _, o in self.match(None, None, None):
            found.add(s)
            found.add(o)
        return found


_MOST_ENDS = 200_000
"""Maximum number of ends of parts of paths that a `DistinctReader` keeps; about 10 MB."""


class DistinctReader(FactReader):
    """Reads facts in one state, for paths of which a caller needs each end once.

    The ends of each part of a path from each node are cached. So the time for a path is polynomial, although
    the number of ways along the path may be exponential. Changed facts need a new reader.
    """

    __slots__ = ("_ends", "_size")

    def __init__(self, facts: Facts, graph: int | None) -> None:
        super().__init__(facts, graph)
        # The key has the identity of a path. The value refers to the path, so that no other path gets this
        # identity.
        self._ends: dict[tuple[int, int, bool], tuple[n.PathExpr, Collection[int]]] = {}
        self._size = 0

    def known(self, path: n.PathExpr, node: int, ahead: bool) -> Collection[int] | None:
        """Return the cached ends of a path from a node (starts if not ``ahead``); None without an entry."""
        found = self._ends.get((id(path), node, ahead))
        return None if found is None else found[1]

    def keep(self, path: n.PathExpr, node: int, ahead: bool, ends: Iterable[int]) -> Collection[int]:
        """Cache the ends of a path from a node, and return each of them once."""
        distinct = tuple(dict.fromkeys(ends))
        self._size += len(distinct) + 1
        if self._size > _MOST_ENDS:
            self._ends.clear()
            self._size = 0
        self._ends[id(path), node, ahead] = path, distinct
        return distinct


class PathSteps:
    """Evaluation of a property path expression from one of its ends (SPARQL 1.1 section 18.4).

    Alternatives, sequences and negated property sets may return a node several times; the operators ``?``,
    ``*`` and ``+`` return it once. With a `DistinctReader`, all return a node once.
    """

    def __init__(self, path: n.PathExpr, terms: RuleTerms) -> None:
        self._path = path
        self._terms = terms
        self._lists = Lists(terms.id_of(FIRST), terms.id_of(REST), terms.id_of(NIL))

    def forward(self, read: FactReader, start: int) -> Iterable[int]:
        """Return the ends of all paths from ``start``."""
        if isinstance(self._path, ListCells):
            return self._lists.cells(read, start, later=self._path.later)
        return self._walk(self._path, read, start, True)

    def backward(self, read: FactReader, end: int) -> Iterable[int]:
        """Return the starts of all paths to ``end``."""
        if isinstance(self._path, ListCells):
            return self._lists.lists_with(read, end, later=self._path.later)
        return self._walk(self._path, read, end, False)

    def edges(self, read: FactReader, start: int, end: int) -> list[Fact]:
        """Return the triples of one path from ``start`` to ``end``; none for a path over cells of a list."""
        return [] if isinstance(self._path, ListCells) else self._edges(self._path, read, start, end) or []

    def _edges(self, path: n.PathExpr, read: FactReader, start: int, end: int) -> list[Fact] | None:
        match path:
            case n.Link(iri):
                return list(read.match(start, self._terms.id_of(iri), end))[:1] or None
            case n.Inverse(inner):
                return self._edges(inner, read, end, start)
            case n.Sequence(left, right):
                for middle in self._walk(left, read, start, True):
                    rest = self._edges(right, read, middle, end)
                    if rest is not None:
                        return [*(self._edges(left, read, start, middle) or ()), *rest]
                return None
            case n.Alternative(left, right):
                found = self._edges(left, read, start, end)
                return self._edges(right, read, start, end) if found is None else found
            case n.NegatedSet():
                both = [*read.match(start, None, end), *read.match(end, None, start)]
                return next(([fact] for fact in both if self._passes(path, fact, start, end)), None)
            case n.ZeroOrOne(inner):
                return [] if start == end else self._edges(inner, read, start, end)
            case n.ZeroOrMore(inner):
                return [] if start == end else self._shortest(inner, read, start, end)
            case n.OneOrMore(inner):
                return self._shortest(inner, read, start, end)

    def _passes(self, path: n.NegatedSet, fact: Fact, start: int, end: int) -> bool:
        forward = {self._terms.id_of(iri) for iri in path.forward}
        inverse = {self._terms.id_of(iri) for iri in path.inverse}
        ahead = (fact[0], fact[2]) == (start, end) and fact[1] not in forward
        back = (fact[2], fact[0]) == (start, end) and fact[1] not in inverse
        return (ahead and bool(forward or not inverse)) or (back and bool(inverse))

    def _shortest(self, inner: n.PathExpr, read: FactReader, start: int, end: int) -> list[Fact] | None:
        """Return the triples of a path that repeats ``inner`` at least once, and as few times as possible.

        Return None if there is no such path.
        """
        before: dict[int, int] = {}
        waiting = [start]
        for node in waiting:
            for reached in self._walk(inner, read, node, True):
                if reached not in before:
                    before[reached] = node
                    waiting.append(reached)
            if end in before:
                break
        if end not in before:
            return None
        steps = [(before[end], end)]
        while steps[-1][0] != start:
            steps.append((before[steps[-1][0]], steps[-1][0]))
        return [fact for one, other in reversed(steps) for fact in self._edges(inner, read, one, other) or ()]

    def starts_through(self, read: FactReader, facts: Iterable[Fact]) -> set[int]:
        """Return a superset of the nodes at which paths start that use one of the facts."""
        if isinstance(self._path, ListCells):
            return self._lists.before(read, {fact[0] for fact in facts})
        found: set[int] = set()
        for fact in facts:
            found |= self._ends_through(self._path, read, fact, False)
        return found

    def _ends_through(self, path: n.PathExpr, read: FactReader, fact: Fact, ahead: bool) -> set[int]:
        """Return a superset of the ends (``ahead``) or of the starts of the paths that use a fact."""
        match path:
            case n.Link(iri):
                return {fact[2 if ahead else 0]} if fact[1] == self._terms.id_of(iri) else set()
            case n.Inverse(inner):
                return self._ends_through(inner, read, fact, not ahead)
            case n.Sequence(left, right):
                near, far = (left, right) if ahead else (right, left)
                found = self._ends_through(far, read, fact, ahead)
                for middle in self._ends_through(near, read, fact, ahead):
                    found.update(self._walk(far, read, middle, ahead))
                return found
            case n.Alternative(left, right):
                return self._ends_through(left, read, fact, ahead) | self._ends_through(
                    right, read, fact, ahead
                )
            case n.OneOrMore(inner):
                found = self._ends_through(inner, read, fact, ahead)
                return self._closure(inner, read, found, list(found), ahead)
            case n.ZeroOrMore(inner):
                found = self._ends_through(inner, read, fact, ahead) | {fact[0], fact[2]}
                return self._closure(inner, read, found, list(found), ahead)
            case n.ZeroOrOne(inner):
                return self._ends_through(inner, read, fact, ahead) | {fact[0], fact[2]}
            case n.NegatedSet():
                return {fact[0], fact[2]}

    def starts(self, read: FactReader) -> Iterable[int]:
        """Return a superset of the nodes at which a path can start."""
        if isinstance(self._path, ListCells):
            return {cell for cell, _, _ in read.match(None, self._lists.first, None)}
        return self._starts(self._path, read, True)

    def _starts(self, path: n.PathExpr, read: FactReader, ahead: bool) -> Iterable[int]:
        match path:
            case n.Link(iri):
                place = 0 if ahead else 2
                return {fact[place] for fact in read.match(None, self._terms.id_of(iri), None)}
            case n.Inverse(inner):
                return self._starts(inner, read, not ahead)
            case n.Sequence(left, right):
                return self._starts(left if ahead else right, read, ahead)
            case n.Alternative(left, right):
                return {*self._starts(left, read, ahead), *self._starts(right, read, ahead)}
            case n.OneOrMore(inner):
                return self._starts(inner, read, ahead)
            case _:
                return read.nodes()

    def _walk(self, path: n.PathExpr, read: FactReader, node: int, ahead: bool) -> Iterable[int]:
        if not isinstance(read, DistinctReader) or isinstance(path, n.Link):
            return self._each(path, read, node, ahead)
        known = read.known(path, node, ahead)
        return read.keep(path, node, ahead, self._each(path, read, node, ahead)) if known is None else known

    def _each(self, path: n.PathExpr, read: FactReader, node: int, ahead: bool) -> Iterable[int]:
        match path:
            case n.Link(iri):
                predicate = self._terms.id_of(iri)
                if ahead:
                    return [o for _, _, o in read.match(node, predicate, None)]
                return [s for s, _, _ in read.match(None, predicate, node)]
            case n.Inverse(inner):
                return self._walk(inner, read, node, not ahead)
            case n.Sequence(left, right):
                first, second = (left, right) if ahead else (right, left)
                return [
                    end
                    for middle in self._walk(first, read, node, ahead)
                    for end in self._walk(second, read, middle, ahead)
                ]
            case n.Alternative(left, right):
                return [*self._walk(left, read, node, ahead), *self._walk(right, read, node, ahead)]
            case n.ZeroOrOne(inner):
                return {node, *self._walk(inner, read, node, ahead)}
            case n.ZeroOrMore(inner):
                return self._closure(inner, read, {node}, [node], ahead)
            case n.OneOrMore(inner):
                return self._closure(inner, read, set(), [node], ahead)
            case n.NegatedSet(forward, inverse):
                return self._negated(forward, inverse, read, node, ahead)

    def _closure(
        self, inner: n.PathExpr, read: FactReader, reached: set[int], waiting: list[int], ahead: bool
    ) -> set[int]:
        while waiting:
            for end in self._walk(inner, read, waiting.pop(), ahead):
                if end not in reached:
                    reached.add(end)
                    waiting.append(end)
        return reached

    def _negated(
        self,
        forward: Sequence[NamedNode],
        inverse: Sequence[NamedNode],
        read: FactReader,
        node: int,
        ahead: bool,
    ) -> list[int]:
        found = []
        if forward or not inverse:
            without = {self._terms.id_of(iri) for iri in forward}
            facts = read.match(node, None, None) if ahead else read.match(None, None, node)
            found += [fact[2 if ahead else 0] for fact in facts if fact[1] not in without]
        if inverse:
            without = {self._terms.id_of(iri) for iri in inverse}
            facts = read.match(None, None, node) if ahead else read.match(node, None, None)
            found += [fact[0 if ahead else 2] for fact in facts if fact[1] not in without]
        return found


def may_be_empty(path: n.PathExpr) -> bool:
    """Return True if a path expression matches a path of length zero."""
    match path:
        case n.Inverse(inner) | n.OneOrMore(inner):
            return may_be_empty(inner)
        case n.Sequence(left, right):
            return may_be_empty(left) and may_be_empty(right)
        case n.Alternative(left, right):
            return may_be_empty(left) or may_be_empty(right)
        case n.ZeroOrMore() | n.ZeroOrOne():
            return True
        case _:
            return False
