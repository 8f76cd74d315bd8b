"""A real server killed with SIGKILL while a query, a record, a client or a peer costs it too much."""

from __future__ import annotations

import contextlib
import json
import random
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.app.connectors.processes import Served, served
from tests.hostile_peers import endless, peer

JSON = {"Content-Type": "application/json"}
TURTLE = {"Content-Type": "text/turtle"}
STEPS = " ; ".join(f"STREAM <urn:s> {{ ?{name} <urn:k> 1 }}" for name in "abc")
SLOW = f"SELECT ?a ?b ?c WHERE {{ SEQ {{ {STEPS} }} WITHIN 1h }}"
QUICK = "SELECT ?a WHERE { STREAM <urn:s> [NOW] { ?a <urn:k> ?n } }"
UNBOUNDED = {"max_rows": 10**12, "max_time": "1h", "max_cpu_per_minute": "1h", "max_rows_per_minute": 10**12}
PRODUCT = " ".join(f"VALUES ?v{n} {{ {' '.join(map(str, range(40)))} }}" for n in range(8))
ROUNDS = 2

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(900)]


def register(server: Served, name: str, text: str, **members: object) -> None:
    answer = server.client.put(f"/queries/{name}", json={"query": text, **members})
    assert answer.status_code in (200, 201), answer.text


def push(server: Served, number: int) -> None:
    """Push one element with an event time and a key."""
    headers = {**TURTLE, "Idempotency-Key": f"k{number}"}
    body = f"<urn:a{number}> <urn:k> 1 ."
    answer = server.client.post(f"/streams?iri=urn:s&at={1000 + number}", content=body, headers=headers)
    assert answer.status_code == 200, answer.text


def described(server: Served, name: str) -> dict[str, Any]:
    answer = server.client.get(f"/queries/{name}")
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def emitted(server: Served, pushed: int) -> list[str]:
    """The subjects that the quick query has emitted, once there are as many as elements."""
    found = []
    deadline = time.monotonic() + 60
    with server.client.stream(
        "GET", "/queries/quick/results?from=0", headers={"Accept": "application/x-ndjson"}
    ) as answer:
        assert answer.status_code == 200
        for line in answer.iter_lines():
            if line.strip():
                event = json.loads(line)
                if event["event"] == "insert":
                    rows = event["data"]["results"]["bindings"]
                    found += [row["a"]["value"] for row in rows]
            if len(found) >= pushed or time.monotonic() > deadline:
                return found
    return found


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_query_over_its_budget_fails_once_over_kills(tmp_path: Path, seed: int) -> None:
    """It is `failed` after each start, with the same error; the feed of the other query has each element."""
    chance = random.Random(seed)
    number, error = 0, None
    for _ in range(ROUNDS + 1):
        with served(tmp_path / "data") as server:
            register(server, "quick", QUICK)
            if number == 0:
                register(server, "slow", SLOW, **{**UNBOUNDED, "max_rows_per_minute": 20_000})
            for _ in range(60):
                push(server, number)
                number += 1
            state = described(server, "slow")
            if error is not None:
                assert (state["state"], state["error"]) == ("failed", error)
            elif state["state"] == "failed":
                error = state["error"]
                assert "max_rows_per_minute" in error
            time.sleep(chance.uniform(0, 0.3))
    with served(tmp_path / "data") as server:
        assert described(server, "slow")["state"] == "failed"
        assert emitted(server, number) == [f"urn:a{each}" for each in range(number)]
        name = server.client.get("/streams", params={"iri": "urn:s"}).json()["name"]
        letters = server.client.get(f"/streams/{name}/dead-letters").json()["letters"]
        assert letters and {each["reason"] for each in letters} == {"budget"}


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_query_dropped_while_it_is_behind_stays_dropped(tmp_path: Path, seed: int) -> None:
    """A kill right after the answer of the DELETE brings neither the query nor its backlog back."""
    with served(tmp_path / "data") as server:
        register(server, "quick", QUICK)
        register(server, "slow", SLOW, **UNBOUNDED)
        for number in range(300):
            push(server, number)
        began = time.monotonic()
        assert server.client.delete("/queries/slow").status_code == 204
        assert time.monotonic() - began < 2
        time.sleep(seed * 0.2)
    began = time.monotonic()
    with served(tmp_path / "data") as server:
        assert time.monotonic() - began < 30
        assert [each["name"] for each in server.client.get("/queries").json()["queries"]] == ["quick"]
        assert emitted(server, 300) == [f"urn:a{each}" for each in range(300)]


def test_record_over_its_budget_leaves_nothing_behind_at_a_kill(tmp_path: Path) -> None:
    """The push is refused, good records are kept, and the letter of the bad one is kept over the kill."""
    mapping = {"format": "json", "construct": f"CONSTRUCT {{ <urn:a> <urn:v> ?a }} WHERE {{ {PRODUCT} }}"}
    good = {"format": "json", "construct": "CONSTRUCT { <urn:a> <urn:v> ?a } WHERE {}"}
    for _ in range(ROUNDS):
        with served(tmp_path / "data") as server:
            for iri, given in (("urn:bad", mapping), ("urn:good", good)):
                server.client.put("/streams", params={"iri": iri}, json={"iri": iri, "mapping": given})
            taken = server.accepted("urn:good")
            refused = server.client.post("/streams?iri=urn:bad", json={"a": 1})
            assert (refused.status_code, refused.json()["code"]) == (400, "limit")
            partial = server.client.post("/streams?iri=urn:bad&partial=true", json={"a": 1})
            assert partial.status_code == 200 and len(partial.json()["bad"]) == 1
            assert server.client.post("/streams?iri=urn:good", json={"a": 1}).status_code == 200
    with served(tmp_path / "data") as server:
        assert (server.accepted("urn:bad"), server.accepted("urn:good")) == (0, taken + 1)
        letters = server.client.get("/streams/bad/dead-letters").json()["letters"]
        assert len(letters) == ROUNDS


def test_receiver_that_answers_without_end_holds_no_sink_over_kills(tmp_path: Path) -> None:
    """Each life delivers what is new, reads little of the answers, and nothing is skipped."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
    number = 0
    with peer(endless(head)) as far:
        for _ in range(ROUNDS + 1):
            with served(tmp_path / "data", remote_hosts="127.0.0.1") as server:
                register(server, "quick", QUICK)
                given = {"query": "quick", "kind": "webhook", "url": far.url, "from": 0}
                assert server.client.put("/sinks/it", json=given).status_code in (200, 201)
                for _ in range(5):
                    push(server, number)
                    number += 1
                deadline = time.monotonic() + 60
                while server.client.get("/sinks/it").json()["position"] != number:
                    assert time.monotonic() < deadline, server.client.get("/sinks/it").text
                    time.sleep(0.05)
        # The buffers of both sockets take some megabytes of each answer.
        assert far.sent < len(far.asked) * (16 << 20)


@pytest.mark.parametrize("kind", ["query", "update"])
def test_work_of_clients_that_left_holds_neither_a_server_nor_its_start(tmp_path: Path, kind: str) -> None:
    """Four clients leave, the workers are free again, and the start after a kill is as quick as any."""
    select = "SELECT (COUNT(*) AS ?n) { ?a <urn:q> ?x . ?b <urn:q> ?y . ?c <urn:q> ?z FILTER(?x+?y+?z < 0) }"
    text = select if kind == "query" else f"INSERT {{ <urn:z> <urn:z> ?n }} WHERE {{ {select} }}"
    for _ in range(ROUNDS):
        with served(tmp_path / "data") as server, contextlib.ExitStack() as stack:
            quads = "".join(f"<urn:s{n}> <urn:q> {n} .\n" for n in range(2_000))
            assert server.client.put("/store?default", content=quads, headers=TURTLE).status_code < 300
            head = f"POST /{kind} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/sparql-{kind}\r\n"
            request = f"{head}Content-Length: {len(text)}\r\n\r\n{text}".encode()
            host, port = server.url.strip("/").removeprefix("http://").split(":")
            clients = [
                stack.enter_context(socket.create_connection((host, int(port)), timeout=20)) for _ in range(4)
            ]
            for client in clients:
                client.sendall(request)
            running(server, lambda found: bool(found))
            for client in clients:
                client.close()
            running(server, lambda found: not found)
            assert server.client.get("/query?query=ASK%7B%7D").status_code == 200


def running(server: Served, wanted: Any) -> None:
    """Wait until the processes of the server are as wanted."""
    deadline = time.monotonic() + 30
    while not wanted(server.client.get("/processes").json()["processes"]):
        assert time.monotonic() < deadline
        time.sleep(0.05)
