"""The law of rule sets over a real store: at every version, each graph has the naive fixpoint of its set."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from pyoxigraph import NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.changes.owners import OwnedGraphError, Owner
from quadrill.store.changes.pending import PendingChanges
from quadrill.store.errors import ReportedError
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.write_queue import WriteRequest

from ...examples import examples
from .served import BASE, INTO, PREFIX, Replayed, Served, check_law, definition
from .test_fixpoint_law import random_quad, random_rules

UPDATES = [
    "DELETE WHERE { ?x :p ?y }",
    "DELETE { ?x :p ?y } INSERT { ?y :next ?x } WHERE { ?x :p ?y }",
    "DELETE { GRAPH :g1 { ?x ?p ?y } } INSERT { GRAPH :g2 { ?x ?p ?y } } WHERE { GRAPH :g1 { ?x ?p ?y } }",
    "INSERT { ?x :q 2 } WHERE { GRAPH ?g { ?x :next ?y } }",
    "INSERT { GRAPH :g1 { ?x :p ?y } } WHERE { GRAPH :into { ?x ?r ?y } FILTER(isIRI(?y)) }",
    "DELETE { ?x ?p ?y } WHERE { GRAPH :into { ?x ?p ?y } }",
    "CLEAR GRAPH :g1",
    "DROP SILENT GRAPH :g1",
    "DROP SILENT GRAPH :g2",
    "CREATE SILENT GRAPH :g3",
    "COPY :g1 TO :g3",
    "MOVE SILENT :g2 TO :g1",
    "ADD DEFAULT TO :g2",
    "CLEAR DEFAULT",
    "INSERT DATA { [] :p :a . :b :next [] }",
    "INSERT DATA { :a :p :b . GRAPH :g2 { :b :p :a } } ; DELETE DATA { :a :p :b }",
]
FAILING = [
    "INSERT DATA { :a :p :e } ; INSERT DATA { GRAPH :into { :a :r :b } }",
    "INSERT DATA { :a :p :c . :c :next :d } ; CREATE GRAPH :g9 ; CREATE GRAPH :g9",
    "CLEAR GRAPH :into",
    "DELETE WHERE { ?x :next ?y } ; DROP GRAPH :into",
]


def change(rng: random.Random, present: list[Quad]) -> WriteRequest:
    """Return a request that adds and removes random quads."""
    remove = rng.sample(present, min(len(present), rng.choice((0, 1, 2))))
    add = [random_quad(rng) for _ in range(rng.choice((1, 2, 5)))]

    def derive(pending: PendingChanges) -> None:
        for quad in remove:
            pending.remove(quad)
        for quad in add:
            pending.add(quad)

    return WriteRequest(derive, "test", expected=-1 if rng.random() < 0.1 else None)


def commit_group(served: Served, rng: random.Random) -> None:
    """Commit some requests in one group; some of them fail."""
    store = served.store
    present = [quad for quad in store.reader.quads_for_pattern() if quad.graph_name not in store.queue.owned]
    finish: list[Callable[[], Commit]] = []
    for _ in range(rng.randint(1, 5)):
        choice = rng.random()
        if choice < 0.5:
            request = change(rng, present)
            store.queue.enqueue(request)
            finish.append(partial(store.queue.finish, request))
        else:
            text = rng.choice(UPDATES if choice < 0.85 else FAILING)
            finish.append(store.writer.enqueue_update(PREFIX + text))
    for each in finish:
        try:
            each()
        except ReportedError as error:
            assert error.code in ("version-changed", "graph-owned", "update-failed"), error


@pytest.mark.parametrize("seed", range(examples(200)))
def test_at_every_version_the_graph_holds_the_fixpoint(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    rules = random_rules(rng)
    sources = rng.choice((None, None, ["default", f"{BASE}g1"], [f"{BASE}g1"], [f"{BASE}g2", f"{BASE}view"]))
    with Served(tmp_path, StoreOptions(durable=False)) as served:
        store = served.store
        view = Owner("view", "seen")
        store.queue.own(NamedNode(f"{BASE}view"), view)
        commit_group(served, rng)
        served.update("DROP SILENT GRAPH :into")
        served.put("test", definition(*rules, **({} if sources is None else {"from": sources})))
        begin = store.reader.version
        for _ in range(4):
            commit_group(served, rng)
            served.check()
            if rng.random() < 0.5:
                quads = [
                    Quad(*random_quad(rng).triple, NamedNode(f"{BASE}view")) for _ in range(rng.randint(0, 3))
                ]
                store.writer.put_graph(NamedNode(f"{BASE}view"), quads, owner=view)
                served.check()
        replayed = Replayed(store)
        for version in replayed.versions():
            if version >= begin:
                check_law(
                    replayed.quads, served.definitions(), set(store.queue.owned), f"logged version {version}"
                )
        replayed.check_graphs()
        for commit in store.commits_after(begin):
            assert commit.inferred == ({INTO} & set(commit.graphs))


def test_a_group_shares_one_transaction_and_a_failed_request_leaves_nothing(tmp_path: Path) -> None:
    with Served(tmp_path) as served:
        served.put("test", definition(f"{PREFIX}CONSTRUCT {{ ?y :r ?x }} WHERE {{ ?x :p ?y }}"))
        enqueue = served.store.writer.enqueue_update
        first = enqueue(PREFIX + "INSERT DATA { :a :p :b }")
        failing = enqueue(PREFIX + "INSERT DATA { :c :p :d . GRAPH :into { :x :r :y } }")
        second = enqueue(PREFIX + "DELETE DATA { :a :p :b } ; INSERT DATA { :b :p :a }")
        commit = first()
        assert [str(quad.predicate) for quad in commit.added] == [f"<{BASE}p>", f"<{BASE}r>"]
        with pytest.raises(OwnedGraphError):
            failing()
        assert second().version == commit.version + 1
        assert served.inferred() == {":a :r :b"}
