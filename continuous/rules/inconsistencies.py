"""Inconsistencies: matches of the OWL 2 RL rules that conclude ``false``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pyoxigraph import Triple

from ..algebra import nodes as n
from ..algebra.build import all_nodes
from ..algebra.variables import in_scope
from .built_in import inconsistency_rules
from .facts import Fact, Facts
from .layout import Layout
from .matching import BodyCompiler
from .rule import Rule
from .terms import RuleTerms


@dataclass(frozen=True, slots=True)
class Inconsistency:
    """One match of a rule that concludes ``false``.

    Attributes:
        rule: the W3C name of the rule.
        triples: the matched triples in the order of the rule's body. Of a list, they are the ``rdf:first``
            triples of the two members that contradict each other.
    """

    rule: str
    triples: tuple[Triple, ...]


class InconsistencyFinder:
    """Finds inconsistencies in the facts of a rule set that includes ``owl2-rl``."""

    def __init__(self, terms: RuleTerms) -> None:
        self._terms = terms
        self._rules = [_FalseRule(rule, terms) for rule in inconsistency_rules()]

    def find(self, facts: Facts, limit: int) -> list[Inconsistency]:
        """Return up to ``limit`` inconsistencies in the order of the rules."""
        return list(islice(self._all(facts), limit))

    def _all(self, facts: Facts) -> Iterator[Inconsistency]:
        for rule in self._rules:
            for matched in rule.matches(facts):
                yield Inconsistency(rule.name, tuple(self._triple(fact) for fact in matched))

    def _triple(self, fact: Fact) -> Triple:
        s, p, o = (self._terms.term(each) for each in fact)
        return Triple(s, p, o)  # type: ignore[arg-type]


class _FalseRule:
    def __init__(self, rule: Rule, terms: RuleTerms) -> None:
        self.name = rule.text
        layout = Layout(terms)
        compiler = BodyCompiler(layout)
        scope = compiler.scope(in_scope(rule.body))
        self._matcher = compiler.compile(rule.body, scope)
        self._patterns: list[list[int]] = []
        for node in all_nodes(rule.body):
            if isinstance(node, n.Bgp):
                for pattern in node.patterns:
                    slots = []
                    for term in (pattern.subject, pattern.predicate, pattern.object):
                        assert not isinstance(term, n.TripleTerm)
                        slots.append(scope[term.name] if isinstance(term, n.Var) else layout.constant(term))
                    self._patterns.append(slots)
        self._layout = layout

    def matches(self, facts: Facts) -> Iterator[list[Fact]]:
        """Yield the facts that each solution matches; solutions with the same facts count once."""
        frame = self._layout.frame()
        seen: set[tuple[Fact, ...]] = set()
        for _ in self._matcher(frame, facts):
            matched = [(frame[s], frame[p], frame[o]) for s, p, o in self._patterns]
            key = tuple(sorted(matched))
            if key not in seen:
                seen.add(key)
                yield matched
