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

_EXAMINED = 100
"""Maximum number of matches of one rule that the search for derivations of one triple examines."""


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
    """Return derivations of an inferred triple, at most ten, in the order of the rules.

    If at most ten rules derive the triple, each of them has a derivation. Derivations that need the inferred
    triple itself are returned only if there are no others.
    """
    asserted = facts.asserted(fact)
    found: list[list[RuleDerivation]] = []
    circular: dict[RuleDerivation, None] = {}
    for rule in program.rules:
        ways: dict[RuleDerivation, None] = {}
        for premises in islice(rule.explain(fact, facts), _EXAMINED):
            needs_itself = not asserted and any(premise.triple == fact for premise in premises)
            derivation = RuleDerivation(rule.rule.text, tuple(_quads(premises, facts)))
            (circular if needs_itself else ways)[derivation] = None
            if len(ways) >= _MOST:
                break
        # Two rules of a set may have one text.
        found.append([each for each in ways if not any(each in others for others in found)])
    # The first derivation of each rule comes before any second one.
    ranked = sorted(
        (
            (place, number, derivation)
            for number, ways in enumerate(found)
            for place, derivation in enumerate(ways)
        ),
        key=lambda each: each[:2],
    )
    chosen = sorted(ranked[:_MOST], key=lambda each: each[1])
    return [derivation for _, _, derivation in chosen] or list(circular)[:_MOST]


def _quads(premises: Sequence[Premise], facts: StoreFacts) -> Iterator[Quad]:
    """Yield a quad of the store for each premise, without duplicates; of an input graph if one has it."""
    given: dict[Quad, None] = {}
    for premise in premises:
        for quad in facts.quads(premise.triple, premise.graph, named=premise.named):
            given.setdefault(quad)
            break
    yield from given
