"""Joins of changed facts with a rule body, whose other patterns are a schema part and a rest.

In a rule such as ``?c rdfs:subClassOf ?d . ?x a ?c``, facts with the same predicate, or ``rdf:type`` facts
with the same class, share the schema part of the body. The schema part is matched once for all of them, and
its solutions are cached until a commit changes the schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Protocol, TypeAlias

from pyoxigraph import NamedNode

from ..algebra import nodes as n
from ..algebra.build import conjuncts
from ..algebra.variables import in_scope
from .facts import Fact, Facts, Row
from .heads import Bindings, HeadTemplate
from .layout import Layout, Matcher
from .lists import TYPE
from .matching import BodyCompiler
from .rule import Rule
from .terms import RuleTerms
from .triggers import predicates_of

Conjunct: TypeAlias = "n.TriplePattern | n.Path"


def conjunction(body: n.Algebra) -> list[Conjunct] | None:
    """Return the triple patterns and paths of a body that consists of them; None for other bodies."""
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


class JoinSplit:
    """The patterns of a rule body except the one that changed facts match, in two parts.

    A call of `heads` matches the schema part once for all changed facts, and the rest for each of them.

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
        self._schema: _SchemaPart | None = None
        if name is not None and self._schema_parts:
            self.key = 1 if isinstance(pattern.predicate, n.Var) else 2
            self._schema = _SchemaPart(rule, name, self._schema_parts)
        self._rest: Matcher | None = None

    def heads(self, changed: Sequence[Fact], facts: Facts, binds: list[tuple[int, int]]) -> Iterator[Fact]:
        """Yield the heads of the solutions with a changed fact; all facts have one term at place ``key``."""
        schema, key = self._schema, self.key
        rows: Iterable[Row] = ((),)
        slots: Sequence[int] = ()
        if schema is not None and key is not None:
            rows, slots = schema.rows(changed[0][key], facts), schema.slots
            if not rows:
                return
        rest = self._rest or self._compiled_rest() if self._rest_parts else None
        frame = self._rule.layout.frame()
        templates = self._rule.templates
        for row in rows:
            for slot, value in zip(slots, row, strict=True):
                frame[slot] = value
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

    @property
    def schema(self) -> frozenset[int] | None:
        """The predicates of the facts that `idle` looks up; None if `idle` looks up nothing."""
        return None if self._schema is None or self.key != 1 else self._schema.predicates

    def idle(self, predicate: int, facts: Facts) -> bool:
        """Return True if the schema part matches nothing for a predicate: its facts then derive nothing."""
        schema = self._schema
        if schema is None or self.schema is None:
            return False
        return not any(True for _ in schema.rows(predicate, facts))

    def _compiled_rest(self) -> Matcher:
        bound = self._bound | in_scope(_join(self._schema_parts))
        self._rest = self._rule.compiler.compile(_join(self._rest_parts), self._rule.scope, bound)
        return self._rest


class _SchemaPart:
    """The patterns of a body that depend on one term of a changed fact only: its predicate or its class.

    Attributes:
        slots: the slots of the variables that a row of `rows` has values for.
        predicates: the predicates of the facts that the patterns read; None if they may read any.
    """

    def __init__(self, rule: BodyRule, key_name: str, parts: list[Conjunct]) -> None:
        self._rule = rule
        self._body = _join(parts)
        self._key_name = key_name
        self._key_slot = rule.scope[key_name]
        self.slots = [rule.scope[name] for name in sorted(in_scope(self._body))]
        self.predicates = _predicates(parts, rule.terms)
        self._matcher: Matcher | None = None

    def rows(self, key: int, facts: Facts) -> Iterable[Row]:
        """Return the values of the variables in each solution; ``key`` is the term of the changed facts."""
        if self.predicates is None:
            return self._rows(key, facts)
        return facts.kept(self.predicates, (self, key), lambda: self._rows(key, facts))

    def _rows(self, key: int, facts: Facts) -> Iterator[Row]:
        matcher = self._matcher
        if matcher is None:
            names = frozenset((self._key_name,))
            matcher = self._matcher = self._rule.compiler.compile(self._body, self._rule.scope, names)
        frame = self._rule.layout.frame()
        frame[self._key_slot] = key
        for _ in matcher(frame, facts):
            yield tuple([frame[slot] for slot in self.slots])


def _predicates(parts: Iterable[Conjunct], terms: RuleTerms) -> frozenset[int] | None:
    """Return the ids of the predicates that patterns read; None if one of them may read any."""
    found = [
        predicates_of(each.path)
        if isinstance(each, n.Path)
        else frozenset((each.predicate,))
        if isinstance(each.predicate, NamedNode)
        else None
        for each in parts
    ]
    if None in found:
        return None
    return frozenset(map(terms.id_of, chain.from_iterable(each for each in found if each is not None)))


def _key_name(pattern: n.TriplePattern) -> str | None:
    if isinstance(pattern.predicate, n.Var):
        return pattern.predicate.name
    if pattern.predicate == TYPE and isinstance(pattern.object, n.Var):
        return pattern.object.name
    return None


def _connected(key: str, others: Sequence[Conjunct], bound: frozenset[str]) -> list[Conjunct]:
    """Return the patterns that shared variables connect with ``key``.

    Patterns with another variable that a changed fact binds are left out.
    """
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
