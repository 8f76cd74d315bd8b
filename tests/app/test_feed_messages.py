"""A query's feed as a WebSocket: the same events, as messages."""

from __future__ import annotations

import pytest
from wsproto.events import CloseConnection, Ping, Pong, TextMessage

from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start
from tests.app.ingest.talking import NDJSON, WebSocket, eventually, line

RESULTS = "/queries/all/results"


def register(server: LiveServer, query: str = "SELECT ?o { STREAM <urn:s> [NOW] { ?s ?p ?o } }") -> None:
    assert server.client.post(
        "/queries?name=all", content=query, headers={"Content-Type": "text/plain"}
    ).is_success


def push(server: LiveServer, *values: int) -> None:
    for value in values:
        answer = server.client.post(
            "/streams?iri=urn:s&wait=true",
            content=line(value * 1000, value),
            headers={"Content-Type": NDJSON},
        )
        assert answer.is_success, answer.text


def values(message: dict) -> list[str]:  # type: ignore[type-arg]
    return [each["o"]["value"] for each in message["data"]["results"]["bindings"]]


def test_events_are_messages_that_resume(start_server: Start) -> None:
    server = start_server()
    register(server)
    client = WebSocket(server.url, RESULTS)
    push(server, 1, 2, 3)
    got = [client.text() for _ in range(3)]
    assert [(each["id"], each["event"], values(each)) for each in got] == [
        (1, "insert", ["1"]),
        (2, "insert", ["2"]),
        (3, "insert", ["3"]),
    ]
    client.close()
    for target in ("?last_event_id=1", "?from=1"):
        client = WebSocket(server.url, RESULTS + target)
        assert [client.text()["id"] for _ in range(2)] == [2, 3]
        client.close()
    client = WebSocket(server.url, RESULTS + "?snapshot=true")
    assert client.text()["event"] == "answer"
    client.close()


def test_messages_of_every_length(start_server: Start) -> None:
    server = start_server()
    register(server)
    client = WebSocket(server.url, RESULTS)
    for number, size in enumerate((10, 1000, 70_000), 1):
        text = "x" * size
        body = f'<urn:a> <urn:b> "{text}" .'
        headers = {"Content-Type": "application/n-triples"}
        server.client.post(f"/streams?iri=urn:s&at={number}", content=body, headers=headers)
        assert values(client.text()) == [text]
    client.close()


def test_pings_are_sent_and_answered(start_server: Start) -> None:
    server = start_server(sse_heartbeat=0.3)
    register(server)
    client = WebSocket(server.url, RESULTS)
    client.say(TextMessage(data="nobody listens to this" * 20))
    client.say(Ping(b"here?"))
    events = [client.event() for _ in range(3)]
    assert sorted(type(each).__name__ for each in events) in (
        ["Ping", "Ping", "Pong"],
        ["Ping", "Ping", "Ping"],
    )
    while not any(isinstance(each, Pong) for each in events):
        events.append(client.event())
    push(server, 1)
    while not isinstance(event := client.event(), TextMessage):
        assert isinstance(event, Ping)
    client.say(CloseConnection(1000))
    assert client.closed() == 1000
    client.close()
    eventually(lambda: server.services.fanout.clients == 0)


def test_a_dropped_query_says_goodbye(start_server: Start) -> None:
    server = start_server()
    register(server)
    client = WebSocket(server.url, RESULTS)
    server.client.delete("/queries/all")
    assert client.closed() == 1000
    client.close()
    client = WebSocket(server.url, RESULTS)
    assert client.status == 204
    client.close()


def test_a_server_that_stops_says_so(start_server: Start) -> None:
    server = start_server()
    register(server)
    client = WebSocket(server.url, RESULTS)
    server.services.fanout.stop()
    assert client.closed() == 1001
    client.close()


def test_frames_without_a_mask_end_the_connection(start_server: Start) -> None:
    server = start_server()
    register(server)
    client = WebSocket(server.url, RESULTS)
    client.socket.sendall(b"\x81\x02hi")
    client.closed()
    client.close()
    eventually(lambda: server.services.fanout.clients == 0)


@pytest.mark.parametrize(
    ("origin", "status"), [(b"https://page.example", 101), (b"https://other.example", 403)]
)
def test_pages_of_other_sites_may_not_read_it(start_server: Start, origin: bytes, status: int) -> None:
    server = start_server(cors_origins=("https://page.example",))
    register(server)
    client = WebSocket(server.url, RESULTS, [(b"Origin", origin)])
    assert client.status == status
    client.close()


@pytest.mark.parametrize(("role", "status"), [("read", 101), ("push", 403)])
def test_it_needs_a_token_that_reads(start_server: Start, role: str, status: int) -> None:
    server = start_server(token="the-first-admin-token")
    server.client.headers["Authorization"] = "Bearer the-first-admin-token"
    register(server)
    server.services.registry.tokens.add(TokenRecord(hash_token(f"{role}-token-of-length"), role, role, 0))
    client = WebSocket(server.url, RESULTS, [(b"Authorization", f"Bearer {role}-token-of-length".encode())])
    assert client.status == status
    client.close()


def test_parameters_are_checked(start_server: Start) -> None:
    server = start_server()
    register(server)
    for target, status in (
        (RESULTS + "?ack=1", 400),
        (RESULTS + "?last_event_id=x", 400),
        ("/queries/no/results", 404),
    ):
        client = WebSocket(server.url, target)
        assert client.status == status
        client.close()
