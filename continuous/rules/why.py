"""Derivations of an inferred triple: the rules that give it, and the quads that each rule matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import Quad

from .facts import Fact
from .interfaces import Premise
from .program import Program
from .store_facts import StoreFacts

_MOST = 10
"""Maximum number of derivations of one triple in an answer."""


@dataclass(frozen=True, slots=True)
class RuleDerivation:
    """One way in which a rule derives a triple, in one step.

    Attributes:
        rule: the text of the rule; of a built-in rule its W3C name.
        premises: the matched quads: one for each triple pattern that matched, and those of one way along a
            path.
    """

    rule: str
    premises: tuple[Quad, ...]


def derivations(program: Program, fact: Fact, facts: StoreFacts) -> list[RuleDerivation]:
    """Return derivations of an inferred triple, at most ten."""
    found: dict[RuleDerivation, None] = {}
    for rule in program.rules:
        for premises in islice(rule.explain(fact, facts), _MOST):
            found[RuleDerivation(rule.rule.text, tuple(_quads(premises, facts)))] = None
            if len(found) >= _MOST:
                return list(found)
    return list(found)


def _quads(premises: Sequence[Premise], facts: StoreFacts) -> Iterator[Quad]:
    """Yield a quad of the store for each premise, without duplicates; of an input graph if one has it."""
    given: dict[Quad, None] = {}
    for premise in premises:
        for quad in facts.quads(premise.triple, premise.graph, named=premise.named):
            given.setdefault(quad)
            break
    yield from given
