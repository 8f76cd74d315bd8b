"""A wall clock before 1970 ends neither the server nor its data; requests say what is wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from quadrill.store.documents import wall_clock

from .conftest import LiveServer, Start, problem_of

BEFORE_NS = -(10**18)
STREAM = "SELECT ?s WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k> ?o } }"
STATIC = "SELECT ?s ?x WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k> ?o } ?s <urn:b> ?x }"
RECOMPUTED = "SELECT (COUNT(DISTINCT ?s) AS ?n) WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k>+ ?o } }"


@pytest.fixture
def move(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Sets the clock that the store asks."""

    def to(now_ns: int) -> None:
        monkeypatch.setattr(wall_clock.time, "time_ns", lambda: now_ns)

    return to


def push(live: LiveServer, subject: str) -> None:
    answer = live.client.post(
        "/streams?iri=urn:s&wait=true",
        content=f'<urn:{subject}> <urn:k> "1" .',
        headers={"Content-Type": "application/n-triples"},
    )
    assert answer.status_code == 200, answer.text
    assert answer.json()["waited"] is True


def test_requests_that_evaluate_are_503_until_the_clock_is_set(
    start_server: Start, move: Callable[[int], None]
) -> None:
    live = start_server(workers=0)
    now = time.time_ns()
    move(BEFORE_NS)
    for text in ("SELECT * { ?s ?p ?o }", "ASK {}", "CONSTRUCT WHERE { ?s ?p ?o }", "DESCRIBE <urn:a>"):
        problem = problem_of(live.query(text, accept="*/*"), 503)
        assert problem["code"] == "clock" and "1970" in problem["detail"]
    for text in ("INSERT { <urn:a> <urn:b> ?n } WHERE { BIND(NOW() AS ?n) }", "DELETE WHERE { ?s ?p ?o }"):
        assert live.update(text).status_code in (204, 503)
    assert live.update("INSERT DATA { <urn:a> <urn:b> <urn:c>, [] }").status_code < 300
    assert live.update("DELETE DATA { <urn:a> <urn:b> <urn:c> }").status_code < 300
    move(now)
    assert live.boolean("ASK { <urn:a> <urn:b> ?x FILTER(isBlank(?x)) }")


@pytest.mark.parametrize("text", [STREAM, STATIC, RECOMPUTED])
def test_queries_take_pushes_while_the_clock_is_before_1970(
    start_server: Start, move: Callable[[int], None], text: str
) -> None:
    live = start_server()
    now = time.time_ns()
    assert live.update("INSERT DATA { <urn:x> <urn:b> <urn:c>. <urn:y> <urn:b> <urn:d> }").status_code < 300
    assert live.client.put("/queries/q", json={"query": text}).status_code == 201
    push(live, "x")
    move(BEFORE_NS)
    push(live, "y")
    assert live.client.get("/health/live").status_code == 200
    described = live.client.get("/queries/q").json()
    assert described["state"] == "running" or "1970" in str(described["error"])
    move(now)
    push(live, "x")
