"""Streams that only a query declared: empty without an element, and gone with the query."""

from __future__ import annotations

from pathlib import Path

import httpx

from tests.app.conftest import LiveServer, Start

NQUADS = {"Content-Type": "application/n-quads"}


def text(*streams: str) -> str:
    blocks = " ".join(f"STREAM <http://localhost/{each}> [NOW] {{ ?s <urn:{each}> ?o }}" for each in streams)
    return f"SELECT ?s WHERE {{ {blocks} }}"


def register(server: LiveServer, name: str, query: str, *, replace: bool = False) -> None:
    parameters = {"replace": "true"} if replace else {}
    answer = server.client.put(f"/queries/{name}", json={"query": query}, params=parameters)
    assert answer.status_code == 201, answer.text


def states(server: LiveServer) -> dict[str, str]:
    return {each["name"]: each["state"] for each in server.client.get("/streams").json()["streams"]}


def push(server: LiveServer, stream: str) -> httpx.Response:
    body = b"<urn:a> <urn:b> <urn:c> ."
    return server.client.post(f"/streams/{stream}?wait=true", content=body, headers=NQUADS)


def test_a_stream_is_empty_then_active_then_idle(start_server: Start) -> None:
    server = start_server(idle_timeout="100ms")
    register(server, "q", text("r"))
    assert states(server) == {"r": "empty"}
    server.client.put("/streams/declared", json={})
    assert states(server)["declared"] == "empty"
    push(server, "r")
    assert states(server)["r"] in ("active", "idle")
    server.client.put("/streams/r", json={"idle_timeout": "1h"})
    push(server, "r")
    assert states(server)["r"] == "active"


def test_a_dropped_query_takes_the_streams_that_only_it_declared(start_server: Start, tmp_path: Path) -> None:
    settings = {"data": str(tmp_path / "data")}
    server = start_server(**settings)
    server.client.put("/streams/declared", json={})
    push(server, "pushed")
    register(server, "q", text("mistyped", "declared", "pushed", "shared", "beaten"))
    register(server, "other", text("shared"))
    server.client.post("/streams/beaten:heartbeat?at=1000")
    construct = text("mistyped").replace("SELECT ?s", "CONSTRUCT { ?s <urn:p> ?o }")
    register(server, "made", construct)
    assert set(states(server)) == {"mistyped", "declared", "pushed", "shared", "beaten", "made"}
    assert server.client.delete("/queries/q").status_code == 204
    assert set(states(server)) == {"mistyped", "declared", "pushed", "shared", "beaten", "made"}, (
        "made reads it"
    )
    assert server.client.delete("/queries/made").status_code == 204
    assert set(states(server)) == {"declared", "pushed", "shared", "beaten"}
    server.services.close()
    again = start_server(**settings)
    assert set(states(again)) == {"declared", "pushed", "shared", "beaten"}
    assert again.client.delete("/queries/other").status_code == 204
    assert set(states(again)) == {"declared", "pushed", "beaten"}


def test_a_replaced_query_takes_the_streams_that_its_new_text_does_not_read(start_server: Start) -> None:
    server = start_server()
    register(server, "q", text("mistypd", "kept"))
    register(server, "q", text("typed", "kept"), replace=True)
    assert states(server) == {"typed": "empty", "kept": "empty"}
    push(server, "typed")
    register(server, "q", text("kept"), replace=True)
    assert set(states(server)) == {"typed", "kept"}


def test_a_paused_query_keeps_its_streams_and_a_failed_one_gives_them_up(start_server: Start) -> None:
    server = start_server()
    register(server, "q", text("r"))
    assert server.client.patch("/queries/q", json={"state": "paused"}).status_code == 200
    assert states(server) == {"r": "empty"}
    assert server.client.delete("/queries/q").status_code == 204
    assert states(server) == {}
