"""Graphs of FROM and FROM NAMED that are not in the store: fetched, cached, joined with stored graphs."""

from __future__ import annotations

import pytest

from quadrill.app.describing.queries import describe
from quadrill.store.errors import InputError, ReportedError
from quadrill.store.remote import FetchError

from ..engines import E
from .bench import Remote
from .endpoint import Answer, Asked, Endpoint

SEEN = "STREAM :s [RANGE 1h] { ?x :seen ?v }"
EVERY = {"refresh": {"every": "60s"}}


def insert(bench: Remote, text: str) -> None:
    bench.store.writer.update(f"PREFIX : <{E}> INSERT DATA {{ {text} }}")
    bench.engine.sync()


def test_a_remote_graph_is_fetched_and_joined_with_a_stream(bench: Remote, far: Endpoint) -> None:
    far.handle = far.turtle(":a :label 1 . :b :label 2 .")
    bench.register("q", f"SELECT ?x ?l FROM <{far.url}g> {{ {SEEN} ?x :label ?l }}", **EVERY)
    bench.push(1, "a", "c")
    assert bench.rows("q") == ["a 1"]
    assert far.asked[0].headers["accept"].startswith("text/turtle")
    far.handle = far.turtle(":a :label 1 . :c :label 3 .")
    bench.wait(70_000)
    assert bench.rows("q") == ["a 1", "c 3"]
    assert bench.store.reader.graph_names() == [], "the store does not hold what is fetched"
    assert bench.source("q")["kind"] == "graph" and bench.source("q")["refresh_version"] == 2


def test_from_and_from_named_keep_the_rules_of_the_dataset(bench: Remote, far: Endpoint) -> None:
    far.handle = far.turtle(":a :label 1 .")
    insert(bench, ":a :label 10 . GRAPH :g { :a :label 20 } GRAPH :h { :a :label 30 }")
    g = f"<{far.url}g>"
    texts = {
        f"SELECT ?l FROM {g} {{ ?x :label ?l }}": ["1"],
        f"SELECT ?l FROM {g} FROM :g {{ ?x :label ?l }}": ["1", "20"],
        f"SELECT ?l FROM NAMED {g} {{ GRAPH ?w {{ ?x :label ?l }} }}": ["1"],
        f"SELECT ?l FROM NAMED {g} FROM NAMED :h {{ GRAPH ?w {{ ?x :label ?l }} }}": ["1", "30"],
        f"SELECT ?l FROM NAMED {g} FROM NAMED :h {{ GRAPH :h {{ ?x :label ?l }} }}": ["30"],
        f"SELECT ?l FROM NAMED {g} FROM :g {{ GRAPH {g} {{ ?x :label ?l }} }}": ["1"],
        f"SELECT ?l FROM NAMED {g} FROM :g {{ ?x :label ?l }}": ["20"],
        f"SELECT ?l FROM {g} FROM NAMED :h {{ ?x :label ?n GRAPH :h {{ ?x :label ?l }} }}": ["30"],
        f"SELECT ?w FROM NAMED {g} FROM NAMED :h {{ GRAPH ?w {{ }} }}": ["g", "h"],
        f"SELECT (COUNT(*) AS ?n) FROM NAMED {g} FROM NAMED :h "
        "{ GRAPH ?w { SELECT * { ?x ?p ?o } } }": ["2"],
        f"SELECT ?l FROM {g} {{ ?x :label ?l FILTER NOT EXISTS {{ ?x :label 10 }} }}": ["1"],
    }
    for number, (text, expected) in enumerate(texts.items()):
        bench.register(f"q{number}", text, dialect="sparql", **EVERY)
        assert bench.rows(f"q{number}") == expected, text


def test_in_cqels_ql_from_leaves_the_named_graphs_of_the_store_in_place(bench: Remote, far: Endpoint) -> None:
    far.handle = far.turtle(":a :label 1 .")
    insert(bench, "GRAPH :g { :a :in :hall }")
    text = f"SELECT ?l ?r FROM <{far.url}g> {{ {SEEN} ?x :label ?l GRAPH ?w {{ ?x :in ?r }} }}"
    bench.register("q", text, **EVERY)
    bench.push(1, "a")
    assert bench.rows("q") == ["1 hall"]


def test_commits_of_the_stored_graphs_beside_it_are_followed(bench: Remote, far: Endpoint) -> None:
    far.handle = far.turtle(":a :label 1 .")
    g = f"<{far.url}g>"
    bench.register("q", f"SELECT ?x ?r FROM {g} FROM :rooms {{ ?x :label ?l ; :in ?r }}")
    assert bench.rows("q") == []
    insert(bench, "GRAPH :rooms { :a :in :hall }")
    assert bench.rows("q") == ["a hall"]
    far.handle = far.turtle(":b :label 1 .")
    bench.wait(70_000)
    assert bench.rows("q") == []
    insert(bench, "GRAPH :rooms { :b :in :shed }")
    assert bench.rows("q") == ["b shed"]


def test_a_graph_that_the_store_has_is_the_stores(bench: Remote, far: Endpoint) -> None:
    insert(bench, f"GRAPH <{far.url}g> {{ :a :label 5 }}")
    bench.register("q", f"SELECT ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)
    assert bench.rows("q") == ["5"] and far.asked == []
    assert describe(bench.engine, "q")["sources"] == []


def test_without_a_timer_a_graph_of_a_host_that_is_not_allowed_is_one_that_may_come(bench: Remote) -> None:
    bench.register("q", "SELECT ?l FROM <http://other.example/g> { ?x :label ?l }")
    insert(bench, "GRAPH <http://other.example/g> { :a :label 5 }")
    assert bench.rows("q") == ["5"]


def test_under_a_timer_it_is_refused(bench: Remote) -> None:
    for options, clause in ((EVERY, ""), ({}, "REFRESH EVERY 30s")):
        with pytest.raises(InputError) as refused:
            text = f"SELECT ?l FROM <http://other.example/g> {clause} {{ ?x :label ?l }}"
            bench.register("q", text, **options)
        assert refused.value.code == "remote-not-allowed"


def test_a_document_that_did_not_change_is_not_sent_again(bench: Remote, far: Endpoint) -> None:
    def tagged(asked: Asked) -> Answer:
        if asked.headers.get("if-none-match") == '"1"':
            return 304, {}, b""
        return far.turtle(":a :label 1 .", ETag='"1"')(asked)

    far.handle = tagged
    bench.register("q", f"SELECT ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)
    bench.wait(70_000)
    assert [asked.headers.get("if-none-match") for asked in far.asked] == [None, '"1"']
    assert bench.source("q")["stale"] is False and bench.source("q")["age_ms"] == 0
    assert bench.rows("q") == ["1"]


def test_a_304_that_nobody_asked_for_is_trouble(bench: Remote, far: Endpoint) -> None:
    far.handle = far.always(304)
    with pytest.raises(FetchError, match="status 304"):
        bench.register("q", f"SELECT ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)


@pytest.mark.parametrize(
    ("media", "body"),
    [
        ("text/turtle", "<http://example.org/a> <http://example.org/label> 1 ."),
        ("application/n-triples", '<http://example.org/a> <http://example.org/label> "1" .'),
        (
            "application/rdf+xml",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://example.org/">'
            '<rdf:Description rdf:about="http://example.org/a"><label>1</label></rdf:Description></rdf:RDF>',
        ),
        ("application/ld+json", '{"@id": "http://example.org/a", "http://example.org/label": 1}'),
        ("application/trig", "<http://example.org/a> <http://example.org/label> 1 . <g> { <s> <p> <o> }"),
    ],
)
def test_documents_come_in_any_format(bench: Remote, far: Endpoint, media: str, body: str) -> None:
    far.handle = far.always(200, body.encode(), Content_Type=media)
    bench.register("q", f"SELECT ?x ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)
    assert bench.rows("q") == ["a 1"]


def test_redirects_are_followed_to_allowed_hosts_only(bench: Remote, far: Endpoint) -> None:
    def moved(asked: Asked) -> Answer:
        if asked.path == "/new":
            return far.turtle(":a :label 1 .")(asked)
        return 301, {"Location": "/new"}, b""

    far.handle = moved
    bench.register("q", f"SELECT ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)
    assert bench.rows("q") == ["1"]
    far.handle = far.always(302, Location="http://127.0.0.2:1/x")
    bench.wait(70_000)
    assert "127.0.0.2" in bench.source("q")["stale_reason"]


def test_a_graph_over_the_limit_of_triples_is_refused(far: Endpoint) -> None:
    bench = Remote(far, max_rows=3)
    bench.engine.start()
    far.handle = far.turtle(" ".join(f":a :label {number} ." for number in range(5)))
    with pytest.raises(ReportedError, match="has 5 triples, the limit is 3"):
        bench.register("q", f"SELECT ?l FROM <{far.url}g> {{ ?x :label ?l }}", **EVERY)
    bench.engine.stop()
    bench.store.close()


def test_blank_nodes_of_a_document_stay_the_same_from_one_fetch_to_the_next(
    bench: Remote, far: Endpoint
) -> None:
    far.handle = far.turtle("_:n :label 1 .")
    bench.register("q", f"SELECT ?x ?l FROM <{far.url}g> {{ ?x :label ?l }}", output="changes", **EVERY)
    before = len(bench.heads("q"))
    far.handle = far.turtle("_:n :label 1 . _:m :label 2 .")
    bench.wait(70_000)
    assert len(bench.heads("q")) == before + 1, "only the new node is told"
