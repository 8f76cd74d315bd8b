"""Compiled triggers, which find the heads that changed facts can affect, and their index by fact."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.variables import triple_variables
from .facts import Fact, Facts
from .interfaces import Evaluable, TriggerLike
from .join_split import BodyRule, Conjunct, JoinSplit
from .paths import FactReader, PathSteps
from .triggers import Occurrence, predicates_of


class BodyTrigger:
    """The trigger of one triple pattern or path of a rule body; see `interfaces.TriggerLike`.

    Attributes:
        rule: the compiled rule.
        exact: True if in every solution of `heads` the pattern matches one of the changed facts.
    """

    def __init__(self, rule: BodyRule, occurrence: Occurrence, parts: Sequence[Conjunct] | None) -> None:
        self.rule = rule
        self.closed = occurrence.closed
        pattern, terms = occurrence.pattern, rule.terms
        self.predicates: frozenset[int] | None
        self.key: int | None = None
        self.value: int | None = None
        self._equal: list[tuple[int, int]] = []
        self._binds: list[tuple[int, int]] = []
        self._constants: list[tuple[int, int]] = []
        self._path: PathSteps | None = None
        self._path_slot: int | None = None
        self._graph_slot: int | None = None
        self._split: JoinSplit | None = None
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
                    case _ if place == 1:
                        continue  # `BodyTriggers` selects triggers by predicate
                    case _ if place == 2:
                        self.value = terms.id_of(term)
                    case _:
                        self._constants.append((place, terms.id_of(term)))
            if parts is not None and not nested(pattern):
                others = [each for each in parts if each is not pattern]
                self._split = JoinSplit(rule, pattern, others, frozenset(names))
                self.key = self._split.key
        self.together = self._path is not None
        needed = self._path is None and self._split is None
        self._guards = _guards(rule, occurrence, self._binds) if needed else []
        self._bound = frozenset(names)
        whole = isinstance(pattern, n.TriplePattern) and triple_variables(pattern) <= names
        required = any(each is pattern for each in _required(rule.rule.body))
        self.exact = whole and required and self.graph is None and not nested(pattern)  # type: ignore[arg-type]

    def matches(self, fact: Fact) -> bool:
        """Return True if a fact with the predicate and object of the trigger may match the pattern."""
        for place, value in self._constants:
            if fact[place] != value:
                return False
        for one, other in self._equal:
            if fact[one] != fact[other]:
                return False
        return True

    @property
    def selective(self) -> bool:
        """True if a fact with the predicate and object of the trigger may fail to match: call `matches`."""
        return bool(self._constants or self._equal)

    def heads(
        self, changed: Sequence[Fact], graph: int | None, facts: Facts, states: Sequence[Facts]
    ) -> Iterable[Fact]:
        """Return the heads of all solutions that changed facts can affect; see `TriggerLike.heads`."""
        if self._split is not None:
            return self._split.heads(changed, facts, self._binds)
        return self._matched_heads(changed, graph, facts, states)

    def _matched_heads(
        self, changed: Sequence[Fact], graph: int | None, facts: Facts, states: Sequence[Facts]
    ) -> Iterator[Fact]:
        values: dict[int, int] = {}
        if self._graph_slot is not None and graph is not None:
            values[self._graph_slot] = graph
        heads, bound = self.rule.heads, self._bound
        if self._path is None:
            for fact in changed:
                if self._may_match(fact, facts):
                    for place, slot in self._binds:
                        values[slot] = fact[place]
                    yield from heads(facts, bound, values)
        elif self._path_slot is None:
            yield from heads(facts, bound, values)
        else:
            starts: set[int] = set()
            for state in states:
                starts |= self._path.starts_through(FactReader(state, graph), changed)
            for start in starts:
                values[self._path_slot] = start
                yield from heads(facts, bound, values)

    @property
    def schema(self) -> frozenset[int] | None:
        """The predicates of the facts that `idle` looks up; None if it looks up nothing."""
        return None if self._split is None else self._split.schema

    def idle(self, predicate: int, facts: Facts) -> bool:
        """Return True if the schema has no match for a predicate, so that its facts have no heads."""
        return self._split is not None and self._split.idle(predicate, facts)

    def _may_match(self, fact: Fact, facts: Facts) -> bool:
        return all(
            facts.match(None if s is None else s(fact), p, None if o is None else o(fact))
            for s, p, o in self._guards
        )


Guard = tuple[Callable[[Fact], int] | None, int, Callable[[Fact], int] | None]
"""A pattern that every solution matches: subject, predicate and object.

The subject and the object are functions of the changed fact, or None if they are not known from it.
"""


def _guards(rule: BodyRule, occurrence: Occurrence, binds: list[tuple[int, int]]) -> list[Guard]:
    """Return the other patterns that every solution matches and that share a variable with the trigger.

    A changed fact for which one of them has no match affects no solution. This check is a look-up for each
    guard, and cheaper than the evaluation of the body.
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
    """Yield the triple patterns of a body that every solution must match."""
    match node:
        case n.Bgp(patterns):
            yield from patterns
        case n.Join(left, right):
            yield from _required(left)
            yield from _required(right)
        case n.Filter(_, inner) | n.Extend(inner, _, _):
            yield from _required(inner)


def nested(pattern: n.TriplePattern) -> bool:
    """Return True if a triple pattern has a triple term."""
    return isinstance(pattern.subject, n.TripleTerm) or isinstance(pattern.object, n.TripleTerm)


class BodyTriggers:
    """An index of the triggers of one stratum by the predicates and objects of matching facts.

    Attributes:
        rules: the rules of the stratum.
        closed: True if a pattern outside of GRAPH stands below a negation, an aggregate or an OPTIONAL.
        schema: the predicates of the facts that `idle` looks up.
    """

    def __init__(self, rules: Iterable[Evaluable]) -> None:
        self.rules = list(rules)
        self.closed = False
        self.schema: frozenset[int] = frozenset()
        self._any: list[TriggerLike] = []
        self._by_predicate: dict[int, list[TriggerLike]] = {}
        self._by_class: dict[int, list[TriggerLike]] = {}
        self._by_value: dict[tuple[int, int], list[TriggerLike]] = {}
        self._grouped: set[int] = set()
        self._in_graphs: list[TriggerLike] = []
        for rule in self.rules:
            for trigger in rule.triggers():
                if trigger.graph is not None:
                    self._in_graphs.append(trigger)
                else:
                    self._add(trigger)

    def _add(self, trigger: TriggerLike) -> None:
        self.closed = self.closed or trigger.closed
        if trigger.predicates is None:
            self._any.append(trigger)
            if isinstance(trigger, BodyTrigger):
                self.schema |= trigger.schema or frozenset()
            return
        for predicate in trigger.predicates:
            if trigger.value is not None:
                self._by_value.setdefault((predicate, trigger.value), []).append(trigger)
                self._grouped.add(predicate)
            elif trigger.key == 2:
                self._by_class.setdefault(predicate, []).append(trigger)
                self._grouped.add(predicate)
            else:
                self._by_predicate.setdefault(predicate, []).append(trigger)

    @property
    def reads_graphs(self) -> bool:
        """True if a rule of the stratum has a GRAPH pattern."""
        return bool(self._in_graphs)

    def predicates(self) -> set[int] | None:
        """Return the ids of the predicates that the patterns match; None if a pattern matches any one."""
        found: set[int] = set()
        for trigger in (*self._any, *self._in_graphs):
            if trigger.predicates is None:
                return None
            found |= trigger.predicates
        return found.union(self._by_predicate, self._by_class, (predicate for predicate, _ in self._by_value))

    def idle(self, predicate: int, facts: Facts) -> bool:
        """Return True if facts with a predicate can affect no head while the schema in ``facts`` stays."""
        if self._in_graphs or predicate in self._by_predicate or predicate in self._grouped:
            return False
        return all(isinstance(each, BodyTrigger) and each.idle(predicate, facts) for each in self._any)

    def of(self, changed: Iterable[Fact]) -> Iterator[tuple[TriggerLike, list[Fact]]]:
        """Yield each trigger outside of GRAPH that changed facts match, with a group of these facts.

        A trigger may come several times, each time with another group.
        """
        by_predicate: dict[int, list[Fact]] = {}
        for fact in changed:
            by_predicate.setdefault(fact[1], []).append(fact)
        together: dict[TriggerLike, list[Fact]] = {}
        for trigger, facts in self._matched(by_predicate):
            if trigger.selective:
                facts = [fact for fact in facts if trigger.matches(fact)]
            if not facts:
                continue
            if trigger.together:
                together.setdefault(trigger, []).extend(facts)
            else:
                yield trigger, facts
        yield from together.items()

    def _matched(self, by_predicate: dict[int, list[Fact]]) -> Iterator[tuple[TriggerLike, list[Fact]]]:
        for predicate, facts in by_predicate.items():
            for trigger in self._by_predicate.get(predicate, ()):
                yield trigger, facts
            for trigger in self._any:
                if trigger.value is None:
                    yield trigger, facts
                else:
                    yield trigger, [fact for fact in facts if fact[2] == trigger.value]
            if predicate in self._grouped:
                by_value: dict[int, list[Fact]] = {}
                for fact in facts:
                    by_value.setdefault(fact[2], []).append(fact)
                by_class = self._by_class.get(predicate, ())
                for value, group in by_value.items():
                    for trigger in by_class:
                        yield trigger, group
                    for trigger in self._by_value.get((predicate, value), ()):
                        yield trigger, group

    def outside(self, changed: Iterable[Fact]) -> Iterator[tuple[TriggerLike, list[Fact]]]:
        """Yield triggers for facts of graphs to which no rule adds; see `of`."""
        return self.of(changed)

    def in_graph(self, graph: int, fact: Fact) -> Iterator[TriggerLike]:
        """Yield the triggers of GRAPH patterns that a triple of the named graph ``graph`` matches."""
        for trigger in self._in_graphs:
            if (
                trigger.graph in (0, graph)
                and (trigger.predicates is None or fact[1] in trigger.predicates)
                and (trigger.value is None or trigger.value == fact[2])
                and trigger.matches(fact)
            ):
                yield trigger
