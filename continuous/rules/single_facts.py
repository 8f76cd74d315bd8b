"""Consequences of single facts, for rules that never join two facts of a window's content.

In a rule such as ``?c rdfs:subClassOf ?d . ?x a ?c``, one pattern matches data, and the others match a
schema, with which it shares only the predicate or the class. While no triple of the content has a predicate
of the schema, each derivation uses one triple of the content. The consequences of a content are then the
union of the consequences of its triples. Triples with the same predicate, or ``rdf:type`` triples with the
same class, have consequences that differ only in the subjects and objects:

    :x a :Cat       ->  ?s a :Mammal . ?s a :Animal         remembered for all triples ?s a :Cat
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.build import conjuncts
from ..algebra.variables import triple_variables
from .facts import Fact
from .rule import Rule
from .terms import RuleTerms

_TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
_MARK = "urn:quadrill:place-of-a-fact"
_MOST_REMEMBERED = 20_000
"""Maximum number of cached predicates and classes; a full cache is emptied."""

Derive: TypeAlias = Callable[[Fact], Iterable[Fact]]
"""Returns all consequences of a content that is a single fact."""
Templates: TypeAlias = list[tuple[int | None, int | None, int | None]]
"""The consequences of a fact: term ids, with 0 in place of its subject and None in place of its object."""
_SUBJECT, _OBJECT = 0, None
_Key: TypeAlias = tuple[int, int | type, type]
"""The predicate of a fact, the class or the kind of the object's term, and the kind of the subject's term."""


class SingleFacts:
    """A cache of the consequences of single facts, by predicate or class.

    Attributes:
        schema: the ids of the predicates of the schema.
    """

    def __init__(self, schema: frozenset[NamedNode], terms: RuleTerms) -> None:
        self.schema = frozenset(map(terms.id_of, schema))
        self._terms = terms
        self._type = terms.id_of(_TYPE)
        # Placeholders for the subject and the object of a fact, by kind of term.
        self._subjects: dict[type, int] = {
            NamedNode: terms.id_of(NamedNode(f"{_MARK}:s")),
            BlankNode: terms.id_of(BlankNode("subject")),
        }
        self._objects: dict[type, int] = {
            NamedNode: terms.id_of(NamedNode(f"{_MARK}:o")),
            BlankNode: terms.id_of(BlankNode("object")),
            Literal: terms.id_of(Literal(f"{_MARK}:object")),
        }
        self._known: dict[_Key, Templates | None] = {}

    def clear(self) -> None:
        """Remove all cached consequences, as is necessary after a change of the schema."""
        self._known.clear()

    def consequences(self, fact: Fact, derive: Derive) -> list[Fact] | None:
        """Return the consequences of a fact; None if other facts of the content may have a part in them.

        Args:
            fact: a triple of the content.
            derive: computes the consequences of a single fact if they are not cached.
        """
        s, p, o = fact
        if p in self.schema:
            return None
        terms = self._terms.dictionary.terms
        value = o if p == self._type else Literal if o < 0 else type(terms[o])
        if value is Triple:
            return None
        key = p, value, type(terms[s])
        templates = self._known.get(key, _UNKNOWN)
        if templates is _UNKNOWN:
            templates = self._templates(key, derive)
        if templates is None:
            return None
        return [
            (
                o if one is None else one or s,
                o if two is None else two or s,
                o if three is None else three or s,
            )
            for one, two, three in templates
        ]

    def _templates(self, key: _Key, derive: Derive) -> Templates | None:
        p, value, kind = key
        subject = self._subjects[kind]
        place = value if isinstance(value, int) else self._objects[value]
        derived = list(derive((subject, p, place)))
        found: Templates | None = None
        if all(fact[1] not in self.schema for fact in derived):
            places = {subject: _SUBJECT, place: place if place == value else _OBJECT}
            found = [
                (places.get(one, one), places.get(two, two), places.get(three, three))
                for one, two, three in derived
            ]
        if len(self._known) >= _MOST_REMEMBERED:
            self._known.clear()
        self._known[key] = found
        return found


_UNKNOWN: Templates = []


def schema_of(rules: Sequence[Rule]) -> frozenset[NamedNode] | None:
    """Return the predicates of the schema of rules; None if a rule may join two facts of a content."""
    schema: set[NamedNode] = set()
    for rule in rules:
        patterns = _patterns(rule)
        if patterns is None:
            return None
        others = next(
            (
                [each for each in patterns if each is not data]
                for data in patterns
                if _is_data(data, [each for each in patterns if each is not data])
            ),
            patterns,
        )
        for each in others:
            if not isinstance(each.predicate, NamedNode):
                return None
            schema.add(each.predicate)
    return frozenset(schema)


def _patterns(rule: Rule) -> list[n.TriplePattern] | None:
    """Return the triple patterns of a body that consists of triple patterns; None for other rules."""
    if rule.compile is not None or not all(_is_flat(each) for each in rule.head):
        return None
    found: list[n.TriplePattern] = []
    for part in conjuncts(rule.body):
        if not isinstance(part, n.Bgp):
            return None
        found += part.patterns
    return found if found and all(map(_is_flat, found)) else None


def _is_flat(pattern: n.TriplePattern) -> bool:
    return not any(isinstance(each, n.TripleTerm) for each in (pattern.subject, pattern.object))


def _is_data(pattern: n.TriplePattern, others: Sequence[n.TriplePattern]) -> bool:
    """Return True if a pattern can match data: only a fact's predicate or class decides about a match.

    The variable for the predicate or class is the only one that the other patterns may have in common with
    it.
    """
    subject, predicate, value = pattern.subject, pattern.predicate, pattern.object
    if not isinstance(subject, n.Var):
        return False
    key: set[str] = set()
    if predicate == _TYPE:
        key = {value.name} if isinstance(value, n.Var) else set()
    elif not isinstance(value, n.Var):
        return False
    elif isinstance(predicate, n.Var):
        key = {predicate.name}
    names = triple_variables(pattern)
    if len(names) < sum(isinstance(each, n.Var) for each in (subject, predicate, value)):
        return False
    return not (names - key) & frozenset().union(*map(triple_variables, others))
