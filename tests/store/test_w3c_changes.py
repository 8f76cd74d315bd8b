"""Each W3C update test's change set is the full difference, whoever listens, on disk and in memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyoxigraph import BlankNode, NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from tests.w3c.compare import graphs_equal, read_graph
from tests.w3c.endpoint import text_of
from tests.w3c.manifests import Case, NamedFile, cases

CASES = [
    case
    for suite in ("sparql11/manifest-all.ttl", "sparql12/manifest.ttl")
    for case in cases(suite)
    if case.kind == "UpdateEvaluationTest"
]


def dataset(files: tuple[NamedFile, ...]) -> tuple[set[Quad], list[NamedNode]]:
    """Quads and names of the graphs that a test's files hold."""
    quads = set()
    for file in files:
        for quad in read_graph(file.path):
            graph = None if file.graph is None else NamedNode(file.graph)
            plain = file.path.suffix != ".trig" and graph is not None
            quads.add(Quad(quad.subject, quad.predicate, quad.object, graph) if plain else quad)
    return quads, [NamedNode(file.graph) for file in files if file.graph is not None]


def names_in(store: QuadStore) -> set[NamedNode | BlankNode]:
    return set(store.reader.graph_names())


def quads_in(store: QuadStore) -> set[Quad]:
    return set(store.reader.quads_for_pattern())


@contextmanager
def open_store(on_disk: bool) -> Iterator[QuadStore]:
    with tempfile.TemporaryDirectory() as folder:
        with QuadStore.open(Path(folder) / "data" if on_disk else None, StoreOptions(durable=False)) as store:
            yield store


def test_there_are_as_many_update_tests_as_are_reported() -> None:
    assert len(CASES) == 97


@pytest.mark.parametrize("triggers", [False, True], ids=["silent", "listening"])
@pytest.mark.parametrize("on_disk", [False, True], ids=["memory", "disk"])
def test_the_change_set_of_every_w3c_update_is_the_full_difference(on_disk: bool, triggers: bool) -> None:
    with open_store(on_disk) as store:
        wrong = [case.key for case in CASES if not _keeps_the_law(case, store, triggers)]
    assert wrong == []


def _keeps_the_law(case: Case, store: QuadStore, triggers: bool) -> bool:
    """The law for one case, and its expected result: what listens must not change what happens."""
    told: list[Commit] = []
    quads, names = dataset(case.data)
    store.writer.replace_dataset(quads, names=names)
    listening = (
        (told.append, lambda commit: store.reader.solutions("SELECT * { ?s ?p ?o }")) if triggers else ()
    )
    endings = [store.subscribers.subscribe(callback) for callback in listening]
    before, before_names = quads_in(store), names_in(store)
    commit = store.writer.update(text_of(case))
    after, after_names = quads_in(store), names_in(store)
    for end in endings:
        end()
    return (
        commit.exact
        and sorted(map(str, commit.added)) == sorted(map(str, after - before))
        and sorted(map(str, commit.removed)) == sorted(map(str, before - after))
        and set(commit.created) == after_names - before_names
        and set(commit.dropped) == before_names - after_names
        and told == ([commit] if triggers and commit.changed else [])
        and graphs_equal(after, dataset(case.result_data)[0])
    )
