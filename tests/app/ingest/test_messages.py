"""A WebSocket whose messages are pushes."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, TextMessage

from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start
from tests.app.ingest.talking import WebSocket, eventually, line

TARGET = "/streams?iri=urn:s"
ONE = "<http://e/s> <http://e/p> <http://e/o> ."


def last_seq(server: LiveServer) -> int | None:
    answer = server.client.get("/streams", params={"iri": "urn:s"})
    return answer.json()["last_seq"] if answer.status_code == 200 else None


def test_each_message_is_acknowledged(tmp_path: Path, start_server: Start) -> None:
    server = start_server(data=str(tmp_path))
    client = WebSocket(server.url, TARGET)
    client.send((line(1000) + line(2000)).decode())
    assert client.text() == {
        "acknowledged": 2,
        "first_seq": 1,
        "accepted": 2,
        "late": 0,
        "dropped": 0,
        "durable": True,
        "message": 1,
    }
    client.send(line(500).decode())
    told = client.text()
    assert (told["acknowledged"], told["late"], told["message"]) == (3, 1, 2)
    client.say(CloseConnection(1000))
    assert client.closed() == 1000
    client.close()
    assert last_seq(server) == 3


def test_messages_may_be_triples(start_server: Start) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET + "&at=5000&each=triple")
    client.send(f"{ONE}\n{ONE}")
    assert client.text()["accepted"] == 2
    client.close()
    client = WebSocket(server.url, "/streams/s?at=6000")
    client.send(f"{ONE}\n{ONE.replace('/p>', '/q>')}")
    assert client.text()["accepted"] == 1
    client.close()


def test_a_wrong_message_ends_nothing(start_server: Start) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    client.send(line(1000).decode() + "nonsense")
    problem = client.text()
    assert (problem["status"], problem["line"], problem["message"]) == (400, 2, 1)
    client.send(line(1000).decode())
    told = client.text()
    assert (told["acknowledged"], told["message"]) == (1, 2)
    client.close()


def test_messages_that_come_at_once_and_in_pieces(start_server: Start) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    for number in range(20):
        client.send(line(number * 1000).decode())
    text = line(30_000).decode()
    client.say(TextMessage(data=text[:30], message_finished=False))
    client.say(Ping(b"here?"))
    client.say(TextMessage(data=text[30:]))
    told: list[Any] = []
    while len(told) < 22:
        event = client.event()
        told.append(event.payload if isinstance(event, Pong) else json.loads(event.data)["acknowledged"])  # type: ignore[attr-defined]
    assert b"here?" in told
    assert [each for each in told if each != b"here?"] == list(range(1, 22))
    client.close()


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (BytesMessage(data=b"bytes"), 1003),
        (TextMessage(data="x" * 2000), 1009),
    ],
)
def test_what_is_not_taken_ends_the_connection_with_a_code(start_server: Start, said: Any, code: int) -> None:
    server = start_server(max_message_bytes=1000)
    client = WebSocket(server.url, TARGET)
    client.say(said)
    assert client.closed() == code
    client.close()


@pytest.mark.parametrize(("last", "code"), [(CloseConnection(1000), 1000), (BytesMessage(data=b"x"), 1003)])
def test_messages_before_a_goodbye_are_told_before_it(start_server: Start, last: Any, code: int) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    said = [TextMessage(data=line(number * 1000).decode()) for number in (1, 2)]
    client.say_at_once(*said, last)
    assert [client.text()["acknowledged"] for _ in said] == [1, 2]
    assert client.closed() == code
    client.close()


@pytest.mark.parametrize(("frame", "code"), [(b"\x81\x02hi", 1002), (b"\x81\x82\0\0\0\0\xff\xff", 1007)])
def test_frames_that_break_the_protocol(start_server: Start, frame: bytes, code: int) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    client.socket.sendall(frame)
    assert client.closed() == code
    client.close()


def test_a_silent_client_is_asked_and_then_let_go(start_server: Start) -> None:
    server = start_server(sse_heartbeat=0.2)
    client = WebSocket(server.url, TARGET)
    for _ in range(3):
        assert isinstance(client.event(), Ping)
    event = client.event()
    assert isinstance(event, CloseConnection)
    client.close()
    client = WebSocket(server.url, TARGET)
    for _ in range(5):
        event = client.event()
        assert isinstance(event, Ping)
        client.say(event.response())
    client.close()


def test_a_client_that_goes_leaves_what_was_whole(start_server: Start) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    client.send(line(1000).decode())
    client.say(TextMessage(data=line(2000).decode()[:20], message_finished=False))
    client.socket.shutdown(socket.SHUT_RDWR)
    client.close()
    eventually(lambda: last_seq(server) == 1)
    eventually(lambda: not server.services.pushes.pushes)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ([], 101),
        ([(b"Origin", b"http://127.0.0.1:1")], 403),
        ([(b"Origin", b"https://other.example")], 403),
        ([(b"Origin", b"https://page.example")], 101),
        ([(b"Sec-Fetch-Site", b"cross-site")], 403),
    ],
)
def test_pages_of_other_sites_may_not_open_it(
    start_server: Start, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    server = start_server(cors_origins=("https://page.example",))
    client = WebSocket(server.url, TARGET, headers)
    assert client.status == status
    client.close()


@pytest.mark.parametrize(
    ("token", "status"), [(b"push-token-of-length", 101), (b"read-token-of-length", 403), (b"x" * 20, 401)]
)
def test_it_needs_a_token_of_the_role_push(start_server: Start, token: bytes, status: int) -> None:
    server = start_server(token="the-first-admin-token")
    for role in ("read", "push"):
        server.services.registry.tokens.add(TokenRecord(hash_token(f"{role}-token-of-length"), role, role, 0))
    client = WebSocket(server.url, TARGET, [(b"Authorization", b"Bearer " + token)])
    assert client.status == status
    client.close()


@pytest.mark.parametrize(
    ("target", "headers", "status"),
    [
        ("/streams", {}, 400),
        (TARGET + "&wait=true", {}, 400),
        (TARGET + "&each=quad", {}, 400),
        ("/streams/-x", {}, 400),
        (TARGET, {"Sec-WebSocket-Version": "8"}, 426),
        (TARGET, {"Sec-WebSocket-Key": "short"}, 400),
    ],
)
def test_what_is_no_handshake_is_told_so(
    start_server: Start, target: str, headers: dict[str, str], status: int
) -> None:
    server = start_server()
    given = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    }
    answer = server.client.get(target, headers=given | headers)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_server_that_stops_says_goodbye(start_server: Start) -> None:
    server = start_server()
    client = WebSocket(server.url, TARGET)
    client.send(line(1000).decode())
    assert client.text()["acknowledged"] == 1
    server.services.pushes.close()
    assert client.text()["code"] == "closed"
    assert client.closed() == 1001
    client.close()
