"""The short cut for pushes and heartbeats: it answers as the ordinary way does, and nothing enters twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.http import wire
from quadrill.app.http.reply import Reply
from quadrill.app.routes import push_shortcut
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start
from tests.app.test_server import eventually
from tests.app.test_shortcut import Request, Wire, both_ways

TRIPLES = ("Content-Type", "application/n-triples")
LINES = ("Content-Type", "application/x-ndjson")
ONE = b"<http://e/s> <http://e/p> <http://e/o> ."


def push(
    body: bytes, *headers: tuple[str, str], target: str = "/streams/plain?at=5000", method: str = "POST"
) -> Request:
    return method, target, list(headers), body


def line(at: Any, data: bytes = ONE) -> bytes:
    return json.dumps({"at": at, "data": data.decode()}).encode() + b"\n"


TAKEN: list[Request] = [
    push(ONE, TRIPLES),
    push(ONE, TRIPLES, target="/streams?iri=http%3A%2F%2Fe%2Fpushed&at=5000"),
    push(ONE, TRIPLES, target="/streams/plain?at=1970-01-01T00:00:05Z"),
    push(ONE + b"\n<http://e/s> <http://e/p> 5 .", ("Content-Type", "text/turtle"), target="/streams/turtle"),
    push(ONE + b"\n" + ONE, TRIPLES, target="/streams/plain?at=5000&each=triple&durable=no"),
    push(ONE, TRIPLES, target="/streams/plain?at=5000&wait"),
    push(b"", TRIPLES),
    push((ONE + b"\n") * 5000, TRIPLES),
    push((ONE + b"\n") * 5000 + b"nonsense", TRIPLES),
    push(
        (ONE + b"\n") * 5000, TRIPLES, ("Origin", "https://page.example"), target="/streams/derived?at=7000"
    ),
    push(line(5000) + line(6000), LINES, target="/streams/lines"),
    push(line(6000) + line(20), LINES, target="/streams/lines"),
    push(line(6000) + b"nonsense\n", LINES, target="/streams/lines"),
    push(line(6000) + b"nonsense\n" * 40, LINES, target="/streams/lines?partial=true"),
    push(
        line(6000) + b"nonsense\n" * 40,
        LINES,
        ("Accept-Encoding", "gzip"),
        target="/streams/lines?partial=true",
    ),
    push(ONE, TRIPLES, ("Idempotency-Key", "a-key")),
    push(ONE + b" ", TRIPLES, ("Idempotency-Key", "a-key")),
    push(ONE + b"x", TRIPLES),
    push(ONE, TRIPLES, target="/streams/plain?at=99999999999999"),
    push(ONE, TRIPLES, target="/streams/plain?at=soon"),
    push(ONE, TRIPLES, target="/streams/plain"),
    push(ONE, ("Content-Type", "image/png")),
    push(ONE, TRIPLES, ("Origin", "https://page.example")),
    push(ONE, TRIPLES, target="/streams/derived?at=7000"),
    push(b"", target="/streams/plain:heartbeat?at=5000"),
    push(b"", target="/streams:heartbeat?iri=http%3A%2F%2Fe%2Fpushed&at=5000&wait=yes"),
    push(b"", target="/streams/plain:heartbeat?at=99999999999999"),
    push(b"", ("Origin", "https://page.example"), target="/streams/plain:heartbeat?at=5000"),
]
DECLINED: list[Request] = [
    *(push(ONE, TRIPLES, method=method) for method in ("PATCH", "OPTIONS")),
    push(b"", method="GET"),
    push(ONE),
    push(ONE, TRIPLES, target="/streams"),
    push(ONE, TRIPLES, target="/streams/plain?iri=urn:x"),
    push(ONE, TRIPLES, target="/streams/plain?since=5"),
    push(ONE, TRIPLES, target="/streams/plain?each=quad"),
    push(ONE, TRIPLES, target="/streams/plain?partial=perhaps"),
    push(ONE, TRIPLES, target="/streams/plain?at=%ff"),
    push(ONE, TRIPLES, target="/streams/-plain?at=5"),
    push(ONE, TRIPLES, target="/streams/a%20b?at=5"),
    push(ONE, TRIPLES, target="/streams/plain/more?at=5"),
    push(ONE, TRIPLES, target="/streams/plain:other?at=5"),
    push(b"", target="/streams/plain:heartbeat"),
    push(b"", target="/streams/plain:heartbeat?at=soon"),
    push(b"", target="/streams/plain/dead-letters:retry?id=5"),
    push(ONE, TRIPLES, ("Origin", "https://other.example")),
    push(ONE, TRIPLES, ("Host", "attacker.example")),
    push(ONE, TRIPLES, ("Content-Encoding", "gzip")),
]


@pytest.fixture(scope="module")
def filled() -> Iterator[LiveServer]:
    settings = Settings(data=":memory:", port=0, cors_origins=("https://page.example",))
    with running.serve(settings) as found:
        live = LiveServer(found)
        live.client.put("/streams/lines", json={"lateness": "1s", "late": "drop"})
        query = "CONSTRUCT { ?s ?p ?o } WHERE { STREAM <http://localhost/plain> [RANGE 1s] { ?s ?p ?o } }"
        live.client.post(
            "/queries?name=derived", json={"query": query, "result_iri": "http://localhost/derived"}
        )
        yield live
        live.client.close()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the short cut said to the requests that it was asked for."""
    found: list[bool] = []
    whole = push_shortcut.PushShortcut.take

    def take(self: push_shortcut.PushShortcut, request: wire.WireRequest, reply: Reply, remote: str) -> bool:
        found.append(whole(self, request, reply, remote))
        return found[-1]

    monkeypatch.setattr(push_shortcut.PushShortcut, "take", take)
    return found


def without_seqs(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], Any]:
    """The answer as it is but for the numbers that grow from push to push."""
    status, headers, body = answer
    headers.pop("content-length", None)
    if not body:
        return status, headers, body
    document = json.loads(body)
    for name in ("first_seq", "last_seq"):
        if document.get(name) is not None:
            document[name] = "a number"
    return status, headers, document


@pytest.mark.parametrize("request_", TAKEN, ids=range(len(TAKEN)))
def test_the_short_cut_answers_as_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = map(without_seqs, both_ways(filled, request_))
    assert direct == ordinary
    eventually(lambda: taken)
    assert taken == [True]


@pytest.mark.parametrize("request_", DECLINED, ids=range(len(DECLINED)))
def test_what_is_no_plain_push_goes_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = both_ways(filled, request_)
    assert direct == ordinary
    assert True not in taken


@pytest.mark.parametrize(
    ("token", "status"),
    [("read-token-of-length", 403), ("push-token-of-length", 200), ("x" * 20, 401), ("", 401)],
)
def test_tokens_are_asked_for_on_the_short_cut(start_server: Start, token: str, status: int) -> None:
    server = start_server(token="the-first-admin-token")
    for role in ("read", "push"):
        server.services.registry.add_token(TokenRecord(hash_token(f"{role}-token-of-length"), role, role, 0))
    headers = [("Authorization", f"Bearer {token}")] if token else []
    direct, ordinary = map(without_seqs, both_ways(server, push(ONE, TRIPLES, *headers)))
    assert direct == ordinary
    assert direct[0] == status


def test_a_read_only_server_takes_no_push(start_server: Start) -> None:
    server = start_server(read_only=True)
    direct, ordinary = both_ways(server, push(ONE, TRIPLES))
    assert direct == ordinary
    assert direct[0] == 403


def test_a_push_that_fails_behind_the_engine_s_door_is_made_once(
    filled: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot be waited for: the elements are in, the ordinary way must not push them again."""
    asked: list[str] = []

    def fail(stream: str, *_arguments: Any, **_options: Any) -> dict[str, Any]:
        asked.append(stream)
        raise TimeoutError("the engine did not get to it within 60 s")

    monkeypatch.setattr(filled.services.engine, "push", fail)
    connection = Wire(filled)
    connection.send(*push(ONE, TRIPLES))
    status, headers, body = connection.answer()
    connection.close()
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert json.loads(body)["code"] == "internal"
    assert asked == ["plain"]


def test_pushes_on_the_short_cut_are_counted(filled: LiveServer) -> None:
    def count() -> float:
        lines = filled.client.get("/metrics").text.splitlines()
        wanted = 'quadrill_http_requests_total{method="POST",route="/streams/<part:name>",status="200"} '
        return sum(float(each.removeprefix(wanted)) for each in lines if each.startswith(wanted))

    before = count()
    connection = Wire(filled)
    for _ in range(3):
        connection.send(*push(ONE, TRIPLES))
        connection.answer()
    connection.close()
    eventually(lambda: count() >= before + 3)
