"""The SPARQL protocol, the graph store protocol, /changes, errors, openapi, health."""

from __future__ import annotations

import re
from typing import Any

import pytest

from .bench import SPARQL_HEAD, Bench, Sse, eventually, problem

ALL = "SELECT ?s ?p ?o WHERE { ?s ?p ?o } ORDER BY ?s"
JSON = "application/sparql-results+json"


@pytest.fixture
def filled(bench: Bench) -> Bench:
    bench.update("INSERT DATA { :a :p 1 . GRAPH :g { :b :p 2 } GRAPH :h { :c :p 3 } }")
    return bench


def subjects(answer: Any) -> list[str]:
    assert answer.status_code == 200, answer.text
    return sorted(row["s"]["value"].rsplit("/", 1)[1] for row in answer.json()["results"]["bindings"])


# -- query --------


def test_query_by_get_form_and_direct(filled: Bench) -> None:
    text = SPARQL_HEAD + ALL
    client = filled.client
    json_only = {"Accept": JSON}
    assert subjects(client.get("/query", params={"query": text}, headers=json_only)) == ["a"]
    assert subjects(client.post("/query", data={"query": text}, headers=json_only)) == ["a"]
    assert subjects(filled.query(ALL)) == ["a"]


def test_default_and_named_graph_parameters(filled: Bench) -> None:
    named = "SELECT ?s WHERE { GRAPH ?g { ?s ?p ?o } }"
    assert subjects(filled.query(ALL, **{"default-graph-uri": "http://e/g"})) == ["b"]
    both = {"default-graph-uri": ["http://e/g", "http://e/h"]}
    assert subjects(filled.query(ALL, **both)) == ["b", "c"]
    assert subjects(filled.query(named, **{"named-graph-uri": "http://e/h"})) == ["c"]
    assert subjects(filled.query(ALL, **{"named-graph-uri": "http://e/h"})) == []


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (JSON, JSON),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv", "text/csv"),
        ("text/tab-separated-values", "text/tab-separated-values"),
        ("text/csv;q=0.5, application/sparql-results+xml;q=0.9", "application/sparql-results+xml"),
        ("text/csv, */*;q=0.1", "text/csv"),
        ("application/pdf, text/csv;q=0.2", "text/csv"),
    ],
)
def test_result_formats(filled: Bench, accept: str, kind: str) -> None:
    answer = filled.query(ALL, accept)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].split(";")[0] == kind
    assert "http://e/a" in answer.text


@pytest.mark.parametrize(
    "accept",
    [
        "text/turtle",
        "application/n-triples",
        "application/n-quads",
        "application/trig",
        "application/rdf+xml",
        "application/ld+json",
    ],
)
def test_graph_formats(filled: Bench, accept: str) -> None:
    answer = filled.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", accept)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].split(";")[0] == accept
    assert "http://e/" in answer.text


def test_nothing_fits_is_406(filled: Bench) -> None:
    problem(filled.query(ALL, "application/pdf"), 406)
    problem(filled.query(ALL, "text/csv;q=0"), 406)


def test_a_malformed_query_is_400_with_its_place(bench: Bench) -> None:
    found = problem(bench.query("SELECT ?s\nWHERE { ?s ?p }"), 400)
    assert found["line"] == 3
    assert {"column", "excerpt"} <= set(found)


def test_timeout(filled: Bench) -> None:
    assert filled.query(ALL, timeout="5").status_code == 200
    problem(filled.query(ALL, timeout="soon"), 400)
    filled.update("INSERT DATA { " + " ".join(f":n{i} :q {i} ." for i in range(300)) + " }")
    heavy = (
        "SELECT (COUNT(*) AS ?n) { ?a :q ?x . ?b :q ?y . ?c :q ?z . ?d :q ?w FILTER(?x + ?y + ?z + ?w = -1) }"
    )
    answer = filled.query(heavy, timeout="1")
    problem(answer, answer.status_code)
    assert answer.status_code in (408, 500, 503, 504)


def test_the_query_endpoint_refuses_an_update_and_the_update_endpoint_a_query(bench: Bench) -> None:
    problem(bench.query("INSERT DATA { :a :p 1 }"), 400)
    answer = bench.client.post("/update", content=ALL, headers={"Content-Type": "application/sparql-update"})
    problem(answer, 400)


def test_unknown_content_types_are_415(bench: Bench) -> None:
    for path in ("/query", "/update"):
        problem(bench.client.post(path, content="x", headers={"Content-Type": "application/pdf"}), 415)


# -- update --------


def test_an_update_is_204_with_the_version_as_etag(bench: Bench) -> None:
    def send(**request: Any) -> int:
        answer = bench.client.post("/update", **request)
        assert answer.status_code == 204
        found = re.fullmatch(r'"(\d+)"', answer.headers["ETag"])
        assert found
        return int(found[1])

    direct = {"Content-Type": "application/sparql-update"}
    first = send(content="INSERT DATA { <http://e/a> <http://e/p> 1 }", headers=direct)
    second = send(data={"update": "INSERT DATA { <http://e/b> <http://e/p> 1 }"})
    assert second == first + 1
    # a commit that changes nothing makes no version
    assert send(content="INSERT DATA { <http://e/a> <http://e/p> 1 }", headers=direct) == second


def test_using_graph_parameters(filled: Bench) -> None:
    answer = filled.client.post(
        "/update",
        params={"using-graph-uri": "http://e/g"},
        content=SPARQL_HEAD + "INSERT { GRAPH :copy { ?s ?p ?o } } WHERE { ?s ?p ?o }",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert answer.status_code == 204
    assert subjects(filled.query("SELECT ?s { GRAPH :copy { ?s ?p ?o } }")) == ["b"]
    answer = filled.client.post(
        "/update",
        params={"using-named-graph-uri": "http://e/h"},
        content=SPARQL_HEAD + "INSERT { GRAPH :copy2 { ?s ?p ?o } } WHERE { GRAPH ?g { ?s ?p ?o } }",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert answer.status_code == 204
    assert subjects(filled.query("SELECT ?s { GRAPH :copy2 { ?s ?p ?o } }")) == ["c"]


def test_a_failed_update_changes_nothing(filled: Bench) -> None:
    before = filled.query("ASK {}").headers["ETag"]
    answer = filled.client.post(
        "/update",
        content=SPARQL_HEAD + "INSERT DATA { :x :y :z } ; CREATE GRAPH :g",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert answer.status_code >= 400
    problem(answer, answer.status_code)
    assert filled.query("ASK {}").headers["ETag"] == before
    assert filled.query("ASK { :x :y :z }").json()["boolean"] is False


def test_sparql_takes_either(filled: Bench) -> None:
    client = filled.client
    text = SPARQL_HEAD + ALL
    accept = {"Accept": JSON}
    assert subjects(client.get("/sparql", params={"query": text}, headers=accept)) == ["a"]
    assert subjects(client.post("/sparql", data={"query": text}, headers=accept)) == ["a"]
    direct = {"Content-Type": "application/sparql-query", **accept}
    assert subjects(client.post("/sparql", content=text, headers=direct)) == ["a"]
    for request in (
        {"data": {"update": SPARQL_HEAD + "INSERT DATA { :a2 :p 1 }"}},
        {
            "content": SPARQL_HEAD + "INSERT DATA { :a3 :p 1 }",
            "headers": {"Content-Type": "application/sparql-update"},
        },
    ):
        assert client.post("/sparql", **request).status_code == 204  # type: ignore[arg-type]
    assert subjects(filled.query(ALL)) == ["a", "a2", "a3"]


def test_service_and_load_reach_no_host(bench: Bench) -> None:
    answer = bench.query("SELECT * { SERVICE <http://remote.example/sparql> { ?s ?p ?o } }")
    assert answer.status_code in (400, 403)
    problem(answer, answer.status_code)
    answer = bench.client.post(
        "/update",
        content="LOAD <http://remote.example/data.ttl>",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert answer.status_code in (400, 403)
    problem(answer, answer.status_code)


def test_the_root_is_a_page_for_browsers_and_a_description_for_rdf_clients(bench: Bench) -> None:
    page = bench.client.get("/", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert page.status_code == 200
    assert page.headers["Content-Type"].startswith("text/html")
    for path in ("/", "/query", "/sparql"):
        found = bench.client.get(path, headers={"Accept": "text/turtle"})
        assert found.status_code == 200
        assert found.headers["Content-Type"].startswith("text/turtle")
        assert "sparql-service-description#" in found.text


# -- graph store --------


def test_indirect_graphs(bench: Bench) -> None:
    turtle = {"Content-Type": "text/turtle"}
    where = {"graph": "http://e/g"}
    client = bench.client
    problem(client.get("/store", params=where), 404)
    put = client.put("/store", params=where, content="<http://e/a> <http://e/p> 1 .", headers=turtle)
    assert put.status_code == 201
    post = client.post("/store", params=where, content="<http://e/b> <http://e/p> 1 .", headers=turtle)
    assert post.status_code in (200, 204)
    found = client.get("/store", params=where, headers={"Accept": "application/n-triples"})
    assert len(found.text.strip().splitlines()) == 2
    head = client.head("/store", params=where)
    assert (head.status_code, head.content) == (200, b"")
    put = client.put("/store", params=where, content="<http://e/c> <http://e/p> 1 .", headers=turtle)
    assert put.status_code in (200, 204)
    found = client.get("/store", params=where, headers={"Accept": "application/n-triples"})
    assert len(found.text.strip().splitlines()) == 1
    assert client.delete("/store", params=where).status_code in (200, 204)
    problem(client.get("/store", params=where), 404)
    problem(client.delete("/store", params=where), 404)


def test_the_default_graph(bench: Bench) -> None:
    turtle = {"Content-Type": "text/turtle"}
    answer = bench.client.put("/store?default", content="<http://e/a> <http://e/p> 1 .", headers=turtle)
    assert answer.status_code in (200, 201, 204)
    found = bench.client.get("/store?default", headers={"Accept": "application/n-triples"})
    assert found.text.startswith("<http://e/a>")


def test_direct_graphs(bench: Bench) -> None:
    turtle = {"Content-Type": "text/turtle"}
    assert (
        bench.client.put("/store/x/y", content="<http://e/a> <http://e/p> 1 .", headers=turtle).status_code
        == 201
    )
    assert "http://e/a" in bench.client.get("/store/x/y", headers={"Accept": "application/n-triples"}).text
    graphs = bench.query("SELECT ?g { GRAPH ?g { ?s ?p ?o } }").json()["results"]["bindings"]
    assert [row["g"]["value"] for row in graphs] == [f"{bench.server.url}/store/x/y"]


def test_the_whole_dataset(filled: Bench) -> None:
    found = filled.client.get("/store", headers={"Accept": "application/n-quads"})
    assert len(found.text.strip().splitlines()) == 3
    quads = {"Content-Type": "application/n-quads"}
    answer = filled.client.put(
        "/store", content='<http://e/z> <http://e/p> "1" <http://e/g> .\n', headers=quads
    )
    assert answer.status_code in (200, 201, 204)
    found = filled.client.get("/store", headers={"Accept": "application/n-quads"})
    assert found.text.strip() == '<http://e/z> <http://e/p> "1" <http://e/g> .'


def test_a_malformed_graph_is_400_with_its_place(bench: Bench) -> None:
    answer = bench.client.put(
        "/store?default", content="<http://e/a>\n oops", headers={"Content-Type": "text/turtle"}
    )
    assert problem(answer, 400)["line"] == 2


# -- changes --------


def test_one_event_per_commit(bench: Bench) -> None:
    start = bench.update("INSERT DATA { :a :p 1 }")
    with Sse(bench.client, "/changes") as feed:
        version = bench.update("INSERT DATA { GRAPH :g { :a :p 1 . :b :p 2 } }")
        bench.update("DELETE DATA { GRAPH :g { :a :p 1 } } ; INSERT DATA { :c :p 3 }")
        first, second = feed.take(2)
    assert version == start + 1
    assert first.id == str(version)
    assert first.data["version"] == version
    assert isinstance(first.data["at"], int)
    assert first.data["graphs"] == {"http://e/g": {"added": 2, "removed": 0}}
    assert "patch" not in first.data
    assert second.data["graphs"]["http://e/g"] == {"added": 0, "removed": 1}
    assert {"added": 1, "removed": 0} in second.data["graphs"].values()


def test_changes_resume_after_a_version(bench: Bench) -> None:
    start = bench.update("INSERT DATA { :a :p 1 }")
    for i in range(3):
        bench.update(f"INSERT DATA {{ :a :p 1{i} }}")
    with Sse(bench.client, "/changes", after=start) as feed:
        assert [event.id for event in feed.take(3)] == [str(start + n) for n in (1, 2, 3)]
    with Sse(bench.client, "/changes", headers={"Last-Event-ID": str(start + 1)}) as feed:
        assert [event.id for event in feed.take(2)] == [str(start + n) for n in (2, 3)]


def test_changes_with_the_exact_patch(bench: Bench) -> None:
    start = bench.update("INSERT DATA { GRAPH :g { :a :p 1 } }")
    bench.update(
        "DELETE { GRAPH :g { ?s :p ?o } } INSERT { GRAPH :g { ?s :p 2 } } WHERE { GRAPH :g { ?s :p ?o } }"
    )
    with Sse(bench.client, "/changes", after=start, patch="true") as feed:
        patch = feed.one().data["patch"].splitlines()
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    assert f'A <http://e/a> <http://e/p> "2"^^{integer} <http://e/g> .' in patch
    assert f'D <http://e/a> <http://e/p> "1"^^{integer} <http://e/g> .' in patch


def test_changes_of_one_graph(bench: Bench) -> None:
    start = bench.update("INSERT DATA { :x :p 1 }")
    bench.update("INSERT DATA { GRAPH :other { :a :p 1 } }")
    version = bench.update("INSERT DATA { GRAPH :g { :a :p 1 } GRAPH :other { :a :p 2 } }")
    with Sse(bench.client, "/changes", after=start, graph="http://e/g") as feed:
        event = feed.one()
    assert event.id == str(version)
    assert event.data["graphs"] == {"http://e/g": {"added": 1, "removed": 0}}


def test_an_update_that_changes_nothing_is_no_event(bench: Bench) -> None:
    start = bench.update("INSERT DATA { :x :p 1 }")
    bench.update("INSERT DATA { :x :p 1 }")
    bench.update("INSERT DATA { :x :p 2 }")
    with Sse(bench.client, "/changes", after=start) as feed:
        assert feed.one().id == str(start + 1)


# -- everywhere --------


def test_unknown_paths_and_methods(bench: Bench) -> None:
    problem(bench.client.get("/nothing/here"), 404)
    answer = bench.client.patch("/query")
    problem(answer, 405)
    assert "Allow" in answer.headers


@pytest.mark.parametrize("path", ["/", "/query", "/store", "/streams", "/queries", "/openapi.json"])
def test_options_and_head(bench: Bench, path: str) -> None:
    options = bench.client.options(path)
    assert options.status_code in (200, 204)
    assert "Allow" in options.headers
    if path != "/query":
        head = bench.client.head(path)
        assert (head.status_code, head.content) == (200, b"")


def test_gzip(bench: Bench) -> None:
    bench.update("INSERT DATA { " + " ".join(f":n{i} :q {i} ." for i in range(500)) + " }")
    answer = bench.client.get("/store", headers={"Accept": "application/n-quads", "Accept-Encoding": "gzip"})
    assert answer.headers.get("Content-Encoding") == "gzip"
    assert len(answer.text.splitlines()) == 500


def test_health_and_metrics(bench: Bench) -> None:
    assert bench.client.get("/health/live").status_code == 200
    assert bench.client.get("/health/ready").status_code == 200
    metrics = bench.client.get("/metrics")
    assert metrics.status_code == 200
    assert "# TYPE" in metrics.text


def test_openapi_lists_every_path_of_the_contract(bench: Bench) -> None:
    document = bench.client.get("/openapi.json").json()
    assert document["openapi"].startswith("3.")
    paths = {re.sub(r"\{\w+\}", "{}", path): set(methods) for path, methods in document["paths"].items()}
    expected = {
        "/query": {"get", "post"},
        "/update": {"post"},
        "/sparql": {"get", "post"},
        "/store": {"get", "head", "put", "post", "delete"},
        "/store/{}": {"get", "head", "put", "post", "delete"},
        "/": {"get"},
        "/changes": {"get"},
        "/streams": {"get", "put", "post", "delete"},
        "/streams/{}": {"get", "put", "post", "delete"},
        "/streams:heartbeat": {"post"},
        "/streams/{}:heartbeat": {"post"},
        "/queries": {"get", "post"},
        "/queries:validate": {"post"},
        "/queries/{}": {"get", "put", "patch", "delete"},
        "/queries/{}/explain": {"get"},
        "/queries/{}/refresh": {"post"},
        "/queries/{}/results": {"get"},
        "/loads": {"post"},
        "/jobs": {"get"},
        "/jobs/{}": {"get"},
        "/health/live": {"get"},
        "/health/ready": {"get"},
        "/metrics": {"get"},
    }
    missing = {path: methods - paths.get(path, set()) for path, methods in expected.items()}
    assert not {path: methods for path, methods in missing.items() if methods}


def test_jobs_start_empty_and_unknown_ones_are_404(bench: Bench) -> None:
    assert bench.client.get("/jobs").status_code == 200
    problem(bench.client.get("/jobs/nothing"), 404)


def test_loads_read_configured_folders_only(bench: Bench, tmp_path: Any) -> None:
    (tmp_path / "x.ttl").write_text("<http://e/a> <http://e/p> 1 .")
    answer = bench.client.post("/loads", json={"source": str(tmp_path / "x.ttl"), "engine": "auto"})
    assert answer.status_code in (400, 403)
    problem(answer, answer.status_code)


def test_limits_have_clear_errors(live_small: Any) -> None:
    client = live_small.client
    push = client.put("/streams/sized", json={"iri": "http://e/sized"})
    assert push.status_code in (200, 201)
    turtle = {"Content-Type": "text/turtle"}
    big = "<http://e/a> <http://e/p> 1 .\n" * 100
    problem(client.post("/streams/sized?at=1", content=big, headers=turtle), 413)
    problem(client.put("/store?default", content=big, headers=turtle), 413)
    text = "SELECT * { ?s ?p ?o } #" + "x" * 2000
    problem(client.post("/query", content=text, headers={"Content-Type": "application/sparql-query"}), 413)


def test_self_declaration_can_be_turned_off(live_small: Any) -> None:
    answer = live_small.client.post(
        "/streams/undeclared?at=1",
        content="<http://e/a> <http://e/p> 1 .",
        headers={"Content-Type": "text/turtle"},
    )
    problem(answer, 404)
    answer = live_small.client.post(
        "/queries",
        json={"name": "u", "query": "SELECT ?s { STREAM <http://e/undeclared> [NOW] { ?s ?p ?o } }"},
    )
    assert answer.status_code in (400, 404)


def test_a_load_is_a_job(tmp_path_factory: Any) -> None:
    from .bench import Server

    folder = tmp_path_factory.mktemp("loads")
    (folder / "x.ttl").write_text("<http://e/a> <http://e/p> 1 .")
    server = Server("--data", ":memory:", environment={"QUADRILL_LOAD_FOLDERS": str(folder)})
    try:
        answer = server.client.post(
            "/loads", json={"source": str(folder / "x.ttl"), "graph": "http://e/g", "engine": "oxigraph"}
        )
        assert answer.status_code == 202
        job = answer.json()
        found = eventually(
            lambda: next(
                (
                    one
                    for one in [server.client.get(f"/jobs/{job['id']}").json()]
                    if one["state"] not in ("queued", "running")
                ),
                None,
            )
        )
        assert found["state"] == "done", found
        assert {"stage", "rows", "bytes", "rate"} <= set(found["progress"])
        assert found["progress"]["rows"] == 1
        graph = server.client.get(
            "/store", params={"graph": "http://e/g"}, headers={"Accept": "application/n-triples"}
        )
        assert graph.text.startswith("<http://e/a>")
    finally:
        assert server.stop() == 0
