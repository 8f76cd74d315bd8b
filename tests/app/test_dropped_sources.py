"""A dropped query ends its fetches from other servers within two seconds."""

from __future__ import annotations

import socket
import threading
import time

import httpx
import pytest

from tests.app.conftest import LiveServer, Start
from tests.app.test_feed_streams import until
from tests.hostile_peers import HEAD, Answer, Peer, peer, slow_body

GRAPH = b"<urn:a> <urn:label> 1 .\n"
ROWS = b'{"head":{"vars":["x","l"]},"results":{"bindings":[]}}'
ROWS_HEAD = HEAD.replace(b"text/turtle", b"application/sparql-results+json")
TEXTS = {
    "from": "SELECT ?l FROM <{url}> {{ ?x <urn:label> ?l }}",
    "named": "SELECT ?l FROM NAMED <{url}> {{ GRAPH ?g {{ ?x <urn:label> ?l }} }}",
    "service": "SELECT ?l {{ SERVICE <{url}> {{ ?x <urn:label> ?l }} }}",
    "stream": "SELECT ?l FROM <{url}> {{ STREAM <urn:s> [RANGE 1h] {{ ?x <urn:p> 1 }} ?x <urn:label> ?l }}",
}


def once_and_then(head: bytes, body: bytes, further: Answer) -> Answer:
    """A whole answer to the first request, another behaviour to all further ones."""

    def answer(one: Peer, connection: socket.socket) -> None:
        if len(one.asked) > 1:
            further(one, connection)
        else:
            one.send(connection, head + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    return answer


def hanging(one: Peer, connection: socket.socket) -> None:
    """Nothing, until the client closes the connection."""
    while connection.recv(1 << 16):
        pass
    one.left += 1


def register(server: LiveServer, name: str, text: str, far: Peer, **members: object) -> httpx.Response:
    document = {"query": text.format(url=far.url), **members}
    return server.client.put(f"/queries/{name}", json=document)


@pytest.fixture
def near(start_server: Start) -> LiveServer:
    return start_server(remote_hosts=("127.0.0.1",), remote_timeout="25s", workers=0)


@pytest.mark.parametrize("slow", [False, True], ids=["silent", "slow"])
@pytest.mark.parametrize("form", TEXTS)
def test_a_dropped_query_ends_its_timed_fetch(near: LiveServer, form: str, slow: bool) -> None:
    head, body = (ROWS_HEAD, ROWS) if form == "service" else (HEAD, GRAPH)
    with peer(once_and_then(head, body, slow_body(head) if slow else hanging)) as far:
        answer = register(near, "q", TEXTS[form], far, refresh={"every": "1s"})
        assert answer.status_code == 201, answer.text
        until(lambda: len(far.asked) > 1)
        began, left = time.monotonic(), far.left
        assert near.client.delete("/queries/q").status_code == 204
        until(lambda: far.left > left)
        assert time.monotonic() - began < 5


def test_a_dropped_query_ends_the_refresh_that_a_client_asked_for(near: LiveServer) -> None:
    with peer(once_and_then(HEAD, GRAPH, hanging)) as far:
        register(near, "q", TEXTS["from"], far)
        found: list[httpx.Response] = []

        def refresh() -> None:
            found.append(httpx.post(f"{near.url}queries/q/refresh", timeout=30, trust_env=False))

        asking = threading.Thread(target=refresh)
        asking.start()
        until(lambda: len(far.asked) > 1)
        began = time.monotonic()
        assert near.client.delete("/queries/q").status_code == 204
        asking.join(20)
        assert time.monotonic() - began < 5
        assert found[0].status_code == 404, found[0].text


def test_a_fetch_goes_on_while_another_query_reads_the_source(near: LiveServer) -> None:
    held = threading.Event()

    def later(one: Peer, connection: socket.socket) -> None:
        held.wait(30)
        body = b"<urn:a> <urn:label> 2 .\n"
        one.send(connection, HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    with peer(once_and_then(HEAD, GRAPH, later)) as far:
        for name in ("q", "other"):
            assert register(near, name, TEXTS["from"], far, refresh={"every": "1s"}).status_code == 201
        until(lambda: len(far.asked) > 1)
        assert near.client.delete("/queries/q").status_code == 204
        time.sleep(0.6)  # the server looks four times a second whether it has to stop
        assert far.left == 0
        held.set()
        until(lambda: "2" in near.client.get("/queries/other/results", headers={"Accept": "text/csv"}).text)


def test_a_query_that_was_dropped_within_a_fetch_can_be_registered_again(near: LiveServer) -> None:
    def second(one: Peer, connection: socket.socket) -> None:
        if len(one.asked) == 2:
            hanging(one, connection)
        else:
            body = b"<urn:a> <urn:label> 3 .\n"
            one.send(connection, HEAD + b"Content-Length: %d\r\nConnection: close\r\n\r\n" % len(body) + body)

    with peer(once_and_then(HEAD, GRAPH, second)) as far:
        register(near, "q", TEXTS["from"], far, refresh={"every": "1s"})
        until(lambda: len(far.asked) > 1)
        assert near.client.delete("/queries/q").status_code == 204
        assert register(near, "q", TEXTS["from"], far).status_code == 201
        assert "3" in near.client.get("/queries/q/results", headers={"Accept": "text/csv"}).text
        (source,) = near.client.get("/queries/q").json()["sources"]
        assert not source["stale"], source
