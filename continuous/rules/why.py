"""Derivations: why a rule set infers a triple, one level deep."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import Quad

from ..algebra import nodes as n
from .facts import Fact
from .matching import Frame
from .program import CompiledRule, Program
from .store_facts import StoreFacts

_MOST = 10
"""Maximum number of derivations in one answer."""


@dataclass(frozen=True, slots=True)
class Derivation:
    """One way in which a rule gives a triple.

    Attributes:
        rule: the text of the rule; of a built-in rule its W3C name.
        premises: a quad of the store for each triple pattern that the body matched.
    """

    rule: str
    premises: tuple[Quad, ...]


def derivations(program: Program, fact: Fact, facts: StoreFacts) -> list[Derivation]:
    """Return derivations of an inferred triple, at most ten."""
    found: dict[Derivation, None] = {}
    for rule in program.rules:
        for frame in islice(rule.solutions_for(fact, facts), _MOST):
            found[Derivation(rule.rule.text, tuple(_premises(rule, frame, facts)))] = None
            if len(found) >= _MOST:
                return list(found)
    return list(found)


def _premises(rule: CompiledRule, frame: Frame, facts: StoreFacts) -> Iterator[Quad]:
    """Yield the quads that the triple patterns of the body match in one solution."""
    given: dict[Quad, None] = {}
    for occurrence in rule.rule.patterns:
        pattern = occurrence.pattern
        if occurrence.closed or isinstance(pattern, n.Path):
            continue
        ids = [_value(rule, term, frame) for term in (pattern.subject, pattern.predicate, pattern.object)]
        graph = None if occurrence.graph is None else _value(rule, occurrence.graph, frame)
        for quad in facts.quads(ids, graph, named=occurrence.graph is not None):
            given.setdefault(quad)
            break
    yield from given


def _value(rule: CompiledRule, term: n.TermPattern, frame: Frame) -> int | None:
    if isinstance(term, n.Var):
        slot = rule.scope.get(term.name)
        return None if slot is None else frame[slot]
    return None if isinstance(term, n.TripleTerm) else rule.terms.id_of(term)
