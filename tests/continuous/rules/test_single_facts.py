"""The law of rules that join no two facts of the data: graphs and windows equal the naive fixpoint.

The rules also put subjects and objects of data in the place of a class or of a predicate, on which the
consequences of the derived triple depend.
"""

from __future__ import annotations

import random
import threading
from functools import partial

import pytest
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad, Triple

from quadrill.continuous.rows import UNLIMITED
from quadrill.continuous.rules.content_rules import ContentProgram
from quadrill.continuous.rules.facts import Fact, MemoryFacts
from quadrill.continuous.rules.rule import parse_rules
from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.continuous.rules.terms import RuleTerms
from quadrill.continuous.rules.window_content import WindowContent
from quadrill.continuous.static.entailed_windows import EntailedWindows
from quadrill.continuous.static.rule_graphs import RuleGraphs
from quadrill.continuous.windows.encoded import EngineTerms
from quadrill.continuous.windows.window_delta import WindowKey
from quadrill.store.changes.commit import Commit, NetChange
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.quads.write_queue import WriteRequest

from ...examples import examples
from .served import BASE, INTO, Served, definition, rule
from .window_oracle import WindowRules

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


def random_schema(rng: random.Random) -> Quad:
    return Quad(rng.choice(NODES), rng.choice(SCHEMA), rng.choice(NODES))


def random_quad(rng: random.Random) -> Quad:
    if rng.random() < 0.15:
        return random_schema(rng)
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


def window_rules(rng: random.Random) -> WindowRules:
    """Return some of the rules, for the naive evaluation with one pattern at a time over the content."""
    texts = rng.sample(RULES, rng.randint(2, 6))
    marked = []
    for text in texts:
        start, body = text.removesuffix(" }").split("WHERE { ")
        patterns = body.split(" . ")
        marked.append(
            [f"{start} WHERE {{ GRAPH :content {{ {each} }} {' . '.join(patterns)} }}" for each in patterns]
        )
    return WindowRules(texts, parse_rules(texts, base_iri=BASE), marked)


@pytest.mark.parametrize("seed", range(examples(100)))
def test_windows_that_become_empty_equal_the_naive_fixpoint_after_every_commit(seed: int) -> None:
    rng = random.Random(seed)
    rules = window_rules(rng)
    with Served() as served:
        served.put("rules", definition(*rules.texts))
        graphs = RuleGraphs(
            "rules", NamedNode(INTO), served.rules.definition_of("rules"), served.store, threading.RLock()
        )

        def committed(commit: Commit) -> None:
            if graphs.reads(commit, graphs.definition):
                graphs.committed(commit, graphs.definition, None)

        served.store.subscribers.subscribe(committed)
        windows = EntailedWindows(graphs, EngineTerms(), UNLIMITED, BASE)
        contents: dict[WindowKey, set[Triple]] = {(node, None): set() for node in NODES[:3]}
        for _ in range(30):
            if rng.random() < 0.4:
                present = sorted(served.store.reader.quads_for_pattern(graph=DefaultGraph()), key=str)
                gone = rng.sample(present, min(len(present), rng.choice((0, 1, 2))))
                served.store.writer.apply(add=[random_quad(rng), random_schema(rng)], remove=gone)
            background = served.store.reader.quads_for_pattern()
            windows.begin()
            for key, own in contents.items():
                if rng.random() < 0.4:
                    own.clear()
                if rng.random() < 0.4:
                    own.update(random_quad(rng).triple for _ in range(2))
                found = {each.triple for each in windows.derived(key, own)}
                expected = rules.consequences(own, background) - own
                assert found == expected, (rules.texts, sorted(map(str, own)), sorted(map(str, background)))
            windows.end()


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
