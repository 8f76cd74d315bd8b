"""/query knows the aggregates for measurements and the functions of uncertain values."""

from __future__ import annotations

import time

import pytest

from tests.app.conftest import LiveServer, Start

READINGS = """PREFIX : <http://example.org/> INSERT DATA {
  :r1 :reads 1 , 2 , 4 , 9 . :r2 :reads 5 .
  :o :value "U(0.2, 0.3)"^^<http://w3id.org/rsp/rspu#distribution> }"""
WHERE = "WHERE { ?s <http://example.org/reads> ?t } GROUP BY ?s ORDER BY ?s"


def values(server: LiveServer, text: str) -> list[str | None]:
    answer = server.query(text)
    assert answer.status_code == 200, answer.text
    return [row["x"]["value"] if "x" in row else None for row in answer.json()["results"]["bindings"]]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("<urn:quadrill:aggregate:median>(?t)", ["3", "5"]),
        ("<urn:quadrill:aggregate:median>(DISTINCT ?t + 1)", ["4", "6"]),
        ("<urn:quadrill:aggregate:percentile>(?t, 95)", ["8.25", "5"]),
        ("<urn:quadrill:aggregate:percentile>(?t, 12.5)", ["1.375", "5"]),
        ("<urn:quadrill:aggregate:percentile:95>(?t)", ["8.25", "5"]),
        ("<urn:quadrill:aggregate:variance>(?t)", ["12.666666666666666", None]),
        ("<urn:quadrill:aggregate:stddev>(?t)", ["3.559026084010437", None]),
        ("COUNT(?t)", ["4", "1"]),
    ],
)
def test_an_aggregate_is_called_by_its_iri(server: LiveServer, call: str, expected: list[str | None]) -> None:
    assert server.update(READINGS).status_code == 204
    assert values(server, f"SELECT ?s ({call} AS ?x) {WHERE}") == expected
    prefixed = call.replace("<urn:quadrill:aggregate:", "a:").replace(">", "", 1)
    text = f"PREFIX a: <urn:quadrill:aggregate:> SELECT ?s ({prefixed} AS ?x) {WHERE}"
    assert values(server, text) == expected


def test_an_aggregate_may_stand_in_having(server: LiveServer) -> None:
    server.update(READINGS)
    found = values(
        server,
        "SELECT (COUNT(*) AS ?x) WHERE { ?s <http://example.org/reads> ?t } GROUP BY ?s "
        "HAVING (<urn:quadrill:aggregate:median>(?t) > 4)",
    )
    assert found == ["1"]


def test_functions_of_uncertain_values_work(server: LiveServer) -> None:
    server.update(READINGS)
    text = """PREFIX rspu: <http://w3id.org/rsp/rspu#>
        SELECT (rspu:greaterThan(?v, 0.25) AS ?x) { ?o <http://example.org/value> ?v }"""
    assert [float(value or "nan") for value in values(server, text)] == [pytest.approx(0.5)]


def test_a_wrong_call_is_told_with_its_place(server: LiveServer) -> None:
    answer = server.query("SELECT (<urn:quadrill:aggregate:percentile>(?t) AS ?x) { ?s ?p ?t }")
    assert answer.status_code == 400
    assert answer.json()["line"] == 1 and "PERCENTILE takes 2 arguments" in answer.text


def test_a_text_that_was_slow_still_knows_them(start_server: Start) -> None:
    server = start_server()
    server.update(READINGS)
    text = f"SELECT ?s (<urn:quadrill:aggregate:median>(?t) AS ?x) {WHERE}"
    server.services.endpoint.slow_texts.ended(text, 100.0)
    assert values(server, text) == ["3", "5"]


def test_a_stored_query_may_call_them(server: LiveServer) -> None:
    server.update(READINGS)
    text = f"SELECT ?s (<urn:quadrill:aggregate:percentile>(?t, 50) AS ?x) {WHERE}"
    kept = server.client.put("/stored-queries/middle", json={"query": text})
    assert kept.status_code == 201, kept.text
    answer = server.client.get("/stored-queries/middle/results", headers={"Accept": "application/json"})
    assert [row["x"]["value"] for row in answer.json()["results"]["bindings"]] == ["3", "5"]
    server.client.delete("/stored-queries/middle")


def test_an_update_may_call_functions_of_uncertain_values(server: LiveServer) -> None:
    server.update(READINGS)
    answer = server.update("""PREFIX rspu: <http://w3id.org/rsp/rspu#> PREFIX : <http://example.org/>
        INSERT { ?o :likely ?p } WHERE { ?o :value ?v BIND(rspu:greaterThan(?v, 0.25) AS ?p) }""")
    assert answer.status_code == 204, answer.text
    found = values(server, "SELECT ?x { ?o <http://example.org/likely> ?x }")
    assert [float(value or "nan") for value in found] == [pytest.approx(0.5)]


def test_heavy_texts_that_call_them_run_where_they_can_be_stopped(start_server: Start) -> None:
    server = start_server()
    rows = " ".join(f"<http://e/{n}> <http://e/p> {n} ." for n in range(1500))
    server.update(f"INSERT DATA {{ {rows} }}")
    product = "{ ?a ?p ?t . ?b ?q ?u . ?c ?r ?v }"
    text = f"SELECT (<urn:quadrill:aggregate:median>(?t) AS ?x) {product}"
    began = time.monotonic()
    answer = server.query(text, timeout=4)
    assert answer.status_code == 503, answer.text
    assert answer.json()["code"] == "query-timeout"
    assert time.monotonic() - began < 15
    assert server.client.get("/processes").json()["processes"] == []
    small = (
        "SELECT (<urn:quadrill:aggregate:median>(?t) AS ?x) { ?a <http://e/p> ?t { SELECT * { ?a ?p ?t } } }"
    )
    assert values(server, small) == ["749.5"]
