"""Registrations that fail and entries that are broken, over HTTP and a restart."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from quadrill.app import running
from quadrill.app.cli import main
from quadrill.app.config import Settings
from quadrill.app.describing import queries as describing
from quadrill.app.describing import streams
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.scheduler.router import Router

from .conftest import LiveServer, Start

UNUSED = """PREFIX : <http://example.org/>
SELECT * FROM NAMED WINDOW :w ON :s [RANGE PT10S STEP PT5S] WHERE { :a :b ?c }"""
PLAIN = "SELECT ?s WHERE { STREAM <urn:t> [RANGE 10s] { ?s ?p ?o } }"


def _registered(live: Any, name: str, text: str, dialect: str = "cqels") -> Any:
    return live.client.put(f"/queries/{name}", json={"query": text, "dialect": dialect})


@contextmanager
def served(folder: Path) -> Iterator[LiveServer]:
    """A server on a folder, which is closed at the end."""
    with running.serve(Settings(data=str(folder), port=0)) as server:
        live = LiveServer(server)
        with live.client:
            yield live


def test_an_unused_window_is_registered_with_its_warning(tmp_path: Path) -> None:
    for code in (201, 200):
        with served(tmp_path / "data") as live:
            answer = _registered(live, "q", UNUSED, "rspql")
            assert answer.status_code == code
            assert "declared but not used" in answer.json()["warnings"][0]
            listed = live.client.get("/queries").json()["queries"]
            assert [(each["name"], each["state"]) for each in listed] == [("q", "running")]


@pytest.mark.parametrize("owner, name", [(RunningQuery, "__init__"), (Router, "_enter")])
def test_a_failed_registration_is_gone_after_a_restart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, owner: Any, name: str
) -> None:
    with served(tmp_path / "data") as live:
        assert _registered(live, "kept", PLAIN).status_code == 201
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, _faulty)
            assert _registered(live, "q", PLAIN.replace("urn:t", "urn:new")).status_code == 500
        assert _names(live) == ["kept"]
        assert live.client.get("/queries/q").status_code == 404
        assert live.client.get("/queries/q/results").status_code == 404
        assert [each["iri"] for each in live.client.get("/streams").json()["streams"]] == ["urn:t"]
    with served(tmp_path / "data") as live:
        assert _names(live) == ["kept"]
        assert [each["iri"] for each in live.client.get("/streams").json()["streams"]] == ["urn:t"]
        assert _registered(live, "q", PLAIN).status_code == 201


def _faulty(*_: Any, **__: Any) -> None:
    raise ValueError("injected")


def _names(live: Any) -> list[str]:
    return [each["name"] for each in live.client.get("/queries").json()["queries"]]


def test_a_broken_entry_is_listed_with_its_error(
    monkeypatch: pytest.MonkeyPatch, start_server: Start
) -> None:
    live = start_server()
    _registered(live, "a", PLAIN)
    _registered(live, "b", PLAIN)
    work = describing.describe_running

    def faulty(query: RunningQuery, *args: Any) -> dict[str, Any]:
        if query.name == "a":
            raise KeyError("injected")
        return work(query, *args)

    monkeypatch.setattr(describing, "describe_running", faulty)
    for path in ("/queries", "/queries?limit=10"):
        answer = live.client.get(path)
        assert answer.status_code == 200
        first, second = answer.json()["queries"]
        assert (first["name"], first["state"]) == ("a", "failed") and "injected" in first["error"]
        assert (second["name"], second["state"]) == ("b", "running")


def test_an_entry_that_never_began_is_described_as_failed(start_server: Start) -> None:
    live = start_server()
    _registered(live, "a", PLAIN)
    entry = live.services.engine.parts.catalogue.get("a")
    query, entry.running = entry.running, None
    try:
        document = live.client.get("/queries/a").json()
        assert (document["state"], document["waiting_for"][0]["reason"]) == ("failed", "failed")
        assert live.client.get("/queries").status_code == 200
        assert live.client.get("/").status_code == 200
    finally:
        entry.running = query


def test_one_broken_stream_does_not_break_the_listing(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    live = start_server()
    for name in ("a", "broken", "c"):
        assert live.client.put(f"/streams/{name}", json={"iri": f"urn:{name}"}).status_code == 201
    document = streams._document

    def faulty(stream: Any, readers: list[str], now_ms: int) -> dict[str, Any]:
        if stream.name == "broken":
            raise KeyError("mapping")
        return document(stream, readers, now_ms)

    monkeypatch.setattr(streams, "_document", faulty)
    listed = live.client.get("/streams").json()["streams"]
    assert [each["name"] for each in listed] == ["a", "broken", "c"]
    assert "KeyError" in listed[1]["error"] and "error" not in listed[0]
    assert main(["streams", "--server", live.url]) == 0
    assert live.client.delete("/streams/broken").status_code == 204


@pytest.mark.parametrize("role", ["sources", "sinks"])
def test_one_broken_connector_does_not_break_the_listing(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    live = start_server(remote_hosts=("127.0.0.1",))
    assert _registered(live, "q", PLAIN).status_code == 201
    for name in ("a", "broken"):
        given = {"kind": "webhook", "stream": "urn:t", "format": "application/n-triples"}
        if role == "sinks":
            given = {"kind": "webhook", "query": "q", "url": "http://127.0.0.1:1/"}
        answer = live.client.put(f"/{role}/{name}", json=given)
        assert answer.status_code == 201, answer.text
    connectors = live.services.connectors
    describe = type(connectors)._describe

    def faulty(self: Any, made: Any) -> dict[str, Any]:
        if made.record.name == "broken":
            raise ValueError("no place")
        return describe(self, made)

    monkeypatch.setattr(type(connectors), "_describe", faulty)
    listed = live.client.get(f"/{role}").json()[role]
    assert [(each["name"], each["state"] == "failed") for each in listed] == [("a", False), ("broken", True)]
    assert "no place" in listed[1]["error"]
    assert main([role, "--server", live.url]) == 0
