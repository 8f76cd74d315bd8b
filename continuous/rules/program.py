"""A program: the compiled rules of one set, which find the heads that a changed fact can add or remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from pyoxigraph import BlankNode, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .facts import Fact, Facts
from .interfaces import Evaluable, Premise
from .lists import FIRST, ListCells
from .matching import Compiler, Frame, Layout, Matcher
from .rule import Rule
from .strata import strata
from .terms import Terms
from .trigger_index import Trigger, TriggerIndex, conjunction

Bindings = Mapping[int, int]
"""Term ids by slot."""
_NO_VALUES: Bindings = {}


class Program:
    """The compiled rules of one set, by stratum.

    Attributes:
        rules: the compiled rules.
        strata: the rules of each stratum, lowest first.
        triggers: the patterns of each stratum that changed facts match.
        reads_graphs: True if a rule has a GRAPH pattern.
    """

    def __init__(
        self, rules: Sequence[Rule], terms: Terms, count: Callable[[int | None], int] | None = None
    ) -> None:
        """Compile rules; ``count`` estimates the number of facts of a predicate, for the order of joins."""
        self.terms = terms
        self.rules: list[Evaluable] = [
            CompiledRule(rule, terms, count) if rule.compile is None else rule.compile(rule, terms)
            for rule in rules
        ]
        self.strata = [[self.rules[number] for number in stratum] for stratum in strata(rules)]
        self.triggers = [TriggerIndex(stratum) for stratum in self.strata]
        self.reads_graphs = any(index.reads_graphs for index in self.triggers)


class CompiledRule:
    """One rule with its matchers."""

    def __init__(self, rule: Rule, terms: Terms, count: Callable[[int | None], int] | None) -> None:
        self.rule = rule
        self.terms = terms
        self.layout = Layout(terms)
        self.compiler = Compiler(self.layout, count) if count else Compiler(self.layout)
        self.scope = self.compiler.scope(in_scope(rule.body))
        self._matchers: dict[frozenset[str], Matcher] = {}
        sure = certain(rule.body)
        self.templates = [HeadTemplate(head, self.scope, self.layout, sure) for head in rule.head]

    def matcher(self, bound: frozenset[str]) -> Matcher:
        """Return the matcher of the body for frames in which ``bound`` variables are bound."""
        matcher = self._matchers.get(bound)
        if matcher is None:
            matcher = self._matchers[bound] = self.compiler.compile(self.rule.body, self.scope, bound)
        return matcher

    def heads(
        self, facts: Facts, bound: frozenset[str] = frozenset(), values: Bindings = _NO_VALUES
    ) -> Iterator[Fact]:
        """Yield the head triples of the solutions that agree with bound values; triples may repeat."""
        matcher = self.matcher(bound)
        frame = self._frame(values)
        templates = self.templates
        for _ in matcher(frame, facts):
            for template in templates:
                fact = template.fact(frame)
                if fact is not None:
                    yield fact

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution of the body gives the fact."""
        return any(True for _ in self._solutions_for(fact, facts))

    def explain(self, fact: Fact, facts: Facts) -> Iterator[list[Premise]]:
        """Yield what the triple patterns of the body match in each solution that gives the fact."""
        for frame in self._solutions_for(fact, facts):
            premises = []
            for occurrence in self.rule.patterns:
                pattern = occurrence.pattern
                if occurrence.closed or isinstance(pattern, n.Path):
                    continue
                s, p, o = (
                    self._value(term, frame) for term in (pattern.subject, pattern.predicate, pattern.object)
                )
                named = occurrence.graph is not None
                graph = None if occurrence.graph is None else self._value(occurrence.graph, frame)
                premises.append(Premise((s, p, o), graph, named))
            yield premises

    def _solutions_for(self, fact: Fact, facts: Facts) -> Iterator[Frame]:
        """Yield a frame for each solution that gives the fact; the frame is valid until the next one."""
        for template in self.templates:
            found = template.bindings(fact)
            if found is None:
                continue
            bound, values = found
            matcher = self.matcher(bound)
            frame = self._frame(values)
            for _ in matcher(frame, facts):
                if template.fact(frame) == fact:
                    yield frame

    def _value(self, term: n.TermPattern, frame: Frame) -> int | None:
        if isinstance(term, n.Var):
            slot = self.scope.get(term.name)
            return None if slot is None else frame[slot]
        return None if isinstance(term, n.TripleTerm) else self.terms.id_of(term)

    def triggers(self) -> list[Trigger]:
        """Return triggers of the patterns of the body.

        A path over the cells of a list also finds the solutions that a changed value of a cell affects.
        """
        parts = conjunction(self.rule.body)
        cells = {
            each.object
            for each in parts or ()
            if isinstance(each, n.Path) and isinstance(each.path, ListCells)
        }
        return [
            Trigger(self, occurrence, parts)
            for occurrence in self.rule.patterns
            if not (
                isinstance(occurrence.pattern, n.TriplePattern)
                and occurrence.pattern.predicate == FIRST
                and occurrence.pattern.subject in cells
            )
        ]

    def _frame(self, values: Bindings) -> Frame:
        frame = self.layout.frame()
        for slot, value in values.items():
            frame[slot] = value
        return frame


class HeadTemplate:
    """One triple of a rule's head."""

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
        # A variable that a solution may leave unbound would agree with any value.
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
        """Return the variables and values with which the head gives a fact; None if it cannot."""
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
