"""The law of rules that join no two facts of the data: graphs and windows equal the naive fixpoint.

The rules also put subjects and objects of data in the place of a class or of a predicate, on which the
consequences of the derived triple depend.
"""

from __future__ import annotations

import random
from functools import partial

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.rules.content_rules import ContentProgram
from quadrill.continuous.rules.facts import Fact, MemoryFacts
from quadrill.continuous.rules.rule import parse_rules
from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.rules.window_content import WindowContent
from quadrill.store.changes.commit import NetChange
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.write_queue import WriteRequest

from ...examples import examples
from .served import BASE, Served, definition, rule

TYPE = NamedNode("http://www.w3.org/1999/02/22-rdf-syntax-ns#type")
RULES = [
    rule(head, body)
    for head, body in (
        ("?x a ?d", "?x a ?c . ?c :sub ?d"),
        ("?x ?q ?y", "?x ?p ?y . ?p :below ?q"),
        ("?x a ?c", "?x ?p ?y . ?p :domain ?c"),
        ("?y a ?c", "?x ?p ?y . ?p :range ?c"),
        ("?x a ?y", "?x :kind ?y"),
        (":k a ?x", "?x a :A"),
        ("?x ?y :a", "?x :by ?y"),
        (":a ?x ?y", "?x :q ?y"),
        ("?y :q ?x", "?x :p ?y"),
        ("?x :sub ?y", "?x :under ?y"),
        (":any :has true", "?x a :B"),
    )
]
NODES = [NamedNode(BASE + name) for name in ("a", "b", "p", "q", "A", "B", "C")]
DATA = [NamedNode(BASE + name) for name in ("p", "q", "kind", "by", "under")]
SCHEMA = [NamedNode(BASE + name) for name in ("sub", "below", "domain", "range")]


def random_quad(rng: random.Random) -> Quad:
    if rng.random() < 0.15:
        return Quad(rng.choice(NODES), rng.choice(SCHEMA), rng.choice(NODES))
    return Quad(rng.choice(NODES), rng.choice([TYPE, TYPE, *DATA]), rng.choice([*NODES, Literal(1)]))


@pytest.mark.parametrize("seed", range(examples(60)))
def test_the_graph_of_a_set_equals_the_naive_fixpoint_after_every_commit(seed: int) -> None:
    rng = random.Random(seed)
    with Served() as served:
        served.put("rules", definition(*rng.sample(RULES, rng.randint(2, 6))))
        for _ in range(25):
            added = [random_quad(rng) for _ in range(rng.choice((1, 1, 2, 3)))]
            present = sorted(served.store.reader.quads_for_pattern(graph=DefaultGraph()), key=str)
            removed = rng.sample(present, min(len(present), rng.choice((0, 0, 0, 1))))
            changes = NetChange(tuple(added), tuple(removed), (), ())
            served.store.queue.submit(WriteRequest(partial(PendingChanges.replay, change=changes), "test"))
            served.check()


@pytest.mark.parametrize(
    ("texts", "triple", "schema", "expected"),
    [
        (
            (rule("?x a ?y", "?x :kind ?y"), rule("?x a ?d", "?x a ?c . ?c :sub ?d")),
            ":s :kind :C",
            ":C :sub :D",
            {":s a :C", ":s a :D"},
        ),
        (
            (rule(":k a ?x", "?x a :A"), rule("?x a ?d", "?x a ?c . ?c :sub ?d")),
            ":C a :A",
            ":C :sub :D",
            {":k a :C", ":k a :D"},
        ),
        (
            (rule("?x ?y :a", "?x :by ?y"), rule("?x a ?c", "?x ?p ?y . ?p :domain ?c")),
            ":s :by :p",
            ":p :domain :D",
            {":s :p :a", ":s a :D"},
        ),
    ],
)
def test_terms_of_a_window_become_classes_and_predicates(
    texts: tuple[str, ...], triple: str, schema: str, expected: set[str]
) -> None:
    terms = RuleTerms(BASE)
    program = ContentProgram(parse_rules(texts, base_iri=BASE), terms)
    assert program.single is not None
    graphs = MemoryFacts()
    graphs.add(_fact(terms, schema))
    window = WindowContent(program, lambda *_: None)
    window.change([_fact(terms, triple)], [], graphs)
    assert set(window.consequences()) == {_fact(terms, each) for each in expected}


def _fact(terms: RuleTerms, text: str) -> Fact:
    s, p, o = (TYPE if each == "a" else NamedNode(BASE + each[1:]) for each in text.split())
    return terms.id_of(s), terms.id_of(p), terms.id_of(o)


def test_the_consequences_of_an_inserted_triple_are_within_the_budget() -> None:
    with Served() as served:
        served.put("rules", definition(RULES[0], max_inferred=3))
        served.update("INSERT DATA { :A :sub :B , :C , :p , :q }")
        with pytest.raises(RuleBudgetError):
            served.update("INSERT DATA { :a a :A }")
        assert not served.inferred()
        served.update("INSERT DATA { :a a :D }")
        served.check()
