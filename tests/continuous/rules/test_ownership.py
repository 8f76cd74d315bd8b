"""Clients write to the graph of a rule set: the write is refused, or the graph still has the fixpoint."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.store.changes.owners import OwnedGraphError
from quadrill.store.errors import ConflictError, QueryTextError, UpdateError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry
from tests.examples import examples
from tests.store.updates import PROLOGUE, requests

from .oracle import naive_fixpoint
from .services import INTO, asserted, expected, inferred, opened, put
from .test_fixpoint_law import random_quad, random_rules

SYMMETRIC = "CONSTRUCT { ?y :r ?x } WHERE { ?x :p ?y }"
A, B, P = (NamedNode(f"http://e/{name}") for name in "abp")
OTHER = NamedNode("http://e/g")


@contextmanager
def filled(folder: Path | None) -> Iterator[tuple[QuadStore, RuleService]]:
    with Registry.open("sqlite://") as registry, opened(folder, registry) as (store, rules):
        store.writer.apply(add=[Quad(A, P, B), Quad(B, P, A, OTHER)])
        put(rules, SYMMETRIC)
        yield store, rules


@pytest.fixture(params=["memory", "disk"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[QuadStore, RuleService]]:
    with filled(tmp_path / "data" if request.param == "disk" else None) as service:
        yield service


def test_the_graph_follows_what_many_graph_operations_leave(both: tuple[QuadStore, RuleService]) -> None:
    store, _ = both
    assert len(inferred(store)) == 2
    commit = store.writer.update("DROP NAMED")
    assert commit.dropped == (OTHER,) and INTO in store.reader.graph_names()
    assert inferred(store) == expected(store, SYMMETRIC) and len(inferred(store)) == 1
    store.writer.update("INSERT DATA { GRAPH <http://e/g> { <http://e/b> <http://e/p> 1 } }")
    store.writer.update("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }")
    assert inferred(store) == expected(store, SYMMETRIC) and len(inferred(store)) == 1
    commit = store.writer.update("DROP ALL")
    assert INTO not in commit.dropped and inferred(store) == set()
    assert INTO in store.reader.graph_names()
    store.writer.replace_dataset([Quad(A, P, B)])
    assert inferred(store) == expected(store, SYMMETRIC) and len(inferred(store)) == 1
    store.writer.replace_dataset([])
    assert inferred(store) == set() and INTO in store.reader.graph_names()


def test_a_restored_dataset_gets_its_consequences_anew(both: tuple[QuadStore, RuleService]) -> None:
    store, _ = both
    backup = list(store.committer.store)
    store.writer.update("DROP ALL ; INSERT DATA { <http://e/x> <http://e/p> <http://e/y> }")
    stale = Quad(A, P, Literal(1), INTO)
    commit = store.writer.replace_dataset([*backup, stale], names=[INTO, OTHER], restored=True)
    assert stale not in commit.added
    assert set(store.committer.store) == set(backup)
    assert inferred(store) == expected(store, SYMMETRIC)


def test_a_copy_of_the_graph_is_an_ordinary_graph(both: tuple[QuadStore, RuleService]) -> None:
    store, _ = both
    commit = store.writer.update("COPY <http://e/into> TO <http://e/copy>")
    assert commit.inferred == frozenset()
    assert inferred(store, NamedNode("http://e/copy")) == inferred(store)
    store.writer.update("INSERT DATA { GRAPH <http://e/copy> { <http://e/x> <http://e/p> <http://e/y> } }")
    assert inferred(store) == expected(store, SYMMETRIC) and len(inferred(store)) == 3


def test_after_the_set_is_dropped_anyone_may_write(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    text = "INSERT DATA { GRAPH <http://e/into> { <http://e/x> <http://e/p> <http://e/y> } }"
    with pytest.raises(OwnedGraphError):
        store.writer.update(text)
    rules.delete("r")
    assert store.writer.update(text).changed


def test_a_reserved_graph_is_refused_while_the_set_is_made(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    into = NamedNode("http://e/other")
    made = rules.put("other", {"rules": ["CONSTRUCT { ?x a ?y } WHERE { ?x ?y ?z }"], "into": into.value})
    with pytest.raises(OwnedGraphError):
        store.writer.update("CREATE GRAPH <http://e/other>")
    with pytest.raises(OwnedGraphError):
        store.writer.bulk_extend([Quad(A, P, B, into)])
    made.run()
    assert into in store.reader.graph_names()


def test_a_graph_with_quads_cannot_be_owned(both: tuple[QuadStore, RuleService]) -> None:
    _, rules = both
    with pytest.raises(ConflictError) as refused:
        put(rules, SYMMETRIC, name="second", into=OTHER)
    assert refused.value.code == "graph-not-empty"


RULES = (
    "CONSTRUCT { ?y :q ?x } WHERE { ?x :p ?y }",
    "CONSTRUCT { ?x :p :b } WHERE { ?x a ?y . ?y :q ?z }",
    "CONSTRUCT { ?x a :c } WHERE { GRAPH ?g { ?x :p ?y } FILTER NOT EXISTS { ?x a :a } }",
)
TEXTS = st.lists(requests(), min_size=1, max_size=3)


@settings(
    max_examples=examples(500), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(st.lists(st.sampled_from(RULES), min_size=1, max_size=3, unique=True), TEXTS)
def test_an_update_is_refused_or_leaves_the_graph_as_the_rules_say(
    rules: list[str], texts: list[str]
) -> None:
    into = NamedNode("http://e/h")  # one of the graphs that the updates use
    start = "INSERT DATA { ex:a ex:p ex:b ; a ex:b GRAPH ex:g { ex:b ex:p 1 , ex:a ; a ex:a } }"
    with Registry.open("sqlite://") as registry, opened(None, registry) as (store, service):
        store.writer.update(PROLOGUE + start)
        put(service, *rules, into=into)
        for text in texts:
            before, version = set(store.committer.store), store.reader.version
            try:
                commit = store.writer.update(text)
            except (OwnedGraphError, UpdateError, QueryTextError):
                assert set(store.committer.store) == before and store.reader.version == version
                continue
            assert store.reader.version == version + commit.changed
            assert inferred(store, into) == expected(store, *rules), text
            assert into in store.reader.graph_names()
            keys = {"http://e/h"} if "http://e/h" in commit.graphs else set()
            assert commit.inferred == keys


@pytest.mark.parametrize("seed", range(examples(300)))
def test_writes_of_all_kinds_leave_the_graph_as_the_rules_say(seed: int) -> None:
    rng = random.Random(seed)
    parsed = random_rules(rng)
    graphs = [NamedNode("http://e/g1"), NamedNode("http://e/g2"), INTO]
    with Registry.open("sqlite://") as registry, opened(None, registry) as (store, service):
        store.writer.apply(add=[random_quad(rng) for _ in range(5)])
        service.put("r", {"rules": [rule.text for rule in parsed], "into": INTO.value}).run()
        for _ in range(8):
            graph = rng.choice(graphs)
            quads = [random_quad(rng) for _ in range(rng.choice((0, 1, 3)))]
            triples = [Quad(*quad.triple) for quad in quads]
            inside = [Quad(*quad.triple, INTO) for quad in quads[:1]] if rng.random() < 0.2 else []
            refused = graph == INTO or bool(inside)
            before, version = set(store.committer.store), store.reader.version
            try:
                match rng.randint(0, 6):
                    case 0:
                        store.writer.put_graph(graph, [*triples, *inside])
                    case 1:
                        store.writer.post_graph(graph, [*triples, *inside])
                    case 2:
                        if store.reader.graph_exists(graph):
                            refused = graph == INTO
                            store.writer.delete_graph(graph)
                        else:
                            refused = False
                    case 3:
                        refused = bool(inside)
                        store.writer.replace_dataset([*quads, *inside])
                    case 4:
                        refused = False
                        store.writer.replace_dataset([*quads, *inside], restored=True)
                    case 5:
                        refused = bool(inside)
                        store.writer.bulk_extend([*quads, *inside])
                    case 6:
                        refused = bool(inside)
                        store.writer.apply(remove=[*quads, *inside])
            except OwnedGraphError:
                assert refused
                assert set(store.committer.store) == before and store.reader.version == version
            else:
                assert not refused
            assert inferred(store) == naive_fixpoint(parsed, asserted(store))
