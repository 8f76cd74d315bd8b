"""Derivations of inferred triples: a derivation's rule derives the triple from the premises alone."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import Quad

from quadrill.continuous.rules.definition import RuleSetDefinition
from quadrill.continuous.rules.rule import parse_rule
from quadrill.continuous.rules.rule_set import RuleSet
from quadrill.store.changes.pending import StoreView

from ...examples import examples
from .oracle import naive_fixpoint
from .rule_store import INTO, RuleStore
from .test_fixpoint_law import random_quad, random_rules


@pytest.mark.parametrize("seed", range(examples(300)))
def test_premises_alone_derive_the_triple(seed: int) -> None:
    rng = random.Random(seed)
    rules = random_rules(rng)
    store = RuleStore(rules)
    store.commit([random_quad(rng) for _ in range(12)], [])
    rule_set = RuleSet("test", RuleSetDefinition(INTO), "http://e/", None)
    rule_set.rules = rules
    for triple in sorted(store.inferred(), key=str)[:20]:
        asserted, found = rule_set.why(StoreView(store.store), Quad(*triple, INTO))
        assert found, triple
        assert asserted == any(quad.triple == triple for quad in store.asserted())
        for derivation in found:
            assert all(premise in store.store for premise in derivation.premises)
            if ":next*" in derivation.rule or ":p?" in derivation.rule:
                continue  # a path of length zero has no premises
            rule = parse_rule(derivation.rule, base_iri="http://e/")
            assert triple in naive_fixpoint([rule], derivation.premises), (derivation, triple)
