"""Derivations of inferred triples: a derivation's rule derives the triple from the premises alone."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import DefaultGraph, NamedNode, Quad

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


def test_each_rule_has_a_derivation_and_none_needs_the_triple_itself() -> None:
    transitive = "CONSTRUCT { ?x <reaches> ?z } WHERE { ?x <reaches> ?y . ?y <reaches> ?z }"
    direct = "CONSTRUCT { ?x <reaches> ?y } WHERE { ?x <par> ?y }"
    rules = [parse_rule(text, base_iri="http://e/") for text in (transitive, direct, direct)]
    nodes = [NamedNode(f"http://e/n{number}") for number in range(15)]
    store = RuleStore(rules)
    par = NamedNode("http://e/par")
    store.commit([Quad(nodes[i - 1], par, node, DefaultGraph()) for i, node in enumerate(nodes)], [])
    rule_set = RuleSet("test", RuleSetDefinition(INTO), "http://e/", None)
    rule_set.rules = rules
    quad = Quad(nodes[0], NamedNode("http://e/reaches"), nodes[1], INTO)

    asserted, found = rule_set.why(StoreView(store.store), quad)

    assert not asserted
    assert [each.rule for each in found] == [transitive] * 9 + [direct]
    assert all(quad not in each.premises for each in found)


def test_the_only_derivation_of_an_asserted_triple_may_need_the_triple_itself() -> None:
    rules = [parse_rule("CONSTRUCT { ?x <p> ?y } WHERE { ?x <p> ?y }", base_iri="http://e/")]
    node, predicate = NamedNode("http://e/a"), NamedNode("http://e/p")
    store = RuleStore(rules)
    given = Quad(node, predicate, node, DefaultGraph())
    store.commit([given], [])
    rule_set = RuleSet("test", RuleSetDefinition(INTO), "http://e/", None)
    rule_set.rules = rules

    asserted, found = rule_set.why(StoreView(store.store), Quad(node, predicate, node, INTO))

    assert asserted
    assert [each.premises for each in found] == [(given,)]
