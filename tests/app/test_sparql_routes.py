"""The SPARQL protocol over HTTP."""

from __future__ import annotations

import gzip
import json

import httpx
import pytest
from pyoxigraph import RdfFormat, parse

from tests.app.conftest import LiveServer, Start, problem_of

DATA = "INSERT DATA { <urn:s> <urn:p> 1, 'x' . GRAPH <urn:g> { <urn:s> <urn:p> 2 } }"
FORM = "application/x-www-form-urlencoded"
QUERY = "application/sparql-query"
DEFAULT, USING = "default-graph-uri", "using-graph-uri"


def test_a_query_can_be_asked_in_every_way_of_the_protocol(server: LiveServer) -> None:
    text = "ASK { FILTER(1 = 1) }"
    client = server.client
    direct = {"Content-Type": "application/sparql-query"}
    answers = [
        client.get("/query", params={"query": text}),
        client.post("/query", data={"query": text}),
        client.post("/query", content=text, headers=direct),
        client.request("QUERY", "/query", content=text, headers=direct),
        client.get("/sparql", params={"query": text}),
        client.post("/sparql", data={"query": text}),
        client.post("/sparql", content=text, headers=direct),
        client.request("QUERY", "/sparql", content=text, headers=direct),
    ]
    assert [answer.status_code for answer in answers] == [200] * len(answers)
    assert all(answer.json()["boolean"] is True for answer in answers)


def test_an_update_answers_204_with_the_version_as_etag(server: LiveServer) -> None:
    before = server.services.store.reader.version
    for count, answer in enumerate(
        (
            server.update("INSERT DATA { <urn:a> <urn:b> 1 }"),
            server.client.post("/update", data={"update": "INSERT DATA { <urn:a> <urn:b> 2 }"}),
            server.client.post("/sparql", data={"update": "INSERT DATA { <urn:a> <urn:b> 3 }"}),
        ),
        start=1,
    ):
        assert answer.status_code == 204
        assert answer.content == b""
        assert answer.headers["ETag"] == f'"{before + count}"'
    assert server.boolean("ASK { <urn:a> <urn:b> 1, 2, 3 }")


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        (None, "application/sparql-results+json"),
        ("*/*", "application/sparql-results+json"),
        ("application/json", "application/sparql-results+json"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv", "text/csv"),
        ("text/tab-separated-values", "text/tab-separated-values"),
        ("text/csv;q=0.2, text/tab-separated-values;q=0.8", "text/tab-separated-values"),
        ("text/*", "text/csv"),
        ("*/*, application/sparql-results+json;q=0", "application/sparql-results+xml"),
    ],
)
def test_results_come_in_the_format_that_is_asked_for(
    server: LiveServer, accept: str | None, media_type: str
) -> None:
    request = server.client.build_request("GET", "/query", params={"query": "SELECT (1 AS ?x) {}"})
    del request.headers["Accept"]
    if accept is not None:
        request.headers["Accept"] = accept
    answer = server.client.send(request)
    assert answer.status_code == 200
    assert answer.headers["Content-Type"].partition(";")[0] == media_type
    assert "1" in answer.text


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("text/turtle", RdfFormat.TURTLE),
        ("application/n-triples", RdfFormat.N_TRIPLES),
        ("application/rdf+xml", RdfFormat.RDF_XML),
        ("application/ld+json", RdfFormat.JSON_LD),
        ("application/n-quads", RdfFormat.N_QUADS),
        ("application/trig", RdfFormat.TRIG),
    ],
)
def test_graphs_come_in_the_format_that_is_asked_for(
    server: LiveServer, accept: str, form: RdfFormat
) -> None:
    server.update(DATA)
    answer = server.query("CONSTRUCT { ?s ?p ?o } WHERE { ?s ?p ?o }", accept)
    assert answer.headers["Content-Type"].partition(";")[0] == accept
    assert len(list(parse(answer.content, form))) == 2


def test_nothing_acceptable_is_406_and_names_what_there_is(server: LiveServer) -> None:
    problem = problem_of(server.query("SELECT * {}", "image/png"), 406)
    assert "text/csv" in problem["hint"]


def test_dataset_parameters_override_the_text(server: LiveServer) -> None:
    server.update(DATA)
    text = "SELECT ?o FROM <urn:none> { ?s ?p ?o }"
    answer = server.query(text, **{"default-graph-uri": "urn:g"})
    assert [row["o"]["value"] for row in answer.json()["results"]["bindings"]] == ["2"]
    named = server.query("SELECT ?o { GRAPH ?g { ?s ?p ?o } }", **{"named-graph-uri": "urn:g"})
    assert len(named.json()["results"]["bindings"]) == 1
    none = server.query("SELECT ?o { GRAPH ?g { ?s ?p ?o } }", **{"default-graph-uri": "urn:g"})
    assert none.json()["results"]["bindings"] == []
    union = server.query("SELECT ?o { ?s ?p ?o }", **{"union-default-graph": ""})
    assert len(union.json()["results"]["bindings"]) == 3


def test_using_parameters_choose_what_an_update_reads(server: LiveServer) -> None:
    server.update(DATA)
    answer = server.update(
        "INSERT { <urn:copy> <urn:p> ?o } WHERE { <urn:s> <urn:p> ?o }", **{"using-graph-uri": "urn:g"}
    )
    assert answer.status_code == 204
    assert server.boolean("ASK { <urn:copy> <urn:p> 2 FILTER NOT EXISTS { <urn:copy> <urn:p> 1 } }")


@pytest.mark.parametrize(
    ("method", "path", "options", "status"),
    [
        ("GET", "/query", {"params": [("query", "ASK {}"), ("query", "ASK {}")]}, 400),
        ("POST", "/query", {"content": "query=ASK&query=ASK", "headers": {"Content-Type": FORM}}, 400),
        ("POST", "/query", {"content": "ASK {}", "headers": {"Content-Type": "text/plain"}}, 415),
        ("POST", "/query", {"content": "ASK {}"}, 415),
        ("POST", "/update", {"content": "CLEAR ALL", "headers": {"Content-Type": QUERY}}, 415),
        ("GET", "/update", {"params": {"update": "CLEAR ALL"}}, 405),
        ("GET", "/sparql", {"params": {"update": "CLEAR ALL"}}, 405),
        ("PUT", "/query", {"content": "ASK {}"}, 405),
        ("POST", "/update", {"data": {"query": "ASK {}"}}, 400),
        ("POST", "/query", {"data": {}, "headers": {"Content-Type": FORM}}, 400),
        ("GET", "/query", {"params": {"query": "SELECT * {"}}, 400),
        ("GET", "/query", {"params": {"query": "ASK {}", "timeout": "soon"}}, 400),
        ("GET", "/query", {"params": {"query": "ASK {}", "default-graph-uri": "not an iri"}}, 400),
        ("GET", "/query", {"params": {"query": "ASK {}", DEFAULT: "urn:g", "union-default-graph": ""}}, 400),
        ("POST", "/update", {"data": {"update": "INSERT DATA { <a> <b> }"}}, 400),
        ("POST", "/update", {"data": {"update": "WITH <urn:g> DELETE {} WHERE {}", USING: "urn:g"}}, 400),
        ("GET", "/query", {"params": {"query": "SELECT * { SERVICE <http://127.0.0.1:1/> {} }"}}, 403),
        ("GET", "/query", {"params": {"query": "SELECT * { SERVICE ?x { ?s ?p ?o } }"}}, 501),
        ("POST", "/update", {"data": {"update": "LOAD <http://127.0.0.1:1/>"}}, 403),
        ("GET", "/query", {"params": {"query": "SELECT (<urn:nope>(1) AS ?x) {}"}}, 501),
    ],
)  # fmt: skip
def test_wrong_requests_are_problems(
    server: LiveServer, method: str, path: str, options: dict[str, object], status: int
) -> None:
    problem_of(server.client.request(method, path, **options), status)  # type: ignore[arg-type]


def test_a_wrong_text_is_told_with_its_place(server: LiveServer) -> None:
    problem = problem_of(server.query("SELECT *\n{ ?s ?p }"), 400)
    assert problem["line"] == 2
    assert problem["column"] in (9, 10)
    assert "^" in problem["excerpt"]


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        ("SELECT * { ?s ?p }", 18, "this triple has no object"),
        ("SELECT * { ?s ?p ?o FILTER }", 28, 'unexpected "}"'),
        ("SELECT (COUNT(*) ?n) { ?s ?p ?o }", 18, 'unexpected "?n", expected an operator or AS'),
        ("SELECT * { { ?a ?p ?o } { ?b ?p }", 33, "this triple has no object"),
    ],
)
def test_a_wrong_query_is_told_by_the_token_that_is_wrong(
    server: LiveServer, text: str, column: int, told: str
) -> None:
    problem = problem_of(server.client.get("/query", params={"query": text}), 400)
    assert (problem["code"], problem["line"], problem["column"]) == ("query-text", 1, column)
    assert told in problem["detail"]


def test_an_answer_without_a_body_has_no_type(server: LiveServer) -> None:
    turtle = {"Content-Type": "text/turtle"}
    made = server.client.put("/store?graph=urn:made", content="<urn:a> <urn:b> 1 .", headers=turtle)
    assert (made.status_code, made.content) == (201, b"")
    assert "Content-Type" not in made.headers
    options = server.client.options("/query")
    assert (options.status_code, options.content) == (200, b"")
    assert "Content-Type" not in options.headers


def test_bodies_that_are_not_utf_8_are_refused(server: LiveServer) -> None:
    utf16 = "ASK {}".encode("utf-16")
    told = {"Content-Type": "application/sparql-query; charset=UTF-16"}
    problem_of(server.client.post("/query", content=utf16, headers=told), 415)
    untold = {"Content-Type": "application/sparql-query"}
    problem_of(server.client.post("/query", content=utf16, headers=untold), 400)
    form = {"Content-Type": FORM}
    problem_of(server.client.post("/query", content=b"query=%FF%FE", headers=form), 400)


def test_a_get_without_a_query_is_the_service_description(server: LiveServer) -> None:
    answer = server.client.get("/query", headers={"Accept": "application/n-triples"})
    assert answer.headers["Content-Type"] == "application/n-triples"
    assert f"<{server.url}query>" in answer.text
    assert "sparql-service-description#Service>" in answer.text


def test_head_answers_what_get_would_without_the_body(server: LiveServer) -> None:
    got = server.client.get("/query", params={"query": "ASK {}"})
    head = server.client.head("/query", params={"query": "ASK {}"})
    assert head.status_code == 200
    assert head.content == b""
    assert head.headers["Content-Length"] == got.headers["Content-Length"]


def test_options_lists_the_methods(server: LiveServer) -> None:
    answer = server.client.options("/query")
    assert {"GET", "POST", "QUERY"} <= set(answer.headers["Allow"].replace(" ", "").split(","))


def test_bodies_may_be_packed_and_answers_are_packed_on_request(server: LiveServer) -> None:
    text = "SELECT ?x ?y { VALUES ?x { 1 2 3 4 5 6 7 8 9 } VALUES ?y { 1 2 3 4 5 6 7 8 9 } }"
    headers = {
        "Content-Type": "application/sparql-query",
        "Content-Encoding": "gzip",
        "Accept-Encoding": "gzip",
    }
    with server.client.stream(
        "POST", "/query", content=gzip.compress(text.encode()), headers=headers
    ) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        raw = b"".join(answer.iter_raw())
    assert len(json.loads(gzip.decompress(raw))["results"]["bindings"]) == 81
    cut = gzip.compress(text.encode())[:-9]
    problem_of(server.client.post("/query", content=cut, headers=headers), 400)


def test_large_answers_are_streamed_whole(server: LiveServer) -> None:
    values = " ".join(map(str, range(400)))
    text = f"SELECT ?x ?y {{ VALUES ?x {{ {values} }} VALUES ?y {{ {values} }} }}"
    with server.client.stream(
        "GET", "/query", params={"query": text}, headers={"Accept": "text/csv"}
    ) as answer:
        assert answer.headers["Transfer-Encoding"] == "chunked"
        rows = b"".join(answer.iter_bytes()).split(b"\r\n")
    assert len(rows) == 160_000 + 2


LONG = (
    "SELECT * { " + " ".join(f"VALUES ?v{i} {{ {' '.join(map(str, range(60)))} }}" for i in range(6)) + " }"
)


def test_a_time_out_after_the_first_byte_breaks_the_answer(server: LiveServer) -> None:
    with pytest.raises(httpx.RemoteProtocolError):
        with server.client.stream("GET", "/query", params={"query": LONG, "timeout": "0.3"}) as answer:
            assert answer.status_code == 200
            for _ in answer.iter_bytes():
                pass


def test_rows_and_bytes_of_an_answer_are_limited(start_server: Start) -> None:
    server = start_server(max_result_rows=10, max_result_bytes=10_000)
    ten = f"SELECT ?x {{ VALUES ?x {{ {' '.join(map(str, range(10)))} }} }}"
    for accept in ("application/sparql-results+json", "application/sparql-results+xml", "text/csv"):
        assert server.query(ten.replace("0 ", "", 1), accept).status_code == 200
    many = f"SELECT ?x {{ VALUES ?x {{ {' '.join(map(str, range(50)))} }} }}"
    for accept in ("application/sparql-results+json", "application/sparql-results+xml", "text/csv"):
        assert problem_of(server.query(many, accept), 413)["code"] == "result-too-large"
    long = "SELECT (CONCAT(" + ", ".join(["'" + "x" * 2000 + "'"] * 8) + ") AS ?x) {}"
    assert "10000 bytes" in problem_of(server.query(long), 413)["detail"]


def test_texts_and_bodies_are_limited(start_server: Start) -> None:
    server = start_server(max_query_bytes=1000, max_body_bytes=2000, max_nesting=50)
    problem_of(server.query("ASK {} #" + "x" * 1000), 413)
    problem_of(server.client.get("/query", params={"query": "ASK {} #" + "x" * 1000}), 413)
    problem_of(server.update("INSERT DATA {} #" + "x" * 3000), 413)
    problem_of(server.query("SELECT * " + "{" * 60 + "}" * 60), 400)
    assert server.boolean("ASK {}")


def test_a_deep_text_does_not_end_the_server(server: LiveServer) -> None:
    for depth in (3_000, 100_000):
        answer = server.query("SELECT * " + "{" * depth + "}" * depth)
        assert answer.status_code in (200, 400)
    assert server.boolean("ASK {}")


def test_read_only_refuses_what_writes(start_server: Start) -> None:
    server = start_server(read_only=True)
    problem_of(server.update("INSERT DATA { <urn:a> <urn:b> 1 }"), 403)
    turtle = {"Content-Type": "text/turtle"}
    problem_of(server.client.put("/store?default", content="<urn:a> <urn:b> 1 .", headers=turtle), 403)
    problem_of(server.client.post("/sparql", data={"update": "CLEAR ALL"}), 403)
    problem_of(server.client.delete("/store"), 403)
    problem_of(server.client.put("/queries/q", content="ASK {}", headers={"Content-Type": "text/plain"}), 403)
    problem_of(server.client.post("/streams/s", content="", headers=turtle), 403)
    assert server.query("ASK {}").status_code == 200


@pytest.mark.parametrize("heavy", ["", "# heavy\n{ ?a ?b ?c } { ?d ?e ?f } { ?g ?h ?i } { ?j ?k ?l } "])
def test_an_alias_that_is_in_scope_is_refused_in_the_server_and_in_a_worker(
    server: LiveServer, heavy: str
) -> None:
    answer = server.query(f"SELECT (MAX(?t) AS ?t) {{ {heavy} ?s ?p ?t }}")
    problem = problem_of(answer, 400)
    assert (problem["line"], problem["column"]) == (1, 20)
    assert "already used" in problem["detail"]
    assert problem["hint"] == "Choose another name."
