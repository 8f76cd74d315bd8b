"""What a query waits for, over HTTP: each reason has its word, its stream, its count and a sentence."""

from __future__ import annotations

import time
from typing import Any

import pytest

from quadrill.app.cli import main
from quadrill.app.describing.waiting import waiting_for
from tests.app.conftest import LiveServer, Start

R, T = "http://localhost/r", "http://localhost/t"
NQUADS = {"Content-Type": "application/n-quads"}
RANGE = f"SELECT ?s ?o WHERE {{ STREAM <{R}> [RANGE 10s] {{ ?s <urn:v> ?o }} }}"
NEVER = RANGE.replace("urn:v", "urn:never")
JOINED = RANGE.replace("} }", "} GRAPH <urn:names> { ?s <urn:name> ?n } }")
SLOWER = RANGE.replace("} }", f"}} STREAM <{T}> [RANGE 10s] {{ ?s <urn:w> ?n }} }}")
GRID = (
    f"REGISTER RSTREAM <w> AS SELECT ?s FROM NAMED WINDOW <w> ON <{R}> [RANGE PT5S STEP PT5S] "
    "WHERE { WINDOW <w> { ?s <urn:v> ?o } }"
)


@pytest.fixture
def server(start_server: Start) -> LiveServer:
    return start_server(idle_timeout="0ms")


def register(server: LiveServer, text: str, name: str = "q", **options: Any) -> list[dict[str, Any]]:
    answer = server.client.put(f"/queries/{name}", json={"query": text, **options})
    assert answer.status_code == 201, answer.text
    return list(answer.json()["waiting_for"])


def push(server: LiveServer, at: int, stream: str = "r") -> dict[str, Any]:
    body = f'<urn:s> <urn:v> "{at}" .\n<urn:s> <urn:w> "{at}" .'
    parameters = {"at": str(at), "wait": "true"}
    answer = server.client.post(f"/streams/{stream}", content=body, headers=NQUADS, params=parameters)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def reasons(server: LiveServer, name: str = "q") -> list[tuple[Any, ...]]:
    found, again = [], None
    while again != found:  # a stream may have become idle between two requests
        found = server.client.get(f"/queries/{name}").json()["waiting_for"]
        listing = server.client.get("/queries").json()["queries"]
        again = server.client.get(f"/queries/{name}").json()["waiting_for"]
    (listed,) = (each for each in listing if each["name"] == name)
    assert [each["reason"] for each in listed["waiting_for"]] == [each["reason"] for each in found]
    assert all(set(each) == {"reason", "stream", "count", "text"} and each["text"] for each in found)
    return [(each["reason"], each["stream"], each["count"]) for each in found]


def test_no_element_late_and_none(server: LiveServer) -> None:
    (first,) = register(server, RANGE)
    assert (first["reason"], first["stream"], first["count"]) == ("no-element", R, 0)
    assert first["text"] == f"no element of <{R}> has come since registration"
    server.client.post("/streams/r:heartbeat?at=7200000")
    for at in (3_600_000, 0):
        answer = push(server, at)
        assert (answer["accepted"], answer["late"], answer["dropped"]) == (1, 1, 1)
    assert reasons(server) == [("late", R, 2)]
    (late,) = server.client.get("/queries/q").json()["waiting_for"]
    assert late["text"].startswith("2 elements were late and dropped, the newest by 1h")
    assert push(server, 7_200_000)["dropped"] == 0
    assert reasons(server) == []


def test_watermarks_windows_and_filters(server: LiveServer) -> None:
    register(server, GRID, "grid")
    register(server, SLOWER, "slower")
    register(server, NEVER, "never")
    server.client.post("/streams/t:heartbeat?at=500")
    push(server, 1_000)
    assert reasons(server, "grid") == [("watermark", R, 0)]
    assert reasons(server, "slower") == [("no-element", T, 0), ("watermark", T, 1)]
    assert reasons(server, "never") == [("filtered", None, 1)]
    server.client.post("/streams/r:heartbeat?at=60000&wait=true")
    assert reasons(server, "never") == [("window-empty", R, 1), ("filtered", None, 1)]
    assert reasons(server, "grid") == []


def test_static_parts_pauses_and_failures(server: LiveServer) -> None:
    assert [each["reason"] for each in register(server, JOINED)] == ["no-element", "static-empty"]
    push(server, 1_000)
    (empty,) = server.client.get("/queries/q").json()["waiting_for"]
    assert (empty["reason"], empty["count"]) == ("static-empty", 0)
    assert "the static part 0 (?s) has no rows: GRAPH" in empty["text"].replace("?n ?s", "?s")
    paused = server.client.patch("/queries/q", json={"state": "paused"}).json()
    assert [each["reason"] for each in paused["waiting_for"]] == ["paused"]
    register(server, RANGE, "small", memory=1)
    push(server, 2_000)
    push(server, 2_001)
    live = server.client.get("/queries/small/explain?analyze=true").json()["waiting_for"]
    assert [each["reason"] for each in live] == ["failed"]
    assert reasons(server, "small") == [("failed", None, None)]


def test_a_stream_gone_silent(start_server: Start) -> None:
    server = start_server(idle_timeout="50ms")
    register(server, RANGE)
    push(server, 1_000)
    deadline = time.monotonic() + 20
    while not (found := reasons(server)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert found == [("idle", R, None)]
    (idle,) = server.client.get("/queries/q").json()["waiting_for"]
    assert "event time stands at 1970-01-01T00:00:01Z" in idle["text"]
    assert "send a heartbeat" in idle["text"]


def test_idle_from_before_a_restart_is_told_when_the_timeout_has_passed_again(server: LiveServer) -> None:
    register(server, RANGE)
    push(server, 1_000)
    document = server.client.get("/queries/q").json()
    (stream,) = document["streams"]
    stream |= {"idle": True, "idle_timeout_ms": 5_000, "silent_ms": 27}
    assert waiting_for(document) == []
    stream["silent_ms"] = 5_000
    assert [reason.word for reason in waiting_for(document)] == ["idle"]


def test_the_list_of_queries_has_the_reasons_in_one_order(
    server: LiveServer, capsys: pytest.CaptureFixture[str]
) -> None:
    register(server, NEVER.replace("[RANGE 10s]", "[NOW]"))
    push(server, 1_000)
    server.client.post("/streams/r:heartbeat?at=60000&wait=true")
    texts = {each["reason"]: each["text"] for each in server.client.get("/queries/q").json()["waiting_for"]}
    assert list(texts) == ["window-empty", "filtered"]
    assert texts["window-empty"].startswith("the window [NOW] on")
    assert main(["queries", "--server", server.url]) == 0
    assert texts["window-empty"][:60] in capsys.readouterr().out, "the command has the same order"


def test_the_operator_that_lets_nothing_through_is_told_with_its_text(server: LiveServer) -> None:
    register(server, RANGE.replace("?o } }", "?o } FILTER(STRLEN(?o) > 50) }"))
    for at in range(1, 4):
        push(server, at)
    (found,) = server.client.get("/queries/q").json()["waiting_for"]
    assert (found["reason"], found["count"]) == ("filtered", 3)
    assert "none of the 3 rows that reached operator #2 passed it (" in found["text"]
    assert "filter STRLEN(?o) > 50)" in found["text"]
