"""Bulk loads with rule sets: one version has the loaded quads and their consequences, or nothing changes."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.lifecycle.rule_service import RuleService
from quadrill.continuous.rules.rule_set import RuleBudgetError
from quadrill.store.bulk import BulkLoader, LoadOptions
from quadrill.store.changes.owners import OwnedGraphError, Owner
from quadrill.store.errors import RdfSyntaxError
from quadrill.store.formats import RdfType, rdf_format
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry
from tests.examples import examples

from .oracle import naive_fixpoint
from .services import INTO, asserted, expected, inferred, opened, put
from .test_fixpoint_law import random_quad, random_rules

SYMMETRIC = "CONSTRUCT { ?y :r ?x } WHERE { ?x :p ?y }"
CLOSURE = "CONSTRUCT { ?x :r ?z } WHERE { ?x :r ?y . ?y :r ?z }"
ALONE = "CONSTRUCT { ?x a :Alone } WHERE { ?x :p ?y FILTER NOT EXISTS { ?x :friend ?z } }"
P = NamedNode("http://e/p")


def kind(media_type: str) -> RdfType:
    found = rdf_format(media_type)
    assert found is not None
    return found


TURTLE, QUADS = kind("text/turtle"), kind("application/n-quads")


def node(number: int) -> NamedNode:
    return NamedNode(f"http://e/n{number}")


def pairs(start: int, end: int) -> list[Quad]:
    return [Quad(node(number), P, node(number + 1)) for number in range(start, end)]


def lines(quads: list[Quad]) -> bytes:
    return "".join(f"{quad} .\n" for quad in quads).encode()


@pytest.fixture(params=["memory", "disk"])
def both(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[QuadStore, RuleService]]:
    folder = tmp_path / "data" if request.param == "disk" else None
    with Registry.open("sqlite://") as registry, opened(folder, registry) as service:
        yield service


def left_over(store: QuadStore) -> list[Path]:
    if store.folder is None:
        return []
    frozen = store.folder.path / "frozen"
    return list(frozen.iterdir()) if frozen.exists() else []


def test_a_load_and_its_consequences_are_one_version(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    store.writer.apply(add=pairs(0, 3))
    put(rules, SYMMETRIC, CLOSURE)
    version = store.reader.version
    commit = store.writer.bulk_load(lines(pairs(2, 8)), QUADS)
    assert (commit.version, commit.exact, store.reader.version) == (version + 1, False, version + 1)
    assert commit.graphs["default"].added == 5
    assert commit.inferred == {"http://e/into"}
    assert inferred(store) == expected(store, SYMMETRIC, CLOSURE) != set()
    (logged,) = store.commits_after(version)
    assert logged.inferred == {"http://e/into"} and logged.graphs == commit.graphs
    counts = store.reader.graph_counts()
    assert counts[INTO] == len(inferred(store)) and counts[DefaultGraph()] == 8
    # The consequences of later commits follow from the loaded quads, too.
    store.writer.apply(remove=pairs(4, 5), add=[Quad(node(20), P, node(0))])
    assert inferred(store) == expected(store, SYMMETRIC, CLOSURE)
    assert left_over(store) == []


def test_added_quads_keep_their_blank_nodes(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    put(rules, SYMMETRIC)
    quad = Quad(BlankNode("b1"), P, BlankNode("b2"), NamedNode("http://e/g"))
    store.writer.bulk_extend([quad])
    assert asserted(store) == [quad]
    assert {(each.subject, each.object) for each in inferred(store)} == {(BlankNode("b2"), BlankNode("b1"))}


def test_a_document_goes_to_the_graph_that_was_asked_for(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    put(rules, SYMMETRIC)
    store.writer.bulk_load(b"_:x <http://e/p> _:y .", TURTLE, graph=NamedNode("http://e/g"))
    (quad,) = asserted(store)
    assert quad.graph_name == NamedNode("http://e/g")
    assert inferred(store) == expected(store, SYMMETRIC)


def test_consequences_that_a_load_removes_go_with_the_same_version(
    both: tuple[QuadStore, RuleService],
) -> None:
    store, rules = both
    store.writer.apply(add=pairs(0, 4))
    put(rules, ALONE)
    assert len(inferred(store)) == 4
    version = store.reader.version
    friend = NamedNode("http://e/friend")
    commit = store.writer.bulk_extend([Quad(node(1), friend, node(2)), Quad(node(2), friend, BlankNode("x"))])
    assert commit.version == version + 1 and commit.graphs["http://e/into"].removed == 2
    assert inferred(store) == expected(store, ALONE)
    assert len(inferred(store)) == 2


def test_a_load_with_quads_of_a_derived_graph_is_refused(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    store.writer.apply(add=pairs(0, 3))
    put(rules, SYMMETRIC)
    inside = store.reader.quads_for_pattern(graph=INTO)
    before, version = set(store.committer.store), store.reader.version
    for load in (
        lambda: store.writer.bulk_load(lines([*pairs(5, 9), inside[0]]), QUADS),
        lambda: store.writer.bulk_load(lines(pairs(5, 9)), QUADS, graph=INTO),
        lambda: store.writer.bulk_extend([*pairs(5, 9), Quad(node(1), P, Literal(1), INTO)]),
        lambda: store.writer.bulk_extend([inside[0]]),
    ):
        with pytest.raises(OwnedGraphError) as refused:
            load()
        assert refused.value.code == "graph-owned"
        assert set(store.committer.store) == before and store.reader.version == version
    assert left_over(store) == []
    store.writer.apply(add=pairs(5, 6))
    assert inferred(store) == expected(store, SYMMETRIC)


def test_a_malformed_load_changes_nothing(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    put(rules, SYMMETRIC)
    version = store.reader.version
    with pytest.raises(RdfSyntaxError):
        store.writer.bulk_load(lines(pairs(0, 5)) + b"<http://e/n1> oops", QUADS)
    assert asserted(store) == [] and store.reader.version == version


def test_a_load_over_the_maximum_loads_nothing(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    store.writer.apply(add=pairs(0, 3))
    put(rules, SYMMETRIC, CLOSURE, max_inferred=20)
    before, version = set(store.committer.store), store.reader.version
    with pytest.raises(RuleBudgetError) as refused:
        store.writer.bulk_extend(pairs(0, 30))
    assert refused.value.code == "rule-budget"
    assert set(store.committer.store) == before and store.reader.version == version
    assert rules.describe("r")["state"] == "ready"
    store.writer.apply(add=pairs(3, 4))
    assert inferred(store) == expected(store, SYMMETRIC, CLOSURE)
    store.writer.bulk_extend(pairs(4, 5))
    assert inferred(store) == expected(store, SYMMETRIC, CLOSURE)


def test_a_load_over_the_maximum_suspends_a_set_that_asks_for_it(
    both: tuple[QuadStore, RuleService],
) -> None:
    store, rules = both
    store.writer.apply(add=pairs(0, 3))
    put(rules, SYMMETRIC, CLOSURE, max_inferred=20, on_budget="suspend")
    version = store.reader.version
    commit = store.writer.bulk_extend(pairs(0, 30))
    assert commit.version == version + 1
    assert len(asserted(store)) == 30 and inferred(store) == set()
    assert rules.describe("r")["state"] == "suspended"


def test_sets_that_read_one_another_are_complete_after_a_load(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    put(rules, SYMMETRIC)
    second = NamedNode("http://e/second")
    text = "CONSTRUCT { ?x :s ?y } WHERE { ?x :r ?y FILTER NOT EXISTS { ?y :r ?x } }"
    put(rules, text, name="second", into=second, **{"from": [INTO.value]})
    commit = store.writer.bulk_extend([*pairs(0, 3), Quad(node(1), P, node(0))])
    assert commit.inferred == {"http://e/into", "http://e/second"}
    found = {(quad.subject, quad.object) for quad in store.reader.quads_for_pattern(graph=second)}
    assert found == {(node(2), node(1)), (node(3), node(2))}


def test_no_reader_sees_a_load_without_its_consequences(both: tuple[QuadStore, RuleService]) -> None:
    store, rules = both
    put(rules, SYMMETRIC, ALONE)
    text = (
        "PREFIX : <http://e/> SELECT (COUNT(*) AS ?n) { { ?x :p ?y } UNION { GRAPH :into { ?x :r ?y } } } "
        "GROUP BY (isIRI(?x))"
    )
    faults, ended = [], threading.Event()

    def look() -> None:
        while not ended.is_set():
            for row in store.reader.solutions(text)[1]:
                if row[0] is not None and int(row[0].value) % 2:
                    faults.append(row)

    reader = threading.Thread(target=look)
    reader.start()
    try:
        for start in range(0, 3_000, 300):
            friend = Quad(node(start), NamedNode("http://e/friend"), node(0))
            store.writer.bulk_extend([*pairs(start, start + 299), *[friend][: start % 600]])
    finally:
        ended.set()
        reader.join()
    assert faults == []
    assert inferred(store) == expected(store, SYMMETRIC, ALONE)


@pytest.mark.parametrize("engine", ["auto", "oxigraph"])
def test_load_jobs_derive_and_refuse(
    both: tuple[QuadStore, RuleService], tmp_path: Path, engine: str
) -> None:
    store, rules = both
    put(rules, SYMMETRIC, CLOSURE, max_inferred=30)
    good, owned, many = (tmp_path / f"{name}.nq" for name in ("good", "owned", "many"))
    good.write_bytes(lines(pairs(0, 5)) + b"_:x <http://e/p> _:y .\n")
    owned.write_bytes(lines([*pairs(10, 12), Quad(node(1), P, node(2), INTO)]))
    many.write_bytes(lines(pairs(0, 40)))
    loader = BulkLoader(store, tmp_path / "loads")
    summary = loader.run(LoadOptions((str(good),), engine=engine))
    assert summary.exact == (engine == "auto")
    assert inferred(store) == expected(store, SYMMETRIC, CLOSURE)
    before, version = set(store.committer.store), store.reader.version
    for file, error in ((owned, OwnedGraphError), (many, RuleBudgetError)):
        with pytest.raises(error):
            loader.run(LoadOptions((str(file),), engine=engine))
        assert set(store.committer.store) == before and store.reader.version == version


def test_loads_and_restores_have_no_limit_of_time(
    both: tuple[QuadStore, RuleService], tmp_path: Path
) -> None:
    store, rules = both
    put(rules, SYMMETRIC, CLOSURE, max_time="1ms")
    many = pairs(0, 60)
    with pytest.raises(RuleBudgetError, match="max_time"):
        store.writer.apply(add=many)
    with pytest.raises(RuleBudgetError, match="max_time"):
        store.writer.put_graph(DefaultGraph(), many, owner=Owner("view", "seen"))
    file = tmp_path / "many.nq"
    file.write_bytes(lines(many))
    for load in (
        lambda: BulkLoader(store, None).run(LoadOptions((str(file),))),
        lambda: BulkLoader(store, None).run(LoadOptions((str(file),), engine="oxigraph")),
        lambda: store.writer.load(lines(many), QUADS),
        lambda: store.writer.bulk_extend(many),
        lambda: store.writer.replace_dataset(many),
        lambda: store.writer.replace_dataset(many, restored=True),
        lambda: store.writer.put_graph(DefaultGraph(), many),
        lambda: store.writer.post_graph(DefaultGraph(), many),
    ):
        load()
        assert len(inferred(store)) == 60 * 61 // 2
        store.writer.replace_dataset([], restored=True)
        assert inferred(store) == set()


@pytest.mark.parametrize("seed", range(examples(150)))
def test_inferred_triples_equal_the_naive_fixpoint_after_bulk_loads(seed: int) -> None:
    rng = random.Random(seed)
    parsed = random_rules(rng)
    with Registry.open("sqlite://") as registry, opened(None, registry) as (store, rules):
        store.writer.apply(add=[random_quad(rng) for _ in range(rng.randint(0, 8))])
        rules.put("r", {"rules": [rule.text for rule in parsed], "into": INTO.value}).run()
        for _ in range(4):
            present = asserted(store)
            remove = rng.sample(present, min(len(present), rng.choice((0, 1, 4))))
            add = [random_quad(rng) for _ in range(rng.choice((0, 1, 3, 10)))]
            store.writer.apply(remove=remove)
            assert inferred(store) == naive_fixpoint(parsed, asserted(store))
            version = store.reader.version
            commit = store.writer.bulk_extend(add)
            assert store.reader.version == version + commit.changed
            assert inferred(store) == naive_fixpoint(parsed, asserted(store))


# --- crashes ----------------------------------------------------------------------------------------

_CHILD = """
import os, signal, sys
from pathlib import Path
from pyoxigraph import NamedNode, Quad
from quadrill.store.quads.options import StoreOptions
from quadrill.store.registry import Registry
from tests.continuous.rules.services import opened, put
from tests.continuous.rules.test_bulk_loads import ALONE, CLOSURE, SYMMETRIC, node, pairs

def reached(point):
    if armed and point == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)

armed = False
with Registry.open(sys.argv[2]) as registry:
    with opened(Path(sys.argv[1]), registry, StoreOptions(reached=reached)) as (store, rules):
        store.writer.apply(add=pairs(0, 4))
        put(rules, SYMMETRIC, CLOSURE, ALONE)
        armed = True
        friends = [Quad(node(1), NamedNode("http://e/friend"), node(2))] if sys.argv[4] == "friends" else []
        store.writer.bulk_extend([*pairs(4, 9), *friends])
"""


@pytest.mark.parametrize("load", ["friends", "plain"])
@pytest.mark.parametrize("point", ["bulk-staged", "after-bulk"])
def test_after_a_crash_in_a_load_the_sets_are_complete(tmp_path: Path, point: str, load: str) -> None:
    folder, url = tmp_path / "data", f"sqlite:///{tmp_path / 'registry.sqlite'}"
    child = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), url, point, load],
        capture_output=True,
        timeout=100,
        cwd=Path(__file__).parents[3],
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
    )
    assert child.returncode == -signal.SIGKILL, child.stderr.decode()[-2000:]
    with Registry.open(url) as registry, opened(folder, registry) as (store, rules):
        loaded = len(asserted(store)) - 4
        assert loaded == (0 if point == "bulk-staged" else 6 if load == "friends" else 5)
        assert inferred(store) == expected(store, SYMMETRIC, CLOSURE, ALONE)
        assert left_over(store) == []
        assert rules.describe("r")["state"] == "ready"
        store.writer.apply(add=[Quad(node(30), P, node(0))])
        assert inferred(store) == expected(store, SYMMETRIC, CLOSURE, ALONE)


def test_a_start_after_an_interrupted_load_computes_the_sets_again(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with Registry.open("sqlite://") as registry:
        with opened(folder, registry) as (store, rules):
            put(rules, SYMMETRIC, CLOSURE)
            store.log.begin_bulk()
            store.committer.store.extend(pairs(0, 4))
            store.committer.store.flush()
        with opened(folder, registry) as (store, rules):
            assert store.committer.recovered_bulk
            assert len(asserted(store)) == 4
            assert inferred(store) == expected(store, SYMMETRIC, CLOSURE) != set()
