"""Compiled triggers, which find the heads that changed facts can affect, and the index of triggers by fact.

In a rule about schema, such as ``?c rdfs:subClassOf ?d . ?x a ?c``, facts with the same predicate, or
``rdf:type`` facts with the same class, share the schema part of the body. The schema part is matched once for
all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import itemgetter
from typing import Protocol, TypeAlias

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.build import conjuncts
from ..algebra.variables import in_scope
from .facts import Fact, Facts
from .heads import Bindings, HeadTemplate
from .interfaces import Evaluable, TriggerLike
from .layout import Layout, Matcher
from .matching import BodyCompiler
from .paths import FactReader, PathSteps
from .rule import Rule
from .terms import RuleTerms
from .triggers import Occurrence, predicates_of

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
Conjunct: TypeAlias = "n.TriplePattern | n.Path"


def conjunction(body: n.Algebra) -> list[Conjunct] | None:
    """Return the triple patterns and paths of a body that joins nothing else; None for other bodies."""
    found: list[Conjunct] = []
    for part in conjuncts(body):
        if isinstance(part, n.Bgp):
            found += part.patterns
        elif isinstance(part, n.Path):
            found.append(part)
        else:
            return None
    return found


class BodyRule(Protocol):
    """A compiled rule with a body; see `program.CompiledRule`."""

    rule: Rule
    terms: RuleTerms
    layout: Layout
    compiler: BodyCompiler
    scope: dict[str, int]
    templates: list[HeadTemplate]

    def heads(self, facts: Facts, bound: frozenset[str], values: Bindings) -> Iterator[Fact]:
        """Yield the head triples of the solutions that are compatible with bound values."""
        ...


class BodyTrigger:
    """The trigger of one triple pattern or path of a rule body; see `interfaces.TriggerLike`."""

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
        self._split: _Split | None = None
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
            if parts is not None and not _nested(pattern):
                others = [each for each in parts if each is not pattern]
                self._split = _Split(rule, pattern, others, frozenset(names))
                self.key = self._split.key
        self.together = self._path is not None
        needed = self._path is None and self._split is None
        self._guards = _guards(rule, occurrence, self._binds) if needed else []
        self._bound = frozenset(names)

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
    ) -> Iterator[Fact]:
        """Yield the heads of all solutions that changed facts can affect; see `TriggerLike.heads`."""
        if self._split is not None:
            yield from self._split.heads(changed, facts, self._binds)
            return
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


class _Split:
    """The other patterns of a join, divided for one pattern that changed facts match.

    The schema part is matched once for all facts of a call of `heads`, the rest for each of the facts.

    Attributes:
        key: the position of the fact's term that the schema part reads: 1 for the predicate, 2 for the class
            of an ``rdf:type`` fact; None if there is no schema part.
    """

    def __init__(
        self, rule: BodyRule, pattern: n.TriplePattern, others: list[Conjunct], bound: frozenset[str]
    ) -> None:
        self._rule = rule
        self._bound = bound
        name = _key_name(pattern)
        self._schema_parts = [] if name is None else _connected(name, others, bound)
        self._rest_parts = [each for each in others if each not in self._schema_parts]
        self.key: int | None = None
        self._key_name = name if self._schema_parts else None
        if self._schema_parts:
            self.key = 1 if isinstance(pattern.predicate, n.Var) else 2
        self._matchers: tuple[Matcher | None, Matcher | None] | None = None

    def heads(self, changed: Sequence[Fact], facts: Facts, binds: list[tuple[int, int]]) -> Iterator[Fact]:
        """Yield the head triples of the solutions with a changed fact; all facts agree in ``key``."""
        schema, rest = self._matchers or self._compiled()
        frame = self._rule.layout.frame()
        templates = self._rule.templates
        first = changed[0]
        for place, slot in binds:
            if place == self.key:
                frame[slot] = first[place]
        for _ in schema(frame, facts) if schema else (None,):
            for fact in changed:
                for place, slot in binds:
                    frame[slot] = fact[place]
                if rest is None:
                    for template in templates:
                        head = template.fact(frame)
                        if head is not None:
                            yield head
                else:
                    for _ in rest(frame, facts):
                        for template in templates:
                            head = template.fact(frame)
                            if head is not None:
                                yield head

    def _compiled(self) -> tuple[Matcher | None, Matcher | None]:
        compile, scope = self._rule.compiler.compile, self._rule.scope
        schema = rest = None
        bound = self._bound
        if self._schema_parts:
            assert self._key_name is not None
            schema = compile(_join(self._schema_parts), scope, frozenset((self._key_name,)))
            bound |= in_scope(_join(self._schema_parts))
        if self._rest_parts:
            rest = compile(_join(self._rest_parts), scope, bound)
        self._matchers = schema, rest
        return self._matchers


def _key_name(pattern: n.TriplePattern) -> str | None:
    if isinstance(pattern.predicate, n.Var):
        return pattern.predicate.name
    if pattern.predicate == _TYPE and isinstance(pattern.object, n.Var):
        return pattern.object.name
    return None


def _connected(key: str, others: Sequence[Conjunct], bound: frozenset[str]) -> list[Conjunct]:
    """Return the patterns that variables connect with ``key``, without variables that the fact binds."""
    found: list[Conjunct] = []
    names = {key}
    new = True
    while new:
        new = False
        for each in others:
            its = in_scope(_join([each]))
            if each not in found and its & names and not its & (bound - {key}):
                found.append(each)
                names |= its
                new = True
    return found


def _join(parts: Sequence[Conjunct]) -> n.Algebra:
    node: n.Algebra = n.Bgp(tuple(each for each in parts if isinstance(each, n.TriplePattern)))
    for each in parts:
        if isinstance(each, n.Path):
            node = n.Join(node, each)
    return node


def _nested(pattern: n.TriplePattern) -> bool:
    return isinstance(pattern.subject, n.TripleTerm) or isinstance(pattern.object, n.TripleTerm)


class BodyTriggers:
    """An index of the triggers of one stratum by the predicates and objects of matching facts."""

    def __init__(self, rules: Iterable[Evaluable]) -> None:
        self.rules = list(rules)
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
        if trigger.predicates is None:
            self._any.append(trigger)
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
