"""A program: the compiled rules of one set, which find the heads that a changed fact can add or remove."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter

from pyoxigraph import BlankNode, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.variables import certain, in_scope
from .facts import Fact, Facts
from .matching import Compiler, Frame, Layout, Matcher
from .paths import PathSteps, Reader
from .rule import Rule
from .strata import strata
from .terms import Terms
from .triggers import Occurrence, predicates_of

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
        self.rules = [CompiledRule(rule, terms, count) for rule in rules]
        self.strata = [[self.rules[number] for number in stratum] for stratum in strata(rules)]
        self.triggers = [TriggerIndex(stratum) for stratum in self.strata]
        self.reads_graphs = any(index.reads_graphs for index in self.triggers)


class CompiledRule:
    """One rule with its matchers."""

    def __init__(self, rule: Rule, terms: Terms, count: Callable[[int | None], int] | None) -> None:
        self.rule = rule
        self.terms = terms
        self.layout = Layout(terms)
        self._compiler = Compiler(self.layout, count) if count else Compiler(self.layout)
        self.scope = self._compiler.scope(in_scope(rule.body))
        self._matchers: dict[frozenset[str], Matcher] = {}
        sure = certain(rule.body)
        self._heads = [HeadTemplate(head, self.scope, self.layout, sure) for head in rule.head]
        self._empty: Frame | None = None

    def matcher(self, bound: frozenset[str]) -> Matcher:
        """Return the matcher of the body for frames in which ``bound`` variables are bound."""
        matcher = self._matchers.get(bound)
        if matcher is None:
            matcher = self._matchers[bound] = self._compiler.compile(self.rule.body, self.scope, bound)
        return matcher

    def heads(
        self, facts: Facts, bound: frozenset[str] = frozenset(), values: Bindings = _NO_VALUES
    ) -> Iterator[Fact]:
        """Yield the head triples of the solutions that agree with bound values; triples may repeat."""
        matcher = self.matcher(bound)
        frame = self._frame(values)
        templates = self._heads
        for _ in matcher(frame, facts):
            for template in templates:
                fact = template.fact(frame)
                if fact is not None:
                    yield fact

    def derives(self, fact: Fact, facts: Facts) -> bool:
        """Return True if a solution of the body gives the fact."""
        return any(True for _ in self.solutions_for(fact, facts))

    def solutions_for(self, fact: Fact, facts: Facts) -> Iterator[Frame]:
        """Yield a frame for each solution that gives the fact; the frame is valid until the next one."""
        for template in self._heads:
            found = template.bindings(fact)
            if found is None:
                continue
            bound, values = found
            matcher = self.matcher(bound)
            frame = self._frame(values)
            for _ in matcher(frame, facts):
                if template.fact(frame) == fact:
                    yield frame

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
        self._sure = sure
        self.nested = any(isinstance(term, n.TripleTerm) for term in self._pattern)
        self._slots = [
            -1 if isinstance(term, n.TripleTerm) else _slot(term, scope, layout) for term in self._pattern
        ]
        self._subjects: dict[int, bool] = {}
        self._predicates: dict[int, bool] = {}
        self._names = [term.name if isinstance(term, n.Var) else None for term in self._pattern]
        self.predicate = (
            None if isinstance(pattern.predicate, n.Var) else layout.terms.id_of(pattern.predicate)
        )

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

    def forget(self) -> None:
        """Forget ids that the dictionary may delete."""
        self._subjects.clear()
        self._predicates.clear()

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
        values: dict[int, int] = {}
        bound: set[str] = set()
        for term, slot, value in zip(self._pattern, self._slots, fact, strict=True):
            match term:
                case n.Var(name):
                    if name not in self._sure:
                        continue  # a solution without the variable would agree with any value
                    if values.setdefault(slot, value) != value:
                        return None
                    bound.add(name)
                case n.TripleTerm():
                    continue
                case _:
                    if self._terms.id_of(term) != value:
                        return None
        return frozenset(bound), values


def _slot(term: n.TermPattern, scope: dict[str, int], layout: Layout) -> int:
    if isinstance(term, n.Var):
        return scope[term.name]
    assert not isinstance(term, n.TripleTerm)
    return layout.constant(term)


class Trigger:
    """One pattern of a rule body: which solutions a changed fact can affect.

    Attributes:
        rule: the rule.
        closed: True if a new fact can remove solutions.
        predicates: ids of the predicates of facts that can match; None for all.
        graph: id of the graph of a GRAPH pattern, 0 for a variable graph, None outside of GRAPH.
    """

    def __init__(self, rule: CompiledRule, occurrence: Occurrence) -> None:
        self.rule = rule
        self.closed = occurrence.closed
        pattern, terms = occurrence.pattern, rule.terms
        self.predicates: frozenset[int] | None
        self._equal: list[tuple[int, int]] = []
        self._binds: list[tuple[int, int]] = []
        self._constants: list[tuple[int, int]] = []
        self._path: PathSteps | None = None
        self._path_slot: int | None = None
        self._graph_slot: int | None = None
        names: set[str] = set()
        match occurrence.graph:
            case None:
                self.graph: int | None = None
            case NamedNode() as iri:
                self.graph = terms.id_of(iri)
            case n.Var(name):
                self.graph = 0
                if name in occurrence.visible:
                    self._graph_slot = rule.scope[name]
                    names.add(name)
        if isinstance(pattern, n.Path):
            found = predicates_of(pattern.path)
            self.predicates = None if found is None else frozenset(map(terms.id_of, found))
            self._path = PathSteps(pattern.path, terms)
            if isinstance(pattern.subject, n.Var) and pattern.subject.name in occurrence.visible:
                self._path_slot = rule.scope[pattern.subject.name]
                names.add(pattern.subject.name)
        else:
            fixed = isinstance(pattern.predicate, NamedNode)
            self.predicates = frozenset((terms.id_of(pattern.predicate),)) if fixed else None  # type: ignore[arg-type]
            places: dict[str, int] = {}
            for place, term in enumerate((pattern.subject, pattern.predicate, pattern.object)):
                match term:
                    case n.Var(name):
                        if name in places:
                            self._equal.append((places[name], place))
                        places[name] = place
                        if name in occurrence.visible and name not in names:
                            self._binds.append((place, rule.scope[name]))
                            names.add(name)
                    case n.TripleTerm():
                        continue
                    case _:
                        self._constants.append((place, terms.id_of(term)))
        self._bound = frozenset(names)
        self._guards = _guards(rule, occurrence, self._binds) if self._path is None else []

    def matches(self, fact: Fact) -> bool:
        """Return True if the fact matches the pattern."""
        for place, value in self._constants:
            if fact[place] != value:
                return False
        for one, other in self._equal:
            if fact[one] != fact[other]:
                return False
        return True

    def heads(self, fact: Fact, graph: int | None, facts: Facts, states: Sequence[Facts]) -> Iterator[Fact]:
        """Yield the heads of all solutions over ``facts`` that the fact can affect.

        Args:
            fact: the changed fact.
            graph: the id of its graph for a GRAPH pattern.
            facts: the facts that the body is matched with.
            states: the facts before and after the change, between which paths may differ.
        """
        values: dict[int, int] = {}
        if self._graph_slot is not None and graph is not None:
            values[self._graph_slot] = graph
        if self._path is None:
            for s, p, o in self._guards:
                if not facts.match(None if s is None else s(fact), p, None if o is None else o(fact)):
                    return
            for place, slot in self._binds:
                values[slot] = fact[place]
            yield from self.rule.heads(facts, self._bound, values)
            return
        if self._path_slot is None:
            yield from self.rule.heads(facts, self._bound, values)
            return
        starts: set[int] = set()
        for state in states:
            starts |= self._path.starts_through(Reader(state, graph), fact)
        for start in starts:
            values[self._path_slot] = start
            yield from self.rule.heads(facts, self._bound, values)


Guard = tuple[Callable[[Fact], int] | None, int, Callable[[Fact], int] | None]
"""A pattern that every solution matches: its subject and object as functions of the changed fact, or None."""


def _guards(rule: CompiledRule, occurrence: Occurrence, binds: list[tuple[int, int]]) -> list[Guard]:
    """Return the other patterns of a body that a solution must match, and that share a term with the fact.

    Most changed facts fail one of them, at the cost of one look-up.
    """
    place_of = {slot: place for place, slot in binds}

    def reader(term: n.TermPattern) -> Callable[[Fact], int] | None:
        if isinstance(term, n.Var):
            place = place_of.get(rule.scope.get(term.name, -1))
            return None if place is None else itemgetter(place)
        if isinstance(term, n.TripleTerm):
            return None
        constant = rule.terms.id_of(term)
        return lambda _: constant

    guards: list[Guard] = []
    for pattern in _required(rule.rule.body):
        if pattern is occurrence.pattern or not isinstance(pattern.predicate, NamedNode):
            continue
        shares = any(
            isinstance(term, n.Var) and rule.scope.get(term.name) in place_of
            for term in (pattern.subject, pattern.object)
        )
        if shares:
            predicate = rule.terms.id_of(pattern.predicate)
            guards.append((reader(pattern.subject), predicate, reader(pattern.object)))
    return guards


def _required(node: n.Algebra) -> Iterator[n.TriplePattern]:
    """Yield the triple patterns that every solution of a body matches."""
    match node:
        case n.Bgp(patterns):
            yield from patterns
        case n.Join(left, right):
            yield from _required(left)
            yield from _required(right)
        case n.Filter(_, inner) | n.Extend(inner, _, _):
            yield from _required(inner)


class TriggerIndex:
    """The triggers of one stratum by predicate."""

    def __init__(self, rules: Iterable[CompiledRule]) -> None:
        self.rules = list(rules)
        self._any: list[Trigger] = []
        self._by_predicate: dict[int, list[Trigger]] = {}
        self._in_graphs: list[Trigger] = []
        for rule in self.rules:
            for occurrence in rule.rule.patterns:
                trigger = Trigger(rule, occurrence)
                if trigger.graph is not None:
                    self._in_graphs.append(trigger)
                elif trigger.predicates is None:
                    self._any.append(trigger)
                else:
                    for predicate in trigger.predicates:
                        self._by_predicate.setdefault(predicate, []).append(trigger)

    @property
    def reads_graphs(self) -> bool:
        """True if a rule of the stratum has a GRAPH pattern."""
        return bool(self._in_graphs)

    def of(self, fact: Fact) -> Iterator[Trigger]:
        """Yield the triggers of patterns outside of GRAPH that a fact matches."""
        for trigger in self._by_predicate.get(fact[1], ()):
            if trigger.matches(fact):
                yield trigger
        for trigger in self._any:
            if trigger.matches(fact):
                yield trigger

    def in_graph(self, graph: int, fact: Fact) -> Iterator[Trigger]:
        """Yield the triggers of GRAPH patterns that a quad matches."""
        for trigger in self._in_graphs:
            if (
                trigger.graph in (0, graph)
                and (trigger.predicates is None or fact[1] in trigger.predicates)
                and trigger.matches(fact)
            ):
                yield trigger
