"""`?wait=true` answers in bounded time, and the answer says whether the results were out."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quadrill.continuous.lifecycle import waiting

from .conftest import LiveServer, Start

PUSH = '<urn:a> <urn:k> "1" .'
N_TRIPLES = {"Content-Type": "application/n-triples"}
TEXT = "SELECT ?s WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k> ?o } }"


@pytest.fixture
def server(start_server: Start, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    monkeypatch.setattr(waiting, "WAIT_S", 0.3)
    live = start_server(data=str(tmp_path / "data"))
    assert live.client.put("/queries/q", json={"query": TEXT}).status_code == 201
    return live


@contextmanager
def busy(live: LiveServer) -> Iterator[None]:
    """An engine that processes nothing."""
    held, go = threading.Event(), threading.Event()

    def hold() -> None:
        with live.services.engine.parts.sequencer.paused:
            held.set()
            go.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(5)
    try:
        yield
    finally:
        go.set()
        thread.join()


def push(live: LiveServer, at: int, **parameters: str) -> Any:
    key = {"Idempotency-Key": parameters.pop("key")} if "key" in parameters else {}
    given = {"iri": "urn:s", "at": str(at), "wait": "true", **parameters}
    return live.client.post("/streams", params=given, content=PUSH, headers=N_TRIPLES | key)


@pytest.mark.parametrize("further", [{}, {"partial": "true"}, {"key": "k"}, {"durable": "false"}])
def test_push_answers_false_while_the_engine_is_busy(server: LiveServer, further: dict[str, str]) -> None:
    with busy(server):
        answer = push(server, 1_000, **further)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["waited"], answer.json()["accepted"]) == (False, 1)
    answer = push(server, 2_000)
    assert (answer.json()["waited"], answer.json()["first_seq"]) == (True, 2)


def test_repeated_push_waits_for_the_first_one(server: LiveServer) -> None:
    with busy(server):
        assert push(server, 1_000, key="k").json()["waited"] is False
        assert push(server, 1_000, key="k").json()["waited"] is False
    assert push(server, 1_000, key="k").json() | {"waited": True} == push(server, 1_000, key="k").json()


def test_push_without_wait_does_not_say_waited(server: LiveServer) -> None:
    assert "waited" not in push(server, 1_000, wait="false").json()


@pytest.mark.parametrize("path", ["/streams:heartbeat?iri=urn:s&", "/streams/{name}:heartbeat?"])
@pytest.mark.parametrize("accept", ["application/json", "*/*"])
def test_heartbeat_answers_false_while_the_engine_is_busy(server: LiveServer, path: str, accept: str) -> None:
    name = push(server, 1_000).json() and server.client.get("/streams?iri=urn:s").json()["name"]
    path = path.format(name=name)
    with busy(server):
        answer = server.client.post(f"{path}at=5000&wait=true", headers={"Accept": accept})
        assert (answer.status_code, answer.json()) == (200, {"waited": False})
    answer = server.client.post(f"{path}at=6000&wait=true", headers={"Accept": accept})
    assert (answer.status_code, answer.content) == (204, b"")
    assert server.client.get("/streams?iri=urn:s").json()["watermark"] == 6000


def test_retried_dead_letter_answers_while_the_engine_is_busy(server: LiveServer) -> None:
    push(server, 10_000)
    assert push(server, 9_000).json()["dropped"] == 1
    name = server.client.get("/streams?iri=urn:s").json()["name"]
    (letter,) = server.client.get(f"/streams/{name}/dead-letters").json()["letters"]
    with busy(server):
        answer = server.client.post(f"/streams/{name}/dead-letters:retry", params={"id": letter["id"]})
        assert answer.status_code == 200, answer.text
        assert answer.json()["waited"] is False
    assert push(server, 11_000).json()["waited"] is True
