"""A connection that stays open ends soon after its token is removed; those of other tokens go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import httpx
import pytest

from quadrill.app import wiring
from quadrill.app.feeds import fanout
from quadrill.app.ingest import live_push
from quadrill.app.security import COOKIE, hash_token, new_token
from quadrill.store.registry import TokenRecord

from .conftest import LiveServer, Start
from .ingest.talking import Body, WebSocket, line

ADMIN = "an admin token of some length"
TEXT = "SELECT ?s WHERE { STREAM <urn:s> [RANGE 10s] { ?s <urn:k> ?o } }"
FEEDS = [
    ("/queries/q/results", "text/event-stream"),
    ("/queries/q/results", "application/x-ndjson"),
    ("/changes", "text/event-stream"),
    ("/streams/s/dead-letters", "text/event-stream"),
    ("/jobs", "text/event-stream"),
]
HOLDS_S = 1.5
"""Longer than two checks of the test."""


@pytest.fixture
def server(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> LiveServer:
    monkeypatch.setattr(fanout, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(live_push, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(wiring, "REFRESH_SECONDS", 0.1)
    live = start_server(token=ADMIN, sse_heartbeat=0.3)
    live.client.headers["Authorization"] = f"Bearer {ADMIN}"
    assert live.client.put("/streams/s", json={"iri": "urn:s"}).status_code == 201
    assert live.client.put("/queries/q", json={"query": TEXT}).status_code == 201
    return live


def add(live: LiveServer, role: str) -> str:
    token = new_token()
    live.services.registry.tokens.add(TokenRecord(hash_token(token), role, role, 0))
    return token


def remove(live: LiveServer, token: str) -> None:
    live.services.registry.tokens.remove(hash_token(token))


@contextmanager
def feed(live: LiveServer, path: str, accept: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
    with httpx.stream("GET", live.url + path, headers={"Accept": accept, **headers}, timeout=8) as answer:
        assert answer.status_code == 200
        yield answer


def ends(read: Callable[[], object]) -> float:
    """Read to the end; the seconds that it took."""
    began = time.monotonic()
    read()
    return time.monotonic() - began


@pytest.mark.parametrize(("path", "accept"), FEEDS)
def test_feed_of_a_removed_token_ends(server: LiveServer, path: str, accept: str) -> None:
    token = add(server, "read")
    headers = {"Authorization": f"Bearer {token}"}
    with feed(server, path, accept, headers) as answer:
        time.sleep(0.5)
        remove(server, token)
        assert ends(answer.read) < 6
    assert httpx.get(server.url + path, headers={"Accept": accept, **headers}).status_code == 401


def test_feed_of_another_token_goes_on(server: LiveServer) -> None:
    kept, removed = add(server, "read"), add(server, "read")
    with feed(server, *FEEDS[1], {"Authorization": f"Bearer {kept}"}) as answer:
        remove(server, removed)
        time.sleep(HOLDS_S)
        body = '<urn:a> <urn:k> "1" .'
        pushed = {"params": {"at": "1000"}, "headers": {"Content-Type": "application/n-triples"}}
        server.client.post("/streams/s", content=body, **pushed)
        assert '"urn:a"' in next(filter(None, answer.iter_lines()))  # heartbeats are empty lines


def test_feed_of_a_session_ends_with_its_token_and_with_the_session(server: LiveServer) -> None:
    for end in ("token", "logout"):
        token = add(server, "read")
        answer = httpx.post(server.url + "/login", json={"token": token})
        cookie = {"Cookie": f"{COOKIE}={answer.cookies[COOKIE]}"}
        with feed(server, *FEEDS[0], cookie) as stream:
            if end == "token":
                remove(server, token)
            else:
                assert httpx.post(server.url + "/logout", headers=cookie).status_code < 400
            assert ends(stream.read) < 6


def test_websocket_feed_of_a_removed_token_closes_with_1008(server: LiveServer) -> None:
    token = add(server, "read")
    headers = [(b"Authorization", f"Bearer {token}".encode())]
    with closing(WebSocket(server.url, "/queries/q/results", headers)) as client:
        remove(server, token)
        assert client.closed() == 1008


def test_websocket_of_pushes_closes_with_1008(server: LiveServer) -> None:
    token = add(server, "push")
    headers = [(b"Authorization", f"Bearer {token}".encode())]
    with closing(WebSocket(server.url, "/streams/s", headers)) as client:
        client.send(line(1_000).decode())
        assert client.text()["acknowledged"] == 1
        remove(server, token)
        assert client.text()["code"] == "unauthorised"
        assert client.closed() == 1008


def test_lines_of_a_removed_token_end_with_what_was_accepted(server: LiveServer) -> None:
    token = add(server, "push")
    with closing(Body(server.url, "/streams/s", Authorization=f"Bearer {token}")) as body:
        body.send(line(1_000))
        time.sleep(0.5)
        remove(server, token)
        status, document = body.answer()
    assert (status, document["code"], document["accepted"]) == (401, "unauthorised", 1)


def test_server_without_tokens_keeps_its_feeds_until_it_has_one(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout, "CHECK_SECONDS", 0.2)
    monkeypatch.setattr(wiring, "REFRESH_SECONDS", 0.1)
    live = start_server()
    live.client.put("/streams/s", json={"iri": "urn:s"})
    live.client.put("/queries/q", json={"query": TEXT})
    with feed(live, *FEEDS[1], {}) as answer:
        time.sleep(HOLDS_S)
        assert live.services.fanout.clients == 1
        add(live, "admin")
        assert ends(answer.read) < 6
