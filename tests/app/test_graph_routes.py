"""The Graph Store HTTP Protocol."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from pyoxigraph import NamedNode

from tests.app.conftest import LiveServer, Start, problem_of

TURTLE = {"Content-Type": "text/turtle"}
NQUADS = {"Content-Type": "application/n-quads"}
ONE = "<urn:s> <urn:p> 1 ."
TWO = "<urn:s> <urn:p> 2 ."


def test_a_graph_is_created_replaced_added_to_and_dropped(server: LiveServer) -> None:
    client, graph = server.client, {"graph": "http://example.org/g"}
    problem_of(client.get("/store", params=graph), 404)
    created = client.put("/store", params=graph, content=ONE, headers=TURTLE)
    assert created.status_code == 201
    assert client.put("/store", params=graph, content=TWO, headers=TURTLE).status_code == 204
    assert server.boolean(
        "ASK { GRAPH <http://example.org/g> { <urn:s> <urn:p> 2 FILTER NOT EXISTS { ?s ?p 1 } } }"
    )
    assert client.post("/store", params=graph, content=ONE, headers=TURTLE).status_code == 204
    got = client.get("/store", params=graph, headers={"Accept": "application/n-triples"})
    assert len(got.text.splitlines()) == 2
    assert client.head("/store", params=graph).status_code == 200
    assert client.delete("/store", params=graph).status_code == 204
    assert problem_of(client.delete("/store", params=graph), 404)["code"] == "no-such-graph"
    assert client.head("/store", params=graph).status_code == 404


def test_the_default_graph_always_exists(server: LiveServer) -> None:
    assert server.client.get("/store?default").status_code == 200
    assert server.client.put("/store?default", content=ONE, headers=TURTLE).status_code == 204
    assert server.boolean("ASK { <urn:s> <urn:p> 1 }")
    assert server.client.delete("/store?default").status_code == 204
    assert not server.boolean("ASK { ?s ?p ?o }")


def test_a_graph_can_be_named_by_its_address(server: LiveServer) -> None:
    address = f"{server.url}store/people/%41%2Fb.ttl"
    assert server.client.put(address, content="<> <urn:p> 1 .", headers=TURTLE).status_code == 201
    assert server.boolean(f"ASK {{ GRAPH <{address}> {{ <{address}> <urn:p> 1 }} }}")
    assert server.client.get(address).status_code == 200
    assert server.client.get(f"{server.url}store/people/A%2Fb.ttl").status_code == 404
    assert server.client.delete(address).status_code == 204


def test_a_graph_parameter_is_decoded_exactly_once(server: LiveServer) -> None:
    once, twice = "/store?graph=http://example.org/%2531", "http://example.org/%31"
    assert server.client.put(once, content=ONE, headers=TURTLE).status_code == 201
    assert server.boolean(f"ASK {{ GRAPH <{twice}> {{ ?s ?p ?o }} }}")


def test_a_post_to_the_bare_address_makes_a_graph_and_tells_where(server: LiveServer) -> None:
    answer = server.client.post("/store", content=ONE, headers=TURTLE)
    assert answer.status_code == 201
    location = answer.headers["Location"]
    assert urlsplit(location).path.startswith("/store/")
    assert server.client.get(location).status_code == 200
    assert server.boolean(f"ASK {{ GRAPH <{location}> {{ <urn:s> <urn:p> 1 }} }}")


def test_a_form_of_files_is_one_graph(server: LiveServer) -> None:
    files = [
        ("a", ("a.ttl", ONE, "text/turtle")),
        ("b", ("b.nt", '<urn:s> <urn:p> "two" .', "application/octet-stream")),
    ]
    answer = server.client.post("/store", params={"graph": "urn:g"}, files=files)
    assert answer.status_code == 201
    assert server.boolean('ASK { GRAPH <urn:g> { <urn:s> <urn:p> 1, "two" } }')


def test_the_whole_dataset_is_read_replaced_and_emptied(server: LiveServer) -> None:
    text = '<urn:s> <urn:p> "a" .\n<urn:s> <urn:p> "b" <urn:g> .\n'
    assert server.client.put("/store", content=text, headers=NQUADS).status_code == 204
    assert (
        server.client.post("/store", content='<urn:s> <urn:p> "c" <urn:h> .', headers=NQUADS).status_code
        == 204
    )
    got = server.client.get("/store")
    assert got.headers["Content-Type"] == "application/n-quads"
    assert sorted(got.text.splitlines()) == [
        '<urn:s> <urn:p> "a" .', '<urn:s> <urn:p> "b" <urn:g> .', '<urn:s> <urn:p> "c" <urn:h> .',
    ]  # fmt: skip
    problem_of(server.client.get("/store", headers={"Accept": "text/turtle"}), 406)
    assert server.client.delete("/store").status_code == 204
    assert server.client.get("/store").text == ""


def test_malformed_rdf_is_told_with_its_place_and_nothing_is_stored(server: LiveServer) -> None:
    before = server.services.store.reader.version
    problem = problem_of(
        server.client.post("/store?default", content=f"{ONE}\n<urn:s> <urn:p", headers=TURTLE), 400
    )
    assert problem["line"] == 2
    assert server.services.store.reader.version == before


@pytest.mark.parametrize(
    ("path", "headers", "body", "status"),
    [
        ("/store?default", {}, ONE, 415),
        ("/store?default", {"Content-Type": "text/nothing"}, ONE, 415),
        ("/store?default", {"Content-Type": "text/turtle; charset=utf-16"}, ONE, 415),
        ("/store?graph=relative", TURTLE, ONE, 400),
        ("/store?graph=urn:a&graph=urn:b", TURTLE, ONE, 400),
        ("/store?graph=urn:a&default", TURTLE, ONE, 400),
        ("/store?graphs=urn:a", TURTLE, ONE, 400),
        ("/store?graph=urn:a", NQUADS, '<urn:s> <urn:p> "x" <urn:other> .', 400),
        ("/store?default", {"Content-Type": "application/ld+json"}, "[" * 5000, 400),
        ("/store?default", {"Content-Type": "application/rdf+xml"}, "<!DOCTYPE x [<!ENTITY a 'aa'>", 400),
    ],
)
def test_wrong_requests_are_problems(
    server: LiveServer, path: str, headers: dict[str, str], body: str, status: int
) -> None:
    problem_of(server.client.put(path, content=body, headers=headers), status)


def test_a_write_can_be_bound_to_a_version(server: LiveServer) -> None:
    version = server.client.put("/store?default", content=ONE, headers=TURTLE).headers["ETag"]
    assert server.client.get("/store?default").headers["ETag"] == version
    again = server.client.put("/store?default", content=TWO, headers={**TURTLE, "If-Match": version})
    assert again.status_code == 204
    late = server.client.put("/store?default", content=ONE, headers={**TURTLE, "If-Match": version})
    assert problem_of(late, 412)["code"] == "precondition-failed"
    assert server.boolean("ASK { <urn:s> <urn:p> 2 }")
    current = {"If-None-Match": again.headers["ETag"]}
    assert server.client.get("/store?default", headers=current).status_code == 304
    only_new = {**TURTLE, "If-None-Match": "*"}
    assert server.client.put("/store?graph=urn:n", content=ONE, headers=only_new).status_code == 201
    problem_of(server.client.put("/store?graph=urn:n", content=ONE, headers=only_new), 412)


def test_every_answer_carries_the_version(server: LiveServer) -> None:
    server.update("INSERT DATA { <urn:a> <urn:b> 1 }")
    tag = f'"{server.services.store.reader.version}"'
    for path in (
        "/streams",
        "/queries",
        "/store?default",
        "/health/live",
        "/query?query=ASK%7B%7D",
        "/nowhere",
    ):
        assert server.client.get(path).headers["ETag"] == tag


def test_bodies_over_the_limit_are_413_however_they_are_sent(start_server: Start) -> None:
    server = start_server(max_body_bytes=1000)
    large = "# " + "x" * 5000
    problem_of(server.client.put("/store?default", content=large, headers=TURTLE), 413)
    in_pieces = (piece for piece in [large.encode()] * 3)
    problem_of(server.client.put("/store?default", content=in_pieces, headers=TURTLE), 413)
    assert server.client.get("/health/live").status_code == 200


def test_name_of_a_direct_graph_does_not_depend_on_the_case_of_the_host(server: LiveServer) -> None:
    port = server.url.rstrip("/").rpartition(":")[2]
    for host in (f"LocalHost:{port}", f"localhost:{port}"):
        headers = {"Content-Type": "text/turtle", "Host": host}
        server.client.put("/store/here", content=ONE, headers=headers)
    assert server.services.store.reader.graph_names() == [NamedNode(f"http://localhost:{port}/store/here")]
