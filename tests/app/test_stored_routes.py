"""One-shot queries kept under a name."""

from __future__ import annotations

import pytest

from tests.app.conftest import LiveServer, Start, problem_of

TEXT = {"Content-Type": "application/sparql-query"}


def test_a_query_is_stored_run_replaced_and_forgotten(start_server: Start) -> None:
    server = start_server()
    server.update("INSERT DATA { <urn:a> <urn:p> 1 . GRAPH <urn:g> { <urn:a> <urn:p> 2 } }")
    made = server.client.put("/stored-queries/all", content="SELECT ?o { ?s ?p ?o }", headers=TEXT)
    assert made.status_code == 201
    assert made.headers["Location"] == f"{server.url}stored-queries/all"
    run = "/stored-queries/all/results"
    assert server.client.get(run, headers={"Accept": "text/csv"}).text == "o\r\n1\r\n"
    named = server.client.get(run, params={"default-graph-uri": "urn:g", "timeout": 5})
    assert [row["o"]["value"] for row in named.json()["results"]["bindings"]] == ["2"]
    again = server.client.put(
        "/stored-queries/all", json={"query": "ASK { ?s ?p 3 }", "description": "is there a three"}
    )
    assert again.status_code == 200
    assert server.client.get(run).json()["boolean"] is False
    (listed,) = server.client.get("/stored-queries").json()["queries"]
    assert listed == server.client.get("/stored-queries/all").json()
    assert (listed["description"], listed["query"]) == ("is there a three", "ASK { ?s ?p 3 }")
    assert listed["results"] == f"{server.url}stored-queries/all/results"
    assert server.client.delete("/stored-queries/all").status_code == 204
    for answer in (server.client.get(run), server.client.delete("/stored-queries/all")):
        assert problem_of(answer, 404)["code"] == "unknown-stored-query"


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("SELECT {", 400),
        ("INSERT DATA { <urn:a> <urn:b> 1 }", 400),
        ("SELECT * { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }", 403),
    ],
)
def test_a_text_that_cannot_run_is_not_stored(server: LiveServer, text: str, status: int) -> None:
    problem_of(server.client.put("/stored-queries/bad", content=text, headers=TEXT), status)
    assert server.client.get("/stored-queries/bad").status_code == 404


def test_stored_queries_need_the_role_that_changing_needs(start_server: Start) -> None:
    server = start_server(read_only=True)
    problem_of(server.client.put("/stored-queries/x", content="ASK {}", headers=TEXT), 403)
