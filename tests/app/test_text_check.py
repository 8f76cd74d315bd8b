"""`/query:validate` and `/update:validate`: the faults of a text that is being written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.conftest import LiveServer


def faults(server: LiveServer, kind: str, text: str) -> list[dict[str, Any]]:
    headers = {"Content-Type": f"application/sparql-{kind}"}
    answer = server.client.post(f"/{kind}:validate", content=text, headers=headers)
    assert answer.status_code == 200, answer.text
    return list(answer.json()["faults"])


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("query", "SELECT * { ?s ?p ?o }"),
        ("query", "DESCRIBE <urn:a>"),
        ("query", "ASK { SERVICE <http://elsewhere.example/> { ?s ?p ?o } }"),
        ("update", "INSERT DATA { <urn:a> <urn:b> 1 }"),
        ("update", "DELETE { ?s ?p ?o } WHERE { ?s ?p ?o } ; DROP ALL"),
        ("update", ""),
    ],
)
def test_a_right_text_has_none_and_is_not_evaluated(server: LiveServer, kind: str, text: str) -> None:
    before = server.services.store.reader.version
    assert faults(server, kind, text) == []
    assert server.services.store.reader.version == before


@pytest.mark.parametrize(
    ("kind", "text", "places"),
    [
        ("query", "SELECT * {\n ?s ?p }", [(2, 8)]),
        ("query", "SELECT ?x { ?s ex:p ?x }\nORDER BY", [(1, 16), (2, 9)]),
        ("query", "SELECT (1 AS ?x) ?x { ?x ?p ?o }", [(1, 14)]),
        ("update", "INSERT DATA { <urn:a> <urn:b> }", [(1, 31)]),
        ("update", "CLEAR ALL ;\nINSERT { ?s ?p } WHERE { ?s ?p ?o }", [(2, 16)]),
        ("update", "INSERT { ?s ?p ?o }", [(1, 20)]),
    ],
)
def test_each_fault_has_its_place(
    server: LiveServer, kind: str, text: str, places: list[tuple[int, int]]
) -> None:
    found = faults(server, kind, text)
    assert [(fault["line"], fault["column"]) for fault in found] == places
    assert all(fault["message"] for fault in found)


def test_hosts_that_are_not_allowed_are_told(server: LiveServer) -> None:
    [fault] = faults(server, "update", "LOAD <http://elsewhere.example/data.ttl>")
    assert "elsewhere.example" in fault["message"]
