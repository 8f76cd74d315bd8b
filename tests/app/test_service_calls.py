"""SERVICE in queries and updates: blank nodes of each answer, failures, redirects, hosts; and parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.hostile_peers import HEAD, endless, peer, slow_body

NAMES = {"/a": "Alice", "/b": "Bob", "/c": "Carol"}
ROWS = "application/sparql-results+json"


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"


class Endpoint:
    """Endpoints that answer with one row about the blank node b0 each, and odd ones."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answers: dict[str, tuple[int, dict[str, str], bytes]] = {
            "/fail": (500, {}, b""),
            "/html": (200, {"Content-Type": "text/html"}, b"<html></html>"),
            "/cut": (200, {"Content-Type": ROWS}, b'{"head": {"vars": ["x"]}, "results": {"bindings": [{'),
            "/ask": (200, {"Content-Type": ROWS}, b'{"head": {}, "boolean": true}'),
            "/moved": (307, {"Location": "/a"}, b""),
            "/other": (303, {"Location": "/a"}, b""),
            "/away": (307, {"Location": "http://example.org/"}, b""),
            "/loop": (302, {"Location": "/loop"}, b""),
            "/tag": (200, {"Content-Type": ROWS}, self._without_tag()),
            "/triple": (200, {"Content-Type": ROWS}, self._triple()),
        }
        self.url = ""

    def answer(self, path: str) -> tuple[int, dict[str, str], bytes]:
        self.asked.append(path)
        if path in self.answers:
            return self.answers[path]
        row = {"x": {"type": "bnode", "value": "b0"}, "y": {"type": "literal", "value": NAMES[path]}}
        again = {"x": {"type": "bnode", "value": "b0"}, "y": {"type": "bnode", "value": "b0"}}
        document = {"head": {"vars": ["x", "y"]}, "results": {"bindings": [row, again]}}
        return 200, {"Content-Type": ROWS}, json.dumps(document).encode()

    def _without_tag(self) -> bytes:
        value = {"type": "literal", "value": "v", "datatype": f"{RDF}langString"}
        return json.dumps({"head": {"vars": ["y"]}, "results": {"bindings": [{"y": value}]}}).encode()

    def _triple(self) -> bytes:
        blank, iri = {"type": "bnode", "value": "b0"}, {"type": "uri", "value": "urn:p"}
        triple = {"type": "triple", "value": {"subject": blank, "predicate": iri, "object": blank}}
        document = {"head": {"vars": ["x", "y"]}, "results": {"bindings": [{"x": blank, "y": triple}]}}
        return json.dumps(document).encode()


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    one = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = one.answer(self.path)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    one.url = f"http://127.0.0.1:{server.server_port}"
    yield one
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def far() -> Iterator[Endpoint]:
    with endpoint() as one:
        yield one


@pytest.fixture
def near(start_server: Start) -> LiveServer:
    return start_server(remote_hosts=("127.0.0.1",))


def call(far: Endpoint, path: str, pattern: str = "?x <urn:n> ?y", silent: str = "") -> str:
    return f"SERVICE {silent} <{far.url}{path}> {{ {pattern} }}"


def rows(near: LiveServer, text: str) -> list[dict[str, Any]]:
    answer = near.query(text)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]["bindings"]
    return found


@pytest.mark.always("SELECT * {{ {a} {b} }}", "SELECT * {{ {a} FILTER*")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * {{ {a} {b} }}",
        "SELECT * {{ {a} {{ SELECT ?x (?y AS ?z) {{ {b} }} }} }}",
        "SELECT * {{ {a} FILTER EXISTS {{ {b} }} }}",
        "SELECT * {{ {a} {{ SELECT ?x (?y AS ?z) {{ {a} }} }} }}",
        "SELECT * {{ {a} ?x <urn:name> ?n }}",
    ],
)
def test_answers_of_two_blocks_share_no_blank_node(near: LiveServer, far: Endpoint, text: str) -> None:
    near.update(f"INSERT {{ ?x <urn:name> ?y }} WHERE {{ {call(far, '/a')} }}")
    assert rows(near, text.format(a=call(far, "/a"), b=call(far, "/b"))) == []


def test_labels_of_one_answer_are_one_node(near: LiveServer, far: Endpoint) -> None:
    found = rows(near, f"SELECT * {{ {call(far, '/a')} }}")
    assert len({each["x"]["value"] for each in found}) == 1
    assert {each["y"]["value"] for each in found} == {"Alice", found[0]["x"]["value"]}
    (row,) = rows(near, f"SELECT * {{ {call(far, '/triple')} }}")
    assert row["y"]["value"]["subject"] == row["y"]["value"]["object"] == row["x"]


def test_stored_nodes_of_three_endpoints_are_three(near: LiveServer, far: Endpoint) -> None:
    for path in NAMES:
        answer = near.update(
            f"INSERT {{ ?x <urn:name> ?y }} WHERE {{ {call(far, path)} FILTER(ISLITERAL(?y)) }}"
        )
        assert answer.status_code == 204, answer.text
    (row,) = rows(near, "SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x <urn:name> ?y }")
    assert row["n"]["value"] == "3"
    several = ";".join(f"INSERT {{ ?x <urn:is> ?y }} WHERE {{ {call(far, path)} }}" for path in NAMES)
    assert near.update(several).status_code == 204
    (row,) = rows(near, "SELECT (COUNT(DISTINCT ?x) AS ?n) { ?x <urn:is> ?y }")
    assert row["n"]["value"] == "3"


def test_a_block_is_fetched_once_for_each_evaluation(near: LiveServer, far: Endpoint) -> None:
    near.update("INSERT DATA { <urn:1> <urn:v> 1 . <urn:2> <urn:v> 2 . <urn:3> <urn:v> 3 }")
    far.asked.clear()
    found = rows(near, f"SELECT * {{ ?s <urn:v> ?v OPTIONAL {{ {call(far, '/a')} FILTER(?v > 1) }} }}")
    assert len(found) == 5 and len({each["x"]["value"] for each in found if "x" in each}) == 1
    assert far.asked == ["/a"]


@pytest.mark.always("{}-*", "OPTIONAL {{ {} }}-/cut", "FILTER NOT EXISTS {{ {} }}-/fail")
@pytest.mark.parametrize("path", ["/fail", "/html", "/cut", "/ask", "/loop", "/tag"])
@pytest.mark.parametrize("where", ["{}", "FILTER NOT EXISTS {{ {} }}", "OPTIONAL {{ {} }}"])
def test_a_failure_is_502(near: LiveServer, far: Endpoint, path: str, where: str) -> None:
    part = where.format(call(far, path))
    for answer in (
        near.query(f"SELECT * {{ {part} }}"),
        near.query(f"ASK {{ {part} }}"),
        near.query(f"CONSTRUCT {{ <urn:a> <urn:b> ?y }} WHERE {{ {part} }}", accept="text/turtle"),
        near.update(f"INSERT {{ <urn:a> <urn:b> ?y }} WHERE {{ {part} }}"),
        near.update(
            f"INSERT DATA {{ <urn:x> <urn:y> 1 }} ; INSERT {{ <urn:a> <urn:b> 1 }} WHERE {{ {part} }}"
        ),
    ):
        problem = problem_of(answer, 502)
        assert problem["code"] == "fetch-failed" and far.url in problem["detail"]
    assert near.services.store.reader.quad_count == 0


def test_an_endpoint_that_is_not_there_is_502(near: LiveServer) -> None:
    assert problem_of(near.query("SELECT * { SERVICE <http://127.0.0.1:1/> { ?s ?p ?o } }"), 502)


def test_an_answer_without_end_is_an_error(near: LiveServer) -> None:
    with peer(endless(HEAD.replace(b"text/turtle", ROWS.encode()))) as hostile:
        answer = near.query(f"SELECT * {{ SERVICE <{hostile.url}> {{ ?s ?p ?o }} }}")
        assert problem_of(answer, 400)["code"] == "limit"


@pytest.mark.parametrize("workers", [0, 1])
def test_a_slow_endpoint_is_504(start_server: Start, workers: int) -> None:
    near = start_server(remote_hosts=("127.0.0.1",), remote_timeout="300ms", workers=workers)
    with peer(slow_body(HEAD.replace(b"text/turtle", ROWS.encode()))) as hostile:
        text = f"SELECT * {{ SERVICE <{hostile.url}> {{ ?s ?p ?o }} }}"
        assert problem_of(near.query(text), 504)["code"] == "fetch-timeout"
        update = f"INSERT {{ ?s ?p ?o }} WHERE {{ SERVICE <{hostile.url}> {{ ?s ?p ?o }} }}"
        assert problem_of(near.update(update), 504)["code"] == "fetch-timeout"
        assert rows(near, text.replace("SERVICE", "SERVICE SILENT")) == [{}]
        assert problem_of(near.update(f"LOAD <{hostile.url}>"), 504)["code"] == "fetch-timeout"
        assert near.update(f"LOAD SILENT <{hostile.url}>").status_code == 204


def test_redirects_follow_the_rules_of_load(near: LiveServer, far: Endpoint) -> None:
    for path in ("/moved", "/other"):
        assert len(rows(near, f"SELECT * {{ {call(far, path)} }}")) == 2
    problem = problem_of(near.query(f"SELECT * {{ {call(far, '/away')} }}"), 403)
    assert problem["code"] == "host-not-allowed" and "example.org" in problem["detail"]
    assert rows(near, f"SELECT * {{ {call(far, '/away', silent='SILENT')} }}") == [{}]


@pytest.mark.parametrize("name", ["<http://example.org/>", "<http://127.0.0.1:1/>", "e:x"])
def test_silent_calls_of_any_host_give_one_empty_solution(near: LiveServer, name: str) -> None:
    prologue = "PREFIX e: <http://example.org/> "
    for text in (
        "SELECT * {{ SERVICE SILENT {} {{ ?s ?p ?o }} }}",
        "SELECT * {{service silent{}{{?s ?p ?o}}}}",
    ):
        assert rows(near, prologue + text.format(name if name[0] == "<" else f" {name}")) == [{}]
    update = f"{prologue} INSERT {{ <urn:a> <urn:b> 1 }} WHERE {{ SERVICE SILENT {name} {{ ?s ?p ?o }} }}"
    assert near.update(update).status_code == 204
    assert near.services.store.reader.quad_count == 1
    if "127" not in name:
        refused = near.query(f"{prologue} SELECT * {{ SERVICE {name} {{ ?s ?p ?o }} }}")
        assert problem_of(refused, 403)["code"] == "host-not-allowed"


def test_a_server_without_allowed_hosts_reaches_none_silently(start_server: Start, far: Endpoint) -> None:
    near, count = start_server(), len(far.asked)
    assert rows(near, f"SELECT * {{ {call(far, '/a', silent='SILENT')} }}") == [{}]
    assert len(far.asked) == count


def test_calls_within_calls_are_left_to_the_endpoint(near: LiveServer, far: Endpoint) -> None:
    inner = call(far, "/fail", "?r ?t ?u")
    assert len(rows(near, f"SELECT * {{ {call(far, '/a', '?x <urn:n> ?y ' + inner)} }}")) == 2
    refused = near.query(
        f"SELECT * {{ {call(far, '/a', 'SERVICE SILENT <http://example.org/> { ?x <urn:n> ?y }')} }}"
    )
    assert problem_of(refused, 403)["code"] == "host-not-allowed"


def test_a_syntax_error_has_its_place_in_the_text_that_was_sent(near: LiveServer, far: Endpoint) -> None:
    problem = problem_of(near.query(f"SELECT * {{ {call(far, '/a')} }}\nFILTER"), 400)
    assert (problem["line"], problem["column"]) == (2, 1)


UNKNOWN = [
    ("defualt-graph-uri", "urn:g"),
    ("reasoning", "true"),
    ("limit", "10"),
    ("Timeout", "1"),
    ("", "x"),
]
IGNORED = [
    ("format", "json"),
    ("output", "json"),
    ("results", "json"),
    ("default-graph-uri", ""),
    ("timeout", "0"),
]


@pytest.mark.parametrize(("name", "value"), UNKNOWN)
def test_an_unknown_parameter_is_400(server: LiveServer, name: str, value: str) -> None:
    client, query, update = server.client, "SELECT * { }", "INSERT DATA { <urn:a> <urn:b> 1 }"
    for path in ("/query", "/sparql"):
        for answer in (
            client.get(path, params={"query": query, name: value}),
            client.get(path, params={name: value}),
            client.post(path, data={"query": query, name: value}),
            client.post(path, params={name: value}, data={"query": query}),
            server.client.post(
                path,
                params={name: value},
                content=query,
                headers={"Content-Type": "application/sparql-query"},
            ),
        ):
            assert problem_of(answer, 400)["code"] == "parameter", answer.request.url
    for path in ("/update", "/sparql"):
        for answer in (
            client.post(path, data={"update": update, name: value}),
            client.post(
                path,
                params={name: value},
                content=update,
                headers={"Content-Type": "application/sparql-update"},
            ),
        ):
            assert problem_of(answer, 400)["code"] == "parameter", answer.request.url
    assert server.services.store.reader.quad_count == 0


@pytest.mark.parametrize(("name", "value"), IGNORED)
def test_parameters_that_clients_always_send_are_ignored(server: LiveServer, name: str, value: str) -> None:
    client, query, update = server.client, "SELECT * { }", "INSERT DATA { <urn:a> <urn:b> 1 }"
    for answer in (
        client.get("/query", params={"query": query, name: value}),
        client.post("/sparql", data={"query": query, name: value}),
        client.post("/update", data={"update": update, name: value}),
        client.post("/sparql", data={"update": update, name: value}),
    ):
        assert answer.status_code in (200, 204), answer.text
