"""Templates of head triples: they turn a solution into a fact, and a fact into bindings that derive it."""

from __future__ import annotations

from collections.abc import Mapping

from pyoxigraph import BlankNode, NamedNode, Triple

from ..algebra import nodes as n
from .facts import Fact
from .layout import Frame, Layout

Bindings = Mapping[int, int]
"""The term ids of bound variables, by slot."""
_MOST_CHECKED = 100_000
"""Maximum number of term ids of which a head remembers whether RDF allows them as a subject."""


class HeadTemplate:
    """The template of one triple of a rule's head.

    ``sure`` has the variables that every solution of the body binds. The attribute ``nested`` is True if a
    position has a triple term.
    """

    def __init__(
        self, pattern: n.TriplePattern, scope: dict[str, int], layout: Layout, sure: frozenset[str]
    ) -> None:
        self._terms = layout.terms
        self._pattern = (pattern.subject, pattern.predicate, pattern.object)
        self._scope = scope
        self.nested = any(isinstance(term, n.TripleTerm) for term in self._pattern)
        self._slots = [
            -1 if isinstance(term, n.TripleTerm) else _slot(term, scope, layout) for term in self._pattern
        ]
        # `bindings` binds only variables that every solution binds. A solution that leaves a variable unbound
        # is compatible with any value, so it would seem to derive the fact.
        self._variables = [
            (place, slot)
            for place, (term, slot) in enumerate(zip(self._pattern, self._slots, strict=True))
            if isinstance(term, n.Var) and term.name in sure
        ]
        self._constants = [
            (place, layout.terms.id_of(term))
            for place, term in enumerate(self._pattern)
            if not isinstance(term, n.Var | n.TripleTerm)
        ]
        self._bound = frozenset(
            term.name for term in self._pattern if isinstance(term, n.Var) and term.name in sure
        )
        self._subjects: dict[int, bool] = {}
        self._predicates: dict[int, bool] = {}

    def fact(self, frame: Frame) -> Fact | None:
        """Return the triple of a solution; None if a variable is unbound or RDF does not allow the triple."""
        if self.nested:
            return self._nested_fact(frame)
        a, b, c = self._slots
        s, p, o = frame[a], frame[b], frame[c]
        if s is None or p is None or o is None:
            return None
        allowed = self._subjects.get(s)
        if allowed is None:
            if len(self._subjects) >= _MOST_CHECKED:
                self._subjects.clear()
            allowed = self._subjects[s] = isinstance(self._terms.term(s), NamedNode | BlankNode)
        if not allowed:
            return None
        allowed = self._predicates.get(p)
        if allowed is None:
            allowed = self._predicates[p] = isinstance(self._terms.term(p), NamedNode)
        return (s, p, o) if allowed else None

    def _nested_fact(self, frame: Frame) -> Fact | None:
        ids = []
        for term, slot in zip(self._pattern, self._slots, strict=True):
            if slot >= 0:
                value = frame[slot]
            else:
                triple = self._triple(term, frame)
                value = None if triple is None else self._terms.id_of(triple)
            if value is None:
                return None
            ids.append(value)
        subject, predicate = self._terms.term(ids[0]), self._terms.term(ids[1])
        if not isinstance(subject, NamedNode | BlankNode) or not isinstance(predicate, NamedNode):
            return None
        return ids[0], ids[1], ids[2]

    def _triple(self, pattern: n.TermPattern, frame: Frame) -> Triple | None:
        assert isinstance(pattern, n.TripleTerm)
        parts = []
        for term in (pattern.subject, pattern.predicate, pattern.object):
            match term:
                case n.Var(name):
                    value = frame[self._scope[name]]
                    parts.append(None if value is None else self._terms.term(value))
                case n.TripleTerm():
                    parts.append(self._triple(term, frame))
                case _:
                    parts.append(term)
        s, p, o = parts
        if not isinstance(s, NamedNode | BlankNode) or not isinstance(p, NamedNode) or o is None:
            return None
        return Triple(s, p, o)

    def bindings(self, fact: Fact) -> tuple[frozenset[str], Bindings] | None:
        """Return the variables that a fact determines, and their values; None if the head never gives it."""
        for place, value in self._constants:
            if fact[place] != value:
                return None
        values: dict[int, int] = {}
        for place, slot in self._variables:
            if values.setdefault(slot, fact[place]) != fact[place]:
                return None
        return self._bound, values


def _slot(term: n.TermPattern, scope: dict[str, int], layout: Layout) -> int:
    if isinstance(term, n.Var):
        return scope[term.name]
    assert not isinstance(term, n.TripleTerm)
    return layout.constant(term)
