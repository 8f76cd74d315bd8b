"""What a rule set keeps of the schema between commits never shows: its graph equals the naive fixpoint."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.continuous.rules.built_in import RDFS
from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ReportedError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.write_queue import WriteRequest

from ...examples import examples
from .served import BASE, Served, definition

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
RULES = [f"PREFIX rdfs: <{_RDFS}> CONSTRUCT {{ {head} }} WHERE {{ {body} }}" for head, body in RDFS.values()]
LINKED = f"PREFIX : <{BASE}> CONSTRUCT {{ ?x :linked ?z }} WHERE {{ ?x :p ?y . ?y :q ?z }}"
TYPE = NamedNode(f"{_RDF}type")
DOMAIN, RANGE, SUB_PROPERTY, SUB_CLASS = (
    NamedNode(_RDFS + name) for name in ("domain", "range", "subPropertyOf", "subClassOf")
)
CLASSES, PROPERTIES, NODES = (
    [NamedNode(BASE + name) for name in names] for names in (("C", "D", "E", "F"), ("p", "q", "r"), "abcd")
)


def random_quad(rng: random.Random) -> Quad:
    """Return a quad of the data, or less often one of the schema."""
    choice = rng.random()
    if choice < 0.4:
        return Quad(rng.choice(NODES), rng.choice(PROPERTIES), rng.choice(NODES))
    if choice < 0.7:
        return Quad(rng.choice(NODES), TYPE, rng.choice(CLASSES))
    if choice < 0.8:
        return Quad(rng.choice(CLASSES), SUB_CLASS, rng.choice(CLASSES))
    if choice < 0.9:
        return Quad(rng.choice(PROPERTIES), rng.choice((DOMAIN, RANGE)), rng.choice(CLASSES))
    return Quad(rng.choice(PROPERTIES), SUB_PROPERTY, rng.choice(PROPERTIES))


def request(rng: random.Random, present: list[Quad]) -> WriteRequest:
    """Return a request that adds and removes few quads."""
    remove = rng.sample(present, min(len(present), rng.choice((0, 0, 1))))
    add = [random_quad(rng) for _ in range(rng.choice((1, 1, 2)))]

    def derive(pending: PendingChanges) -> None:
        for quad in remove:
            pending.remove(quad)
        for quad in add:
            pending.add(quad)

    return WriteRequest(derive, "test")


@pytest.mark.parametrize("seed", range(examples(60)))
def test_schema_of_earlier_and_of_failed_requests_does_not_show(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    with Served(tmp_path, StoreOptions(durable=False)) as served:
        queue, reader = served.store.queue, served.store.reader
        served.put("schema", definition(*RULES))
        served.put("strict", definition(LINKED, into=f"{BASE}strict", max_inferred=0))
        for _ in range(25):
            present = [quad for quad in reader.quads_for_pattern() if quad.graph_name not in queue.owned]
            requests = [request(rng, present) for _ in range(rng.randint(1, 3))]
            for each in requests:
                queue.enqueue(each)
            for finish in [partial(queue.finish, each) for each in requests]:
                try:
                    finish()
                except ReportedError as error:
                    assert error.code == "rule-budget"
            served.check()


def test_a_predicate_without_schema_counts_again_when_it_gets_one() -> None:
    with Served() as served:
        served.put("schema", definition(include=["rdfs"]))
        served.update("INSERT DATA { :a :p :b }")
        served.update("INSERT DATA { :c :p :d }")
        assert not served.inferred()
        served.update(f"INSERT DATA {{ :p <{_RDFS}domain> :C }}")
        served.update("INSERT DATA { :e :p :f }")
        kind = f"<{_RDF}type"
        assert served.inferred() == {f":{name} {kind} :C" for name in "ace"}
        served.update(f"DELETE DATA {{ :p <{_RDFS}domain> :C }}")
        served.update("DELETE DATA { :a :p :b }")
        assert not served.inferred()


def test_the_schema_of_a_refused_commit_has_no_effect() -> None:
    with Served() as served:
        served.put("schema", definition(include=["rdfs"]))
        served.put("strict", definition(LINKED, into=f"{BASE}strict", max_inferred=0))
        served.update("INSERT DATA { :a :p :b }")
        with pytest.raises(RuleBudgetError):
            served.update(f"INSERT DATA {{ :p <{_RDFS}domain> :C . :c :p :d . :d :q :e }}")
        served.update("INSERT DATA { :e :p :f }")
        assert not served.inferred()
