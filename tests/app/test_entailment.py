"""The parameter ``entailment`` of queries: the graph of a rule set in the default graph, or none of them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of

GRAND = "CONSTRUCT { ?x <urn:grand> ?z } WHERE { ?x <urn:parent> ?y . ?y <urn:parent> ?z }"
FACTS = """
INSERT DATA {
    <urn:a> <urn:parent> <urn:b> . <urn:b> <urn:parent> <urn:c> . <urn:a> <urn:grand> <urn:c> , <urn:x> .
    GRAPH <urn:g> { <urn:c> <urn:parent> <urn:d> . <urn:a> <urn:grand> <urn:c> }
}
"""
INTO = "urn:inferred"
ALL = "SELECT ?x ?z { ?x <urn:grand> ?z }"
COUNT = "SELECT (COUNT(*) AS ?n) %s { ?x <urn:grand> ?z }"
GRAPHS = "SELECT DISTINCT ?g %s { GRAPH ?g { ?s ?p ?o } }"


@pytest.fixture(name="family")
def _family(server: LiveServer) -> LiveServer:
    server.update(FACTS)
    assert server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO}).status_code == 201
    return server


def rows(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return sorted(
        " ".join(value["value"] for value in row.values()) for row in answer.json()["results"]["bindings"]
    )


def ask(server: LiveServer, text: str, path: str = "/query", **parameters: Any) -> list[str]:
    return rows(server.client.get(path, params={"query": text, **parameters}))


def test_default_graph_is_a_union_with_the_graph_of_the_set(family: LiveServer) -> None:
    assert ask(family, ALL) == ["urn:a urn:c", "urn:a urn:x"]
    for path in ("/query", "/sparql"):
        found = ask(family, ALL, path, entailment="family")
        assert found == ["urn:a urn:c", "urn:a urn:x", "urn:b urn:d"], "a triple of both graphs counts once"
    assert ask(family, COUNT % "", entailment="family") == ["3"]
    assert ask(family, COUNT % "", entailment="none") == ["2"]
    form = family.client.post("/query", data={"query": COUNT % "", "entailment": "family"})
    assert rows(form) == ["3"]
    direct = family.client.post(
        "/query",
        params={"entailment": "family"},
        content=COUNT % "",
        headers={"Content-Type": "application/sparql-query"},
    )
    assert rows(direct) == ["3"]


def test_graphs_of_the_text_and_of_the_request_are_united_with_the_graph(family: LiveServer) -> None:
    assert ask(family, COUNT % "FROM <urn:g>") == ["1"]
    assert ask(family, COUNT % "FROM <urn:g>", entailment="family") == ["2"]
    assert ask(family, COUNT % f"FROM <urn:g> FROM <{INTO}>", entailment="family") == ["2"]
    assert ask(family, COUNT % "FROM NAMED <urn:g>", entailment="family") == ["2"]
    assert ask(family, GRAPHS % "FROM <urn:g>", entailment="family") == []
    assert ask(family, GRAPHS % "FROM NAMED <urn:g>", entailment="family") == ["urn:g"]
    named = {"default-graph-uri": "urn:g", "entailment": "family"}
    assert ask(family, COUNT % "", **named) == ["2"]
    assert ask(family, COUNT % "FROM <urn:h>", **named) == ["2"]
    assert ask(family, GRAPHS % "", **{"named-graph-uri": "urn:g", "entailment": "family"}) == ["urn:g"]
    assert ask(family, GRAPHS % "", entailment="family") == ["urn:g", INTO]
    merged = {"union-default-graph": "", "entailment": "family"}
    assert ask(family, COUNT % "", **merged) == ["3"]


def test_none_hides_the_graphs_of_all_sets(family: LiveServer) -> None:
    second = {"rules": ["CONSTRUCT { ?x <urn:p> ?y } WHERE { ?x <urn:parent> ?y }"], "into": "urn:second"}
    assert family.client.put("/rules/second", json=second).status_code == 201
    assert ask(family, GRAPHS % "") == ["urn:g", INTO, "urn:second"]
    assert ask(family, GRAPHS % "", entailment="none") == ["urn:g"]
    assert ask(family, f"SELECT * {{ GRAPH <{INTO}> {{ ?s ?p ?o }} }}", entailment="none") == []
    assert ask(family, COUNT % f"FROM <{INTO}>", entailment="none") == ["0"]
    assert ask(family, COUNT % f"FROM <{INTO}> FROM <urn:g>", entailment="none") == ["1"]
    assert ask(family, GRAPHS % f"FROM NAMED <{INTO}> FROM NAMED <urn:g>", entailment="none") == ["urn:g"]
    assert ask(family, COUNT % "", **{"default-graph-uri": INTO, "entailment": "none"}) == ["0"]
    assert ask(family, COUNT % "", **{"union-default-graph": "", "entailment": "none"}) == ["2"]
    assert ask(family, COUNT % "", **{"union-default-graph": ""}) == ["3"]
    family.client.delete("/rules/second")
    family.client.delete("/rules/family")
    assert ask(family, COUNT % "", entailment="none") == ["2"]


def test_look_ups_and_repeated_texts_follow_the_parameter(family: LiveServer) -> None:
    text = "SELECT ?z { <urn:b> <urn:grand> ?z }"
    for _ in range(3):
        assert ask(family, text) == []
        assert ask(family, text, entailment="family") == ["urn:d"]
        assert ask(family, text, entailment="none") == []
    family.update("INSERT DATA { <urn:d> <urn:parent> <urn:e> . <urn:c> <urn:parent> <urn:f> }")
    assert ask(family, text, entailment="family") == ["urn:d", "urn:f"]


def test_paths_and_aggregates_over_the_union(family: LiveServer) -> None:
    assert ask(family, "SELECT ?z { <urn:b> <urn:grand>* ?z }", entailment="family") == ["urn:b", "urn:d"]
    text = "SELECT (GROUP_CONCAT(?z; separator=' ') AS ?r) { <urn:a> <urn:grand> ?z . FILTER(?z = <urn:c>) }"
    assert ask(family, text, entailment="family") == ["urn:c"]
    built = family.client.get(
        "/query",
        params={"query": "CONSTRUCT WHERE { ?x <urn:grand> ?z }", "entailment": "family"},
        headers={"Accept": "application/n-triples"},
    )
    assert len(built.text.splitlines()) == 3


def test_worker_processes_get_the_same_dataset(start_server: Start) -> None:
    server = start_server(workers=1)
    server.update(FACTS)
    server.client.put("/rules/family", json={"rules": [GRAND], "into": INTO})
    server.services.endpoint.slow_texts.texts.update(dict.fromkeys((COUNT % "", GRAPHS % "")))
    assert server.services.endpoint._workers.takes(1)
    assert ask(server, COUNT % "", entailment="family") == ["3"]
    assert ask(server, GRAPHS % "", entailment="none") == ["urn:g"]
    assert ask(server, GRAPHS % "", entailment="family") == ["urn:g", INTO]


def test_stored_queries_take_the_parameter(family: LiveServer) -> None:
    family.client.put(
        "/stored-queries/all", content=COUNT % "", headers={"Content-Type": "application/sparql-query"}
    )
    assert rows(family.client.get("/stored-queries/all/results")) == ["2"]
    assert rows(family.client.get("/stored-queries/all/results?entailment=family")) == ["3"]


def test_unknown_sets_and_wrong_parameters_are_problems(family: LiveServer) -> None:
    unknown = family.client.get("/query", params={"query": ALL, "entailment": "other"})
    assert problem_of(unknown, 404)["code"] == "unknown-rules"
    twice = family.client.get(f"/query?query={ALL}&entailment=family&entailment=none")
    assert problem_of(twice, 400)["code"] == "parameter"
    update = family.client.post(
        "/update",
        params={"entailment": "family"},
        content="INSERT DATA { <urn:a> <urn:b> 1 }",
        headers={"Content-Type": "application/sparql-update"},
    )
    assert problem_of(update, 400)["code"] == "parameter"
    none = family.client.put("/rules/none", json={"rules": [GRAND], "into": "urn:none"})
    assert problem_of(none, 400)["code"] == "name"
    wrong = family.client.get("/query", params={"query": "SELECT FROM <urn:g> {", "entailment": "family"})
    assert problem_of(wrong, 400)["line"] == 1
