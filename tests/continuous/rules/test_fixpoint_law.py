"""The law of rule sets: after every commit the inferred triples equal the naive fixpoint of the version."""

from __future__ import annotations

import random

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.rules.rule import Rule, parse_rules
from quadrill.continuous.rules.strata import strata
from quadrill.store.errors import QueryTextError

from ...examples import examples
from .oracle import naive_fixpoint
from .rule_store import RuleStore

NODES = [NamedNode(f"http://e/{name}") for name in "abcde"] + [BlankNode("n1")]
VALUES = [Literal(number) for number in range(3)]
BASIC = [NamedNode(f"http://e/{name}") for name in ("p", "q", "next")]
GRAPHS = [DefaultGraph(), DefaultGraph(), NamedNode("http://e/g1"), NamedNode("http://e/g2")]

BODIES = [
    "?x :p ?y",
    "?x :p ?y . ?y :p ?z",
    "?x :next ?y . ?y :r ?z",
    "?x :r ?y . ?y :r ?z",
    "?x :r ?y . ?y :s ?x",
    "?x :s ?x",
    "?x :s ?y . :a :r ?y",
    "?x :t ?y . ?x :q ?v FILTER(?v > 0)",
    "?x :q ?v BIND(?v + 1 AS ?y)",
    "?x :r ?y FILTER NOT EXISTS { ?y :r ?x }",
    "?x :p ?y FILTER NOT EXISTS { ?x :s ?z . ?z :p ?w }",
    "?x :p ?y FILTER EXISTS { ?y :r ?z }",
    "?x :p ?y MINUS { ?x :r ?y }",
    "?x :p ?y MINUS { ?y :s ?k . ?k :next ?x }",
    "?x :p ?z OPTIONAL { ?z :r ?y }",
    "?x :next ?z OPTIONAL { ?z :q ?v } BIND(COALESCE(?v, 7) AS ?y)",
    "?x :next+ ?y",
    "?x :next* ?y",
    "?x (:p|^:next)/:r ?y",
    "?x :p? ?y . ?x :next ?z",
    "?x !(:p|:next) ?y",
    "?x :r+ ?y FILTER(?x != ?y)",
    "{ ?x :p ?y } UNION { ?y :next ?x }",
    "{ ?x :p ?y } UNION { ?x :r ?y . ?y :p ?z }",
    "{ SELECT ?x (COUNT(?z) AS ?y) { ?x :r ?z } GROUP BY ?x }",
    "{ SELECT ?x (SUM(?v) AS ?y) { ?x :p ?z . ?z :q ?v } GROUP BY ?x HAVING(COUNT(*) > 1) }",
    "?x :p ?k { SELECT (COUNT(*) AS ?y) { ?a :t ?b } }",
    "?x :p ?y . { SELECT DISTINCT ?y { ?y :next ?h } }",
    "GRAPH :g1 { ?x :p ?y }",
    "GRAPH ?g { ?x :p ?y . ?y :next ?z }",
    "?x :r ?y FILTER NOT EXISTS { GRAPH ?g { ?x :p ?y } }",
    "VALUES (?x ?y) { (:a :b) (:b UNDEF) } ?y :r ?z",
    "?x ?y ?z . ?y :next ?w",
    "?x a ?c . ?c :next ?y",
    "?x :p ?y FILTER(?x = :a || NOT EXISTS { ?x :s ?y })",
]
HEADS = [
    "?x :r ?y",
    "?y :r ?x",
    "?x :s ?y",
    "?x :t ?y",
    "?x :s ?x",
    "?x a :C",
    "?x :p ?y",
    "?x :next :a",
    "?x :r ?y . ?y :s ?x",
    "?x :u ?y",
    "?y :v ?x",
]


def random_rules(rng: random.Random) -> list[Rule]:
    """Return one to six rules that form strata."""
    while True:
        texts = [
            f"PREFIX : <http://e/> CONSTRUCT {{ {rng.choice(HEADS)} }} WHERE {{ {rng.choice(BODIES)} }}"
            for _ in range(rng.randint(1, 6))
        ]
        try:
            rules = parse_rules(texts, base_iri="http://e/")
            strata(rules)
        except QueryTextError:
            continue
        return rules


def random_quad(rng: random.Random) -> Quad:
    predicate = rng.choice(BASIC)
    subject = rng.choice(NODES)
    value = rng.choice(VALUES) if predicate.value.endswith("q") else rng.choice(NODES)
    if rng.random() < 0.1:
        return Quad(subject, NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type"), rng.choice(NODES))
    if rng.random() < 0.15:  # predicates that rules derive may be asserted, too
        predicate = NamedNode(f"http://e/{rng.choice('rst')}")
        value = rng.choice(NODES)
    if rng.random() < 0.05:
        return Quad(subject, rng.choice(NODES[:5]), value)
    return Quad(subject, predicate, value, rng.choice(GRAPHS))


@pytest.mark.parametrize("seed", range(examples(1_000)))
def test_inferred_triples_equal_the_naive_fixpoint_after_every_commit(seed: int) -> None:
    rng = random.Random(seed)
    rules = random_rules(rng)
    under_test = RuleStore(rules)
    for _ in range(8):
        present = under_test.asserted()
        remove = rng.sample(present, min(len(present), rng.choice((0, 0, 1, 2, 6))))
        add = [random_quad(rng) for _ in range(rng.choice((0, 1, 1, 2, 8)))]
        before = under_test.inferred()
        under_test.commit(add, remove)
        expected = naive_fixpoint(rules, under_test.asserted())
        assert under_test.inferred() == expected, (
            "\n".join(rule.text for rule in rules),
            "before",
            sorted(map(str, before)),
            "add",
            sorted(map(str, add)),
            "remove",
            sorted(map(str, remove)),
        )
        assert under_test.recomputed() == expected
