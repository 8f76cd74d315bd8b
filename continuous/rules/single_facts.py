"""Consequences of single facts, for rules that never join two facts of the data.

In a rule such as ``?c rdfs:subClassOf ?d . ?x a ?c``, one pattern matches data, and the others match a
schema, with which it shares only the predicate or the class. The data is the content of a window, or what a
commit inserts. While no triple of the data has a predicate of the schema, each derivation uses one triple of
the data. The consequences of the data are then the union of the consequences of its triples. Triples with the
same predicate, or ``rdf:type`` triples with the same class, have consequences that differ only in the
subjects and objects:

    :x a :Cat       ->  ?s a :Mammal . ?s a :Animal         remembered for all triples ?s a :Cat
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Triple

from ..algebra import nodes as n
from ..algebra.build import conjuncts
from ..algebra.variables import triple_variables
from .facts import Fact, Facts
from .lists import TYPE
from .rule import Rule
from .terms import RuleTerms
from .trigger_index import BodyTriggers, nested

_MARK = "urn:quadrill:place-of-a-fact"
_MOST_REMEMBERED = 200_000
"""Maximum number of cached triples of consequences, about 20 MB; a full cache is emptied."""
_CHECK_EVERY = 256
"""Number of derivations between two checks of a budget."""

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

    def __init__(
        self, schema: frozenset[NamedNode], terms: RuleTerms, triggers: Sequence[BodyTriggers]
    ) -> None:
        """Remember nothing yet; ``schema`` has the value of `schema_of`, ``triggers`` those of the rules."""
        self.schema = frozenset(map(terms.id_of, schema))
        self._terms = terms
        self._type = terms.id_of(TYPE)
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
        self._size = 0
        self._triggers = triggers

    def clear(self) -> None:
        """Remove all cached consequences."""
        self._known.clear()
        self._size = 0

    def changed(self, predicates: Iterable[int]) -> None:
        """Remove all cached consequences if triples of the schema have changed.

        ``predicates`` has the ids of the predicates of all triples that the graphs gained or lost.
        """
        if not self.schema.isdisjoint(predicates):
            self.clear()

    def templates(self, fact: Fact, facts: Facts, check: Callable[[int], None]) -> Templates | None:
        """Return the templates of a fact's consequences; None if other facts may have a part in them.

        Args:
            fact: a triple of the data.
            facts: facts that include the schema.
            check: called with the number of derivations so far after every 256 of them, unless the
                consequences are cached; it stops the computation by raising an error.
        """
        s, p, o = fact
        if p in self.schema:
            return None
        terms = self._terms.dictionary.terms
        value = o if p == self._type else Literal if o < 0 else type(terms[o])
        if value is Triple:
            return None
        key = p, value, type(terms[s])
        found = self._known.get(key, _UNKNOWN)
        return self._derived(key, facts, check) if found is _UNKNOWN else found

    def _derived(self, key: _Key, facts: Facts, check: Callable[[int], None]) -> Templates | None:
        p, value, kind = key
        subject = self._subjects[kind]
        place = value if isinstance(value, int) else self._objects[value]
        marks = (subject,) if place == value else (subject, place)
        derived: dict[Fact, None] = {}
        number = 0
        queue: list[Fact] = [(subject, p, place)]
        while queue:
            new: list[Fact] = []
            for index in self._triggers:
                for trigger, changed in index.of(queue):
                    for head in trigger.heads(changed, None, facts, (facts,)):
                        number += 1
                        if number % _CHECK_EVERY == 0:
                            check(number)
                        if head not in derived:
                            derived[head] = None
                            new.append(head)
            queue = new
            # What follows from a triple depends on its predicate and its class.
            if any(
                each[1] in self.schema or each[1] in marks or (each[1] == self._type and each[2] in marks)
                for each in new
            ):
                return self._remember(key, None)
        places = {subject: _SUBJECT, place: place if place == value else _OBJECT}
        return self._remember(
            key,
            [
                (places.get(one, one), places.get(two, two), places.get(three, three))
                for one, two, three in derived
            ],
        )

    def _remember(self, key: _Key, found: Templates | None) -> Templates | None:
        size = 1 if found is None else 1 + len(found)
        if self._size + size > _MOST_REMEMBERED:
            self.clear()
        self._known[key] = found
        self._size += size
        return found


def instances(templates: Templates, fact: Fact) -> list[Fact]:
    """Return the consequences of a fact, given their templates."""
    s, _, o = fact
    return [
        (
            o if one is None else one or s,
            o if two is None else two or s,
            o if three is None else three or s,
        )
        for one, two, three in templates
    ]


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
    if rule.compile is not None or any(map(nested, rule.head)):
        return None
    found: list[n.TriplePattern] = []
    for part in conjuncts(rule.body):
        if not isinstance(part, n.Bgp):
            return None
        found += part.patterns
    return None if not found or any(map(nested, found)) else found


def _is_data(pattern: n.TriplePattern, others: Sequence[n.TriplePattern]) -> bool:
    """Return True if a pattern can match data: only a fact's predicate or class decides about a match.

    The variable for the predicate or class is the only one that the other patterns may have in common with
    it.
    """
    subject, predicate, value = pattern.subject, pattern.predicate, pattern.object
    if not isinstance(subject, n.Var):
        return False
    key: set[str] = set()
    if predicate == TYPE:
        key = {value.name} if isinstance(value, n.Var) else set()
    elif not isinstance(value, n.Var):
        return False
    elif isinstance(predicate, n.Var):
        key = {predicate.name}
    names = triple_variables(pattern)
    if len(names) < sum(isinstance(each, n.Var) for each in (subject, predicate, value)):
        return False
    return not (names - key) & frozenset().union(*map(triple_variables, others))
