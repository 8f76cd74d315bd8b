"""Queries whose windows include the consequences of their contents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.lifecycle.rule_put import RulePut
from quadrill.continuous.lifecycle.rule_queries import follow_rule_sets
from quadrill.continuous.lifecycle.rule_service import QueriesOfSets, RuleService
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.errors import InputError

from ..engines import Bench

E = "http://e/"
PREFIX = f"PREFIX : <{E}> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
S = f"{E}s"
INTO = f"{E}into"


class RuleBench(Bench):
    """An engine in memory with rule sets."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(
            graph_of_set=lambda name: self.rules.graph_of(name),
            definition_of_set=lambda name: self.rules.definition_of(name),
            candidate_of_set=lambda name: self.rules.candidate_of(name),
            **settings,
        )
        self.rules = RuleService(self.store, None, base_iri=E, clock_ms=self.clock.now_ms)
        self.rules.start()
        self.rules.queries = QueriesOfSets(
            self.engine.parts.admin,
            replaced=lambda name: follow_rule_sets(self.engine.parts, name),
            with_windows=lambda name: self.engine.queries.entailed_by(name, with_windows=True),
        )
        self.answers: dict[str, Counter[str]] = {}
        self.places: dict[str, int] = {}

    def put_rules(self, *texts: str, name: str = "r", **members: Any) -> None:
        found = {"rules": [PREFIX + each for each in texts], "into": INTO, **members}
        self.rules.put(name, found).run()

    def query(self, name: str, text: str, **options: Any) -> None:
        members = {"query": PREFIX + text, "entailment": "r", "output": "changes", **options}
        self.engine.queries.register(Registration.from_json(members, name=name))
        self.answers[name], self.places[name] = Counter(), 0

    def send(self, at: int, triples: str) -> None:
        body = PREFIX.replace("PREFIX", "@prefix").replace("> @", "> . @") + ". " + triples
        self.engine.streams.push(PushCall(S, "application/trig", at=at), body.encode())

    def update(self, text: str) -> None:
        self.store.writer.update(PREFIX + text)
        self.engine.sync()

    def events(self, name: str) -> list[tuple[str, list[str]]]:
        """Return the new events of a query, and apply them to its answer."""
        found = []
        for event in self.engine.queries.feed(name).subscribe(0).take():
            if event.id is None or event.id <= self.places[name]:
                continue
            self.places[name] = event.id
            document = json.loads(event.data)
            rows = [
                " ".join(value["value"].removeprefix(E) for _, value in sorted(row.items()))
                for row in document["results"]["bindings"]
            ]
            found.append((event.kind, sorted(rows)))
            answer = self.answers[name]
            (answer.subtract if event.kind == "delete" else answer.update)(rows)
        return found


@contextmanager
def rule_bench(**settings: Any) -> Iterator[RuleBench]:
    one = RuleBench(**settings)
    one.engine.start()
    try:
        yield one
    finally:
        one.engine.stop()
        one.store.close()


@pytest.fixture(params=["native", "reference"])
def bench(request: pytest.FixtureRequest) -> Iterator[RuleBench]:
    with rule_bench() as one:
        if request.param == "reference":

            def made(prepared: Any, store: Any, quoted: Any) -> Any:
                parts = one.engine.parts
                options = prepared.options(quoted)
                return ReferenceEvaluator(
                    prepared.query, store, options, parts.statics.terms, statics=parts.statics
                )

            one.engine.parts.make_evaluator = made
        yield one


KINDS = "SELECT ?x ?c WHERE { STREAM :s [RANGE 10ms] { ?x a ?c } }"


def test_classes_of_elements_follow_the_schema_of_the_store(bench: RuleBench) -> None:
    bench.update("INSERT DATA { :A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :old a :A }")
    bench.put_rules(include=["rdfs"])
    bench.query("q", KINDS)
    bench.send(100, ":x a :A .")
    assert bench.events("q") == [("insert", ["A x", "B x", "C x"])]
    bench.send(105, ":x a :B .")
    assert bench.events("q") == []
    bench.update("DELETE DATA { :A rdfs:subClassOf :B }")
    assert bench.events("q") == []
    bench.send(112, ":y a :B .")
    assert bench.events("q") == [("delete", ["A x"]), ("insert", ["B y", "C y"])]
    bench.update("DELETE DATA { :B rdfs:subClassOf :C }")
    assert bench.events("q") == [("delete", ["C x", "C y"])]
    bench.update("INSERT DATA { :B rdfs:subClassOf :D }")
    assert bench.events("q") == [("insert", ["D x", "D y"])]
    bench.send(200, ":z a :Z .")
    assert bench.events("q")[-1] == ("insert", ["Z z"])
    assert +bench.answers["q"] == Counter(["Z z"])


def test_an_empty_window_follows_the_schema_of_the_store(bench: RuleBench) -> None:
    bench.update("INSERT DATA { :Cat rdfs:subClassOf :Mammal }")
    bench.put_rules(include=["rdfs"])
    bench.query("q", KINDS)
    bench.send(100, ":tom a :Cat .")
    assert bench.events("q") == [("insert", ["Cat tom", "Mammal tom"])]
    bench.engine.streams.heartbeat(S, 200)
    bench.engine.sync()
    assert bench.events("q") == [("delete", ["Cat tom", "Mammal tom"])]
    bench.update("DELETE DATA { :Cat rdfs:subClassOf :Mammal } ; INSERT DATA { :Cat rdfs:subClassOf :Robot }")
    bench.send(300, ":bob a :Cat .")
    assert bench.events("q") == [("insert", ["Cat bob", "Robot bob"])]


def test_what_the_graphs_alone_derive_is_not_in_a_window(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :r ?z } WHERE { ?x :p ?y . ?y :p ?z }")
    bench.query("q", "SELECT ?x ?z WHERE { STREAM :s [RANGE 10ms] { ?x :r ?z } }")
    bench.update("INSERT DATA { :a :p :b . :b :p :c }")
    bench.send(100, ":c :p :d .")
    assert bench.events("q") == [("insert", ["b d"])]
    bench.send(101, ":a :p :b .")
    assert bench.events("q") == [("insert", ["a c"])], "the triple of the element counts as well"
    bench.send(102, ":d :p :e .")
    assert bench.events("q") == [("insert", ["c e"])]


def test_replaced_rules_take_effect_as_one_change(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?y }")
    bench.query("q", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }")
    bench.send(100, ":a :p :b . :c :q :d .")
    assert bench.events("q") == [("insert", ["a b"])]
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :q ?y }")
    assert bench.events("q") == [("delete", ["a b"]), ("insert", ["c d"])], "without a commit"
    bench.update("INSERT DATA { :e :p :f }")
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?y }")
    assert bench.events("q") == [("delete", ["c d"]), ("insert", ["a b"])], "with a commit"
    bench.send(101, ":g :p :h .")
    assert bench.events("q") == [("insert", ["g h"])]


NEGATING = [
    "CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?y }",
    "CONSTRUCT { ?x :s ?y } WHERE { ?x :q ?y FILTER NOT EXISTS { ?x :r ?y } }",
]


def test_rules_that_negate_derived_triples_are_refused_for_windows(bench: RuleBench) -> None:
    bench.put_rules(*NEGATING)
    with pytest.raises(InputError, match="rule 1 negates or aggregates triples that the rule 0 derives"):
        bench.query("q", KINDS)
    bench.put_rules(NEGATING[0])
    bench.query("q", KINDS)
    with pytest.raises(InputError, match="windows cannot have the consequences of the rule set r"):
        bench.put_rules(*NEGATING)


@pytest.mark.parametrize("first", [True, False])
def test_rules_of_a_put_under_way_are_checked_for_new_windows(bench: RuleBench, first: bool) -> None:
    if not first:
        bench.put_rules(NEGATING[0])
    put = bench.rules.put("r", negating_rules())
    with pytest.raises(InputError, match="windows cannot have the consequences of the rule set r"):
        bench.query("q", KINDS)
    assert bench.engine.queries.names() == []
    bench.query("no-window", "SELECT ?x ?y WHERE { ?x :r ?y }")
    put.run()


@pytest.mark.parametrize("complete", [True, False])
def test_rules_of_a_put_during_a_registration_are_checked_for_its_windows(
    bench: RuleBench, complete: bool
) -> None:
    bench.put_rules(NEGATING[0])
    parts, puts = bench.engine.parts, list[RulePut]()
    make = parts.make_evaluator

    def put_and_make(*args: Any) -> Any:
        puts.append(bench.rules.put("r", negating_rules()))
        if complete:
            puts[0].run()
        return make(*args)

    parts.make_evaluator = put_and_make
    with pytest.raises(InputError, match="windows cannot have the consequences of the rule set r"):
        bench.query("q", KINDS)
    assert len(puts) == 1 and bench.engine.queries.names() == []


def test_no_query_is_registered_between_the_check_of_a_put_and_its_candidate(bench: RuleBench) -> None:
    calls = []

    class Lock:
        def __enter__(self) -> None:
            calls.append("locked")

        def __exit__(self, *_: object) -> None:
            calls.append("released" if bench.rules.candidate_of("r") else "released too early")

    def with_windows(name: str) -> list[str]:
        calls.append("checked")
        return []

    bench.rules.queries = QueriesOfSets(Lock(), with_windows=with_windows)
    bench.rules.put("r", negating_rules()).run()
    assert calls == ["locked", "checked", "released"]
    assert bench.rules.candidate_of("r") is None


def negating_rules() -> dict[str, Any]:
    return {"rules": [PREFIX + each for each in NEGATING], "into": INTO}


def test_a_window_over_the_maximum_fails_its_query_only(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?k . ?l :p ?y }", max_inferred=10)
    bench.query("q", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }")
    bench.query("other", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :p ?y } }", entailment="none")
    bench.send(100, ":a :p :b . :c :p :d . :e :p :f . :g :p :h .")
    feed = bench.engine.queries.feed("q").subscribe(0).take()
    assert [event.kind for event in feed] == ["error"]
    assert "the rule set r would infer more than 10 triples from a window (max_inferred)" in feed[0].data
    assert len(bench.events("other")[0][1]) == 4


def test_inferred_triples_count_in_the_memory_of_a_query(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?k . ?l :p ?y }")
    bench.query("q", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }", memory=10)
    bench.send(100, ":a :p :b . :c :p :d .")
    assert len(bench.events("q")[0][1]) == 4
    bench.send(101, ":e :p :f .")
    feed = bench.engine.queries.feed("q").subscribe(0).take()
    assert feed[-1].kind == "error" and "hold 12 quads, its limit (memory) is 10" in feed[-1].data


def test_graph_patterns_and_counts_of_triples_see_elements_only(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?y :p ?x } WHERE { ?x :p ?y }")
    bench.query("graphs", "SELECT ?g ?x ?y WHERE { STREAM :s [RANGE 10ms] { GRAPH ?g { ?x :p ?y } } }")
    bench.query("two", "SELECT ?x ?y WHERE { STREAM :s [TRIPLES 2] { ?x :p ?y } }")
    bench.send(100, ":g { :a :p :b } :c :p :d .")
    assert bench.events("graphs") == [("insert", ["g a b"])]
    assert bench.events("two") == [("insert", ["a b", "b a", "c d", "d c"])]
    bench.send(101, ":b :p :a .")
    assert bench.events("two") == [], "the triple that leaves follows from the one that enters"
    bench.send(102, ":e :p :f .")
    assert bench.events("two") == [("delete", ["c d", "d c"]), ("insert", ["e f", "f e"])]


def test_a_suspended_set_adds_nothing_until_its_next_put(bench: RuleBench) -> None:
    rule = "CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?y }"
    bench.put_rules(rule, max_inferred=2, on_budget="suspend")
    bench.query("q", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }")
    bench.send(100, ":a :p :b .")
    assert bench.events("q") == [("insert", ["a b"])]
    bench.update("INSERT DATA { :c :p :d . :e :p :f . :i :p :j }")
    assert bench.events("q") == [("delete", ["a b"])]
    bench.send(101, ":g :p :h .")
    assert bench.events("q") == []
    bench.update("DELETE DATA { :c :p :d }")
    bench.put_rules(rule, max_inferred=2, on_budget="suspend")
    assert bench.events("q") == [("insert", ["a b", "g h"])]


def test_a_query_may_name_a_set_whose_first_put_is_not_complete(bench: RuleBench) -> None:
    members = {"rules": [PREFIX + "CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?y }"], "into": INTO}
    put = bench.rules.put("r", members)
    bench.query("q", "SELECT ?x ?y WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }")
    bench.send(100, ":a :p :b .")
    assert bench.events("q") == []
    put.run()
    bench.engine.sync()
    assert bench.events("q") == [("insert", ["a b"])]


def test_consequences_follow_bulk_loads_and_graphs_that_come_and_go(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :in ?g } WHERE { ?x :p ?y GRAPH ?g { ?y :q ?z } }")
    bench.query("q", "SELECT ?x ?g WHERE { STREAM :s [RANGE 10ms] { ?x :in ?g } }")
    bench.send(100, ":a :p :b .")
    bench.store.writer.bulk_extend(
        Quad(NamedNode(f"{E}b"), NamedNode(f"{E}q"), NamedNode(f"{E}c"), NamedNode(f"{E}{graph}"))
        for graph in ("g", "h")
    )
    bench.engine.sync()
    assert bench.events("q") == [("insert", ["g a", "h a"])]
    bench.update("DROP GRAPH :g")
    assert bench.events("q") == [("delete", ["g a"])]


def test_long_derivations_let_other_queries_run() -> None:
    with rule_bench(slice_ms=0) as bench:
        bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?k . ?l :q ?y }")
        bench.query("pairs", "SELECT (COUNT(*) AS ?n) WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }")
        bench.query("few", "SELECT ?x WHERE { STREAM :s [RANGE 10ms] { ?x :p :k0 } }", entailment="none")
        for at in (100, 105, 112):
            triples = "".join(f":x{at}-{each} :p :k{each} . :y :q :z{at}-{each} . " for each in range(40))
            bench.send(at, triples)
            bench.update(f"INSERT DATA {{ :l :q :late{at} }}")
        bench.engine.sync()
        pairs, few = bench.events("pairs"), bench.events("few")
        assert +bench.answers["pairs"] == Counter([str(80 * 83)]), pairs
        assert [kind for kind, _ in few] == ["insert", "insert", "delete", "insert"]


def test_a_derivation_over_the_time_of_its_query_fails_this_query(bench: RuleBench) -> None:
    bench.put_rules("CONSTRUCT { ?x :r ?y } WHERE { ?x :p ?k . ?l :p ?m . ?n :p ?y }")
    bench.query("q", "SELECT ?x WHERE { STREAM :s [RANGE 10ms] { ?x :r ?y } }", max_time="50ms")
    bench.send(100, "".join(f":x{each} :p :k{each} . " for each in range(150)))
    feed = bench.engine.queries.feed("q").subscribe(0).take()
    assert [event.kind for event in feed] == ["error"] and "max_time" in feed[0].data
