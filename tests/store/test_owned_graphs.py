"""Writes to derived graphs are refused; operations on many graphs leave these graphs out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, Quad

from quadrill.continuous.analysis.update import analyse_update
from quadrill.store.changes.owners import OwnedGraphError, Owner
from quadrill.store.errors import QueryTextError, UpdateError
from quadrill.store.formats import rdf_format
from quadrill.store.hosts import AllowedHosts
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.views import View, ViewRegistry
from quadrill.store.remote import Fetched
from quadrill.store.sparql.update_plan import UpdateRequest
from quadrill.store.sparql.update_worker import UpdateTask, decode_change, derive_encoded_change, owned_of
from tests.examples import examples

from .updates import requests

PREFIX = "PREFIX ex: <http://e/>\n"
OWNED = NamedNode("http://e/h")
OTHER = NamedNode("http://e/g")
NEW = NamedNode("http://e/new")
OWNER = Owner("rules", "r")
A, P = NamedNode("http://e/a"), NamedNode("http://e/p")
INSIDE = Quad(A, P, Literal(1), OWNED)


@pytest.fixture(params=["memory", "disk"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[QuadStore]:
    folder = tmp_path / "data" if request.param == "disk" else None
    with QuadStore.open(folder, OPTIONS) as opened:
        fill(opened)
        yield opened


DOCUMENT = b"<http://e/x> <http://e/p> 1 . <http://e/h> { <http://e/a> <http://e/p> 1 }"
OPTIONS = StoreOptions(
    durable=False,
    analyse_update=analyse_update,
    allowed_hosts=AllowedHosts(["example.org"]),
    fetcher=lambda iri: Fetched(DOCUMENT, "application/trig", iri),
)


def fill(opened: QuadStore) -> None:
    opened.writer.update(
        PREFIX + "INSERT DATA { ex:a ex:p ex:b GRAPH ex:g { ex:a ex:p 1 , 2 } GRAPH ex:i { ex:i ex:p ex:h } }"
    )
    opened.writer.apply(add=[INSIDE, Quad(A, P, Literal(9), OWNED)])
    opened.queue.own(OWNED, OWNER)


def quads(opened: QuadStore) -> set[Quad]:
    return set(opened.committer.store)


REFUSED = [
    "INSERT DATA { GRAPH ex:h { ex:a ex:p 5 } }",
    "INSERT DATA { GRAPH ex:h { ex:a ex:p 1 } }",
    "INSERT DATA { ex:a ex:p 7 GRAPH ex:h { ex:a ex:p 5 } }",
    "INSERT DATA { GRAPH ex:h { } }",
    "INSERT DATA { GRAPH ex:h { # nothing\n } }",
    "INSERT DATA { ex:a ex:p 7 . GRAPH ex:h {} . }",
    "DELETE DATA { GRAPH ex:h { ex:a ex:p 1 } }",
    "DELETE DATA { GRAPH ex:h { ex:a ex:p 77 } }",
    "DELETE DATA { GRAPH <http://e/h> { ex:a ex:p 1 } }",
    "CLEAR GRAPH ex:h",
    "CLEAR SILENT GRAPH ex:h",
    "DROP GRAPH ex:h",
    "DROP SILENT GRAPH ex:h",
    "CREATE GRAPH ex:h",
    "CREATE SILENT GRAPH ex:h",
    "LOAD <http://example.org/x> INTO GRAPH ex:h",
    "LOAD SILENT <http://example.org/x> INTO GRAPH ex:h",
    "LOAD <http://example.org/x>",
    "LOAD <http://refused.example/x> INTO GRAPH ex:h",
    "LOAD SILENT <http://refused.example/x> INTO GRAPH ex:h",
    "INSERT { GRAPH ex:h { ?s ?p ?o } } WHERE { SERVICE <http://refused.example/x> { ?s ?p ?o } }",
    "ADD ex:g TO ex:h",
    "ADD DEFAULT TO GRAPH ex:h",
    "ADD SILENT ex:missing TO ex:h",
    "COPY ex:g TO ex:h",
    "COPY ex:h TO ex:h",
    "MOVE ex:g TO ex:h",
    "MOVE ex:h TO ex:g",
    "MOVE ex:h TO DEFAULT",
    "MOVE ex:h TO ex:h",
    "WITH ex:h DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }",
    "WITH ex:h INSERT { ex:a ex:p 5 } WHERE { ex:no ex:no ex:no }",
    "WITH ex:h DELETE { ex:no ex:no ex:no } INSERT { GRAPH ex:g { ex:a ex:p 5 } } WHERE {}",
    "INSERT { GRAPH ex:h { ?s ?p ?o } } WHERE { GRAPH ex:g { ?s ?p ?o } }",
    "INSERT { GRAPH ex:h { ?s ?p ?o } } WHERE { GRAPH ex:missing { ?s ?p ?o } }",
    "INSERT { GRAPH ex:h { } } WHERE { }",
    "INSERT { ex:x ex:p [ ex:q (1 2) ] . GRAPH ?g { ?s ?p ?o } GRAPH ex:h { ex:a ex:p 5 } } "
    "WHERE { GRAPH ex:missing { ?s ?p ?o } }",
    "DELETE { GRAPH ex:h { ?s ?p ?o } } WHERE { GRAPH ex:g { ?s ?p ?o } }",
    "DELETE { GRAPH ex:h { ?s ?p ?o } } INSERT { GRAPH ex:g { ?s ?p ?o } } WHERE { GRAPH ex:h { ?s ?p ?o } }",
    "DELETE WHERE { GRAPH ex:h { ?s ?p ?o } }",
    "DELETE WHERE { GRAPH ex:g { ?s ?p ?o } GRAPH ex:h { ?s ?p ?o } }",
    "INSERT { GRAPH ?g { ex:a ex:p 5 } } WHERE { GRAPH ?g { ?s ?p 9 } }",
    "INSERT { GRAPH ?g { ex:a ex:p 1 } } WHERE { GRAPH ?g { ?s ?p 1 } }",
    "DELETE { GRAPH ?g { ?s ?p ?o } } INSERT { GRAPH ?g { ?s ?p 5 } } WHERE { GRAPH ?g { ?s ?p ?o } }",
    "INSERT { GRAPH ?o { ?s ?p ?o } } WHERE { GRAPH ex:i { ?s ?p ?o } }",
    "INSERT DATA { ex:a ex:p 8 } ; INSERT DATA { GRAPH ex:h { ex:a ex:p 5 } }",
    "DROP ALL ; INSERT DATA { GRAPH ex:h { ex:a ex:p 5 } }",
    "BASE <http://e/> CLEAR GRAPH <h>",
]


@pytest.mark.parametrize("text", REFUSED)
def test_an_update_of_a_derived_graph_is_refused_and_changes_nothing(store: QuadStore, text: str) -> None:
    before, version = quads(store), store.reader.version
    for _ in range(4):  # small updates are planned from a cache after the second run
        with pytest.raises(OwnedGraphError) as refused:
            store.writer.update(PREFIX + text)
        assert refused.value.code == "graph-owned"
        assert refused.value.details["graph"] == "http://e/h"
        assert "rule set r" in refused.value.message
    assert quads(store) == before and store.reader.version == version


def test_nothing_is_fetched_for_an_update_of_a_derived_graph() -> None:
    text = "LOAD <http://example.org/x> INTO GRAPH ex:new ; DROP GRAPH ex:h"
    fetched: list[str] = []

    def fetcher(iri: str) -> Fetched:
        fetched.append(iri)
        return Fetched(DOCUMENT, "application/trig", iri)

    with QuadStore.open(None, replace(OPTIONS, fetcher=fetcher)) as opened:
        fill(opened)
        with pytest.raises(OwnedGraphError):
            opened.writer.update(PREFIX + text)
    assert not fetched


ALLOWED = [
    ("COPY ex:h TO ex:new", 2, 0),
    ("ADD ex:h TO ex:new", 2, 0),
    ("ADD ex:h TO DEFAULT", 2, 0),
    ("INSERT { GRAPH ex:new { ?s ?p ?o } } WHERE { GRAPH ex:h { ?s ?p ?o } }", 2, 0),
    ("INSERT { ?s ex:q ?o } USING ex:h WHERE { ?s ?p ?o }", 2, 0),
    ("INSERT { ?s ex:q ?o } USING NAMED ex:h WHERE { GRAPH ?g { ?s ?p ?o } }", 2, 0),
    ("WITH ex:h INSERT { GRAPH ex:new { ?s ?p ?o } } WHERE { ?s ?p ?o }", 2, 0),
    ("WITH ex:h DELETE { GRAPH ex:g { ?s ?p ?o } } WHERE { ?s ?p ?o }", 0, 1),
    ("WITH ex:h INSERT { } WHERE { ?s ?p ?o }", 0, 0),
    ("WITH ex:h DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }", 0, 3),
    ("DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }", 0, 3),
    ("DELETE WHERE { GRAPH ?g { ?s ?p ?o } }", 0, 3),
    ("DELETE { GRAPH ?g { ?s ?p ?o } } WHERE { GRAPH ex:h { ?s ?p ?o } BIND(ex:h AS ?g) }", 0, 0),
    ("DELETE { GRAPH ?g { ex:a ex:p 1 } } WHERE { VALUES ?g { ex:g ex:h } }", 0, 1),
    ("INSERT { GRAPH ?g { ex:a ex:p 5 } } WHERE { GRAPH ?g { ?s ?p 2 } }", 1, 0),
    ("INSERT { GRAPH ?g { ?x ex:p 5 } } WHERE { GRAPH ?g { ?s ?p 9 } }", 0, 0),
    ("INSERT DATA { ex:a ex:p ex:h }", 1, 0),
    ('INSERT DATA { ex:a ex:p "GRAPH ex:h {}" }', 1, 0),
    ("DROP ALL", 0, 4),
    ("DROP NAMED", 0, 3),
    ("CLEAR ALL", 0, 4),
    ("CLEAR NAMED", 0, 3),
    ("DROP DEFAULT", 0, 1),
]


@pytest.mark.parametrize(("text", "added", "removed"), ALLOWED)
def test_an_update_may_read_a_derived_graph_and_operations_on_many_graphs_leave_it_out(
    store: QuadStore, text: str, added: int, removed: int
) -> None:
    commit = store.writer.update(PREFIX + text)
    assert (len(commit.added), len(commit.removed)) == (added, removed)
    assert set(store.reader.quads_for_pattern(graph=OWNED)) == {INSIDE, Quad(A, P, Literal(9), OWNED)}
    assert OWNED in store.reader.graph_names()


def test_the_graph_of_a_query_that_was_not_restored_is_released_with_the_query() -> None:
    owner = Owner("view", "q")
    with QuadStore.open(None) as opened:
        views = ViewRegistry(opened, cast(Any, None), lambda view, error: None)
        opened.queue.own(OTHER, owner)
        views.close("q")
        assert not opened.queue.owned
        opened.queue.own(OTHER, owner)
        opened.queue.own(NEW, owner)  # the graph that a registration has claimed
        views.adopt("q", View("q", NEW))
        assert dict(opened.queue.owned) == {NEW: owner}
        views.adopt("q", None)
        assert not opened.queue.owned


def test_dropping_many_graphs_drops_the_others(store: QuadStore) -> None:
    commit = store.writer.update("DROP ALL")
    assert set(commit.dropped) == {OTHER, NamedNode("http://e/i")}
    assert store.reader.graph_names() == [OWNED]
    again = store.writer.update("DROP ALL")
    assert not again.changed


def test_a_derived_graph_that_is_not_listed_yet_is_refused_too(store: QuadStore) -> None:
    store.queue.own(NEW, Owner("shapes", "s"))
    for text in ("CREATE GRAPH ex:new", "DROP GRAPH ex:new", "CLEAR GRAPH ex:new", "COPY ex:g TO ex:new"):
        with pytest.raises(OwnedGraphError, match="the shapes s"):
            store.writer.update(PREFIX + text)
    assert NEW not in store.reader.graph_names()


def test_a_load_with_quads_of_a_derived_graph_is_refused() -> None:
    with QuadStore.open(None) as store:
        fill(store)
        before = quads(store)
        trig, turtle = rdf_format("application/trig"), rdf_format("text/turtle")
        assert trig is not None and turtle is not None
        for call in (
            lambda: store.writer.load(DOCUMENT, trig),
            lambda: store.writer.load(b"<http://e/x> <http://e/p> 1 .", turtle, graph=OWNED),
            lambda: store.writer.load(b"<http://e/a> <http://e/p> 1 .", turtle, graph=OWNED),
        ):
            with pytest.raises(OwnedGraphError):
                call()
        assert quads(store) == before


def test_the_graph_store_refuses_writes_to_a_derived_graph(store: QuadStore) -> None:
    before, version, writer = quads(store), store.reader.version, store.writer
    for call in (
        lambda: writer.put_graph(OWNED, [INSIDE, Quad(A, P, Literal(9), OWNED)]),
        lambda: writer.put_graph(OWNED, []),
        lambda: writer.put_graph(OTHER, [INSIDE]),
        lambda: writer.post_graph(OWNED, []),
        lambda: writer.post_graph(OWNED, [Quad(A, P, Literal(1))]),
        lambda: writer.delete_graph(OWNED),
        lambda: writer.apply(add=[INSIDE]),
        lambda: writer.apply(remove=[Quad(A, P, Literal(77), OWNED)]),
        lambda: writer.apply(create=[OWNED]),
        lambda: writer.apply(drop=[OWNED]),
        lambda: writer.apply(add=[Quad(A, P, Literal(3)), INSIDE], owner=Owner("view", "r")),
        lambda: writer.replace_dataset([INSIDE]),
        lambda: writer.replace_dataset([], names=[OWNED]),
    ):
        with pytest.raises(OwnedGraphError):
            call()
    assert quads(store) == before and store.reader.version == version


def test_the_owner_may_write(store: QuadStore) -> None:
    added = Quad(A, P, Literal(3), OWNED)
    assert store.writer.apply(add=[added], remove=[INSIDE], owner=OWNER).added == (added,)


def test_replacing_the_dataset_leaves_a_derived_graph_as_it_is(store: QuadStore) -> None:
    inside = set(store.reader.quads_for_pattern(graph=OWNED))
    wanted = [Quad(A, P, Literal(3)), Quad(A, P, Literal(3), NEW)]
    commit = store.writer.replace_dataset(wanted)
    assert OWNED not in commit.dropped
    assert quads(store) == inside | set(wanted)
    assert set(store.reader.graph_names()) == {OWNED, NEW}
    store.writer.replace_dataset([])
    assert quads(store) == inside and store.reader.graph_names() == [OWNED]


def test_restored_quads_of_a_derived_graph_are_left_out(store: QuadStore) -> None:
    inside = set(store.reader.quads_for_pattern(graph=OWNED))
    outside = Quad(A, P, Literal(3), OTHER)
    store.writer.replace_dataset([Quad(A, P, Literal(55), OWNED), outside], names=[OWNED, NEW], restored=True)
    assert quads(store) == {*inside, outside}
    assert set(store.reader.graph_names()) == {OWNED, OTHER, NEW}


def test_the_graph_of_a_view_is_guarded_as_before(store: QuadStore) -> None:
    store.queue.owned = {OWNED: Owner("view", "v")}
    assert not store.writer.update(PREFIX + "INSERT DATA { GRAPH ex:h { ex:a ex:p 1 } }").changed
    for text in ("DROP ALL", "DELETE WHERE { GRAPH ?g { ?s ?p ?o } }"):
        with pytest.raises(OwnedGraphError, match="the query v"):
            store.writer.update(PREFIX + text)


@pytest.mark.parametrize(
    "text", [*(text for text in REFUSED if not text.endswith("/x>")), *(text for text, _, _ in ALLOWED)]
)
def test_a_worker_process_decides_as_the_server_does(text: str) -> None:
    text = PREFIX + text
    with QuadStore.open(None, OPTIONS) as near, QuadStore.open(None) as far:
        fill(near), fill(far)
        task = UpdateTask(text, hosts=("example.org",), owned=owned_of(far.queue.owned))
        message = json.loads(task.encode())

        def in_worker() -> None:
            pieces = derive_encoded_change(message, lambda _path, _written: far.committer.store, None, None)
            change = decode_change(b"".join(pieces))
            far.writer.commit_computed(lambda: change)

        try:
            near.writer.update(UpdateRequest(text))
        except OwnedGraphError as refused:
            with pytest.raises(OwnedGraphError) as other:
                in_worker()
            assert other.value.message == refused.message
        else:
            in_worker()
        assert quads(near) == quads(far)


@settings(
    max_examples=examples(1_000), deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
@given(st.lists(requests(), min_size=1, max_size=3))
def test_no_update_changes_a_derived_graph(texts: list[str]) -> None:
    with QuadStore.open(None, OPTIONS) as store:
        fill(store)
        inside = set(store.reader.quads_for_pattern(graph=OWNED))
        for text in texts:
            before, version = quads(store), store.reader.version
            try:
                commit = store.writer.update(text)
            except (OwnedGraphError, UpdateError, QueryTextError):
                assert quads(store) == before and store.reader.version == version
                continue
            names = {quad.graph_name for quad in (*commit.added, *commit.removed)}
            assert OWNED not in {*names, *commit.created, *commit.dropped}
            assert set(store.reader.quads_for_pattern(graph=OWNED)) == inside
            assert OWNED in store.reader.graph_names()
