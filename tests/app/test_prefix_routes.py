"""Prefixes: kept, looked up, and used where graphs are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from quadrill.store.registry import PrefixRecord
from tests.app.conftest import LiveServer, Start, problem_of


def test_prefixes_are_kept_looked_up_and_forgotten(start_server: Start, tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    server = start_server(data=data)
    assert server.client.get("/prefixes").json() == []
    assert server.client.post("/prefixes", params={"prefix": "ex", "uri": "http://e/"}).status_code == 204
    assert server.client.post("/prefixes", data={"prefix": "", "uri": "http://d/"}).status_code == 204
    assert server.client.get("/prefixes").json() == [
        {"prefix": "", "uri": "http://d/"},
        {"prefix": "ex", "uri": "http://e/"},
    ]
    assert server.client.get("/prefixes?prefix=ex").json() == {"prefix": "ex", "uri": "http://e/"}
    assert server.client.get("/prefixes", params={"uri": "http://d/"}).json()[0]["prefix"] == ""
    assert server.services.registry.prefixes.all() == [
        PrefixRecord("", "http://d/"),
        PrefixRecord("ex", "http://e/"),
    ]
    assert server.client.delete("/prefixes?prefix=ex").status_code == 204
    assert problem_of(server.client.delete("/prefixes?prefix=ex"), 404)["code"] == "unknown-prefix"
    assert problem_of(server.client.get("/prefixes?prefix=ex"), 404)["code"] == "unknown-prefix"


@pytest.mark.parametrize(
    "query", ["CONSTRUCT WHERE { ?s ?p ?o }", "CONSTRUCT { ?s ?p ?o } { VALUES ?m {1} ?s ?p ?o }"]
)
def test_graphs_are_written_with_the_prefixes(start_server: Start, query: str) -> None:
    server = start_server()
    server.update("INSERT DATA { <http://e/a> <http://e/p> 1 }")
    server.client.post("/prefixes", params={"prefix": "ex", "uri": "http://e/"})
    expected = "@prefix ex: <http://e/> .\nex:a ex:p 1 .\n"
    assert server.query(query, "text/turtle").text.startswith(expected)
    assert server.client.get("/store?default", headers={"Accept": "text/turtle"}).text.startswith(expected)
    assert "@prefix" not in server.query(query, "application/n-triples").text
    assert 'xmlns:ex="http://e/"' in server.query(query, "application/rdf+xml").text


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({"prefix": "1x", "uri": "http://e/"}, 400),
        ({"prefix": "x.", "uri": "http://e/"}, 400),
        ({"prefix": "x:", "uri": "http://e/"}, 400),
        ({"prefix": "x", "uri": "e/"}, 400),
        ({"prefix": "x"}, 400),
        ({"prefix": "x", "url": "http://e/"}, 400),
    ],
)
def test_what_is_no_prefix_is_refused(server: LiveServer, parameters: dict[str, str], status: int) -> None:
    problem_of(server.client.post("/prefixes", params=parameters), status)
