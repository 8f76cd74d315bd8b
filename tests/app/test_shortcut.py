"""The short cut for queries: it answers as the ordinary way does, and serves everybody."""

from __future__ import annotations

import gzip
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.http import wire
from quadrill.app.http.reply import Reply
from quadrill.app.http.turn import Held, Turn
from quadrill.app.routes import shortcut
from quadrill.app.security import hash_token
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start
from tests.app.test_server import eventually

DIRECT = ("Content-Type", "application/sparql-query")
FORM = ("Content-Type", "application/x-www-form-urlencoded")
JSON = ("Accept", "application/sparql-results+json")
Request = tuple[str, str, list[tuple[str, str]], bytes]


class Wire:
    """A connection that sends bytes and reads whole answers."""

    def __init__(self, server: LiveServer) -> None:
        host, _, port = server.url.removeprefix("http://").rstrip("/").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=15)
        self._data = b""

    def send(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> None:
        self.socket.sendall(message(method, target, headers, body))

    def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = self._until(b"\r\n\r\n").decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding") == "chunked":
            blocks = []
            while size := int(self._until(b"\r\n"), 16):
                blocks.append(self._exactly(size + 2)[:-2])
            assert self._exactly(2) == b"\r\n"
            return int(first.split()[1]), headers, b"".join(blocks)
        return int(first.split()[1]), headers, self._exactly(int(headers.get("content-length", "0")))

    def close(self) -> None:
        self.socket.close()

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._data:
            self._more()
        found, _, self._data = self._data.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._more()
        found, self._data = self._data[:size], self._data[size:]
        return found

    def _more(self) -> None:
        piece = self.socket.recv(1 << 16)
        assert piece, "the connection was closed"
        self._data += piece


def message(method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> bytes:
    given = {name.lower() for name, _value in headers}
    lines = [f"{method} {target} HTTP/1.1"]
    if "host" not in given:
        lines.append("Host: 127.0.0.1")
    lines += [f"{name}: {value}" for name, value in headers]
    if method == "POST" and "content-length" not in given:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def get(text: str, *headers: tuple[str, str], path: str = "/query", **fields: str) -> Request:
    return "GET", f"{path}?{urlencode({'query': text, **fields})}", [JSON, *headers], b""


def post(text: str, *headers: tuple[str, str], target: str = "/query") -> Request:
    return "POST", target, [DIRECT, *headers], text.encode()


def form(text: str, *headers: tuple[str, str], path: str = "/query", **fields: str) -> Request:
    return "POST", path, [FORM, *headers], urlencode({"query": text, **fields}).encode()


ALL = "SELECT * { ?s ?p ?o } ORDER BY ?s"
GRAPH = "CONSTRUCT { ?s ?p ?o } { ?s ?p ?o } ORDER BY ?s LIMIT 3"
TAKEN: list[Request] = [
    get(ALL),
    get("ASK {}", path="/sparql"),
    post(ALL, JSON),
    post("SELECT ?s (1 AS ?one) { ?s ?p ?o } LIMIT 2", JSON, target="/sparql"),
    form(ALL),
    form("ASK {}", path="/sparql", timeout="5"),
    *(
        post(text, ("Accept", accept))
        for text, accept in itertools.product(
            ("SELECT ?o { <http://e/1> ?p ?o }", "ASK {}", GRAPH),
            ("*/*", "text/csv", "text/turtle;q=0.5, application/sparql-results+xml", "application/n-triples"),
        )
    ),
    post(GRAPH, ("Accept", "application/trix")),
    post(GRAPH, ("Accept", "application/ld+json"), ("Accept-Encoding", "gzip")),
    post(ALL, JSON, ("Accept-Encoding", "gzip, deflate")),
    post("ASK {}", JSON, ("Accept-Encoding", "gzip")),
    post("SELECT ?a ?b { ?a ?p ?o . ?b ?p ?o }", JSON),
    post("SELECT ?o { <http://e/1> <http://e/p> ?o FILTER(?o > 0 && STR(?o) != 'é') }", JSON),
    post("SELECT * { GRAPH ?g { ?s ?p ?o } }", JSON, target="/query?named-graph-uri=http%3A%2F%2Fe%2Fg"),
    post("SELECT * { ?s ?p ?o }", JSON, target="/query?default-graph-uri=http%3A%2F%2Fe%2Fg&timeout=3"),
    post("SELECT * { ?s ?p ?o } LIMIT 9999", JSON, target="/query?union-default-graph"),
    post("SELECT * { ?s ?p }", JSON),
    post("", JSON),
    ("GET", "/query?query=", [JSON], b""),
    post("SELECT (<http://e/unknown>(1) AS ?x) {}", JSON),
    post("SELECT * { SERVICE <http://127.0.0.1/> { ?s ?p ?o } }", JSON),
    post("SELECT (<http://w3id.org/rsp/rspu#mean>(1) AS ?x) {}", JSON),
    post("SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } LIMIT 2", JSON),
    post("ASK {}", JSON, ("Origin", "https://page.example")),
    post("ASK {}", JSON, ("Origin", "https://other.example")),
    post("\ufeffASK {}", JSON),
    post(f"SELECT * {{ ?s ?p ?o FILTER(?o != '{'x' * 30_000}') }} LIMIT 1", JSON),
]
DECLINED: list[Request] = [
    *((method, "/query?query=ASK%7B%7D", [], b"") for method in ("PUT", "DELETE", "PATCH", "OPTIONS")),
    ("PUT", "/sparql?query=ASK%7B%7D", [DIRECT], b"ASK {}"),
    ("GET", "/query", [("Accept", "image/png")], b""),
    ("GET", "/query?query=ASK%7B%7D&query=ASK%7B%7D", [JSON], b""),
    ("GET", "/query?update=CLEAR%20ALL", [JSON], b""),
    ("GET", "/query?query=%ff", [JSON], b""),
    ("HEAD", "/query?query=ASK%7B%7D", [JSON], b""),
    ("POST", "/query", [JSON], b"ASK {}"),
    ("POST", "/query", [("Content-Type", "text/plain"), JSON], b"ASK {}"),
    ("POST", "/query", [("Content-Type", "application/sparql-query; charset=utf-16"), JSON], b"ASK {}"),
    ("POST", "/query", [DIRECT, JSON], b"ASK \xff {}"),
    post("ASK {}", JSON, target="/query?query=ASK%7B%7D"),
    post("ASK {}", JSON, target="/query?timeout=soon"),
    post("ASK {}", JSON, target="/query?default-graph-uri=nothing"),
    post("ASK {}", JSON, ("Host", "attacker.example")),
    post("ASK {}", JSON, ("Accept", "text/csv")),
    (
        "POST",
        "/sparql",
        [("Content-Type", "application/sparql-update")],
        b"CLEAR SILENT GRAPH <http://e/none>",
    ),
    form("ASK {}", path="/nowhere"),
]


@pytest.fixture(scope="module")
def filled() -> Iterator[LiveServer]:
    settings = Settings(
        data=":memory:", port=0, cors_origins=("https://page.example",), max_result_rows=30_000
    )
    with running.serve(settings) as found:
        live = LiveServer(found)
        rows = " ".join(f"<http://e/{n}> <http://e/p> {n % 7} ." for n in range(400))
        live.update(f'INSERT DATA {{ {rows} GRAPH <http://e/g> {{ <http://e/1> <http://e/p> "in g" }} }}')
        yield live
        live.client.close()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the short cut said to the requests that it was asked for."""
    found: list[bool] = []
    whole = shortcut.QueryShortcut.take

    def take(self: shortcut.QueryShortcut, request: wire.WireRequest, reply: Reply, remote: str) -> bool:
        found.append(whole(self, request, reply, remote))
        return found[-1]

    monkeypatch.setattr(shortcut.QueryShortcut, "take", take)
    return found


def both_ways(server: LiveServer, request: Request) -> list[tuple[int, dict[str, str], bytes]]:
    """The answers by the short cut and by the ordinary way, which a header that it does not know chooses."""
    answers = []
    for extra in ([], [("TE", "trailers")]):
        method, target, headers, body = request
        connection = Wire(server)
        connection.send(method, target, [*headers, *extra], body)
        status, found, data = connection.answer() if method != "HEAD" else head_of(connection)
        connection.close()
        found.pop("date", None)
        if found.get("content-encoding") == "gzip":
            # Where the blocks are cut is not part of the answer.
            found.pop("content-length", None)
            data = gzip.decompress(data)
        answers.append((status, found, data))
    return answers


def head_of(connection: Wire) -> tuple[int, dict[str, str], bytes]:
    data = connection.socket.recv(1 << 16).decode()
    first, *lines = data.strip().split("\r\n")
    return int(first.split()[1]), dict(sorted(line.lower().split(": ", 1) for line in lines)), b""


@pytest.mark.parametrize("request_", TAKEN, ids=range(len(TAKEN)))
def test_the_short_cut_answers_as_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = both_ways(filled, request_)
    assert direct == ordinary
    eventually(lambda: taken)
    assert taken == [True]


@pytest.mark.parametrize("request_", DECLINED, ids=range(len(DECLINED)))
def test_what_is_no_plain_query_goes_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = both_ways(filled, request_)
    assert direct == ordinary
    assert True not in taken


@pytest.mark.parametrize(
    ("token", "status"),
    [("read-token-of-length", 200), ("push-token-of-length", 403), ("x" * 20, 401), ("", 401)],
)
def test_tokens_are_asked_for_on_the_short_cut(start_server: Start, token: str, status: int) -> None:
    server = start_server(token="the-first-admin-token")
    for role in ("read", "push"):
        server.services.registry.add_token(TokenRecord(hash_token(f"{role}-token-of-length"), role, role, 0))
    headers = [("Authorization", f"Bearer {token}")] if token else []
    direct, ordinary = both_ways(server, post("ASK {}", JSON, *headers))
    assert direct == ordinary
    assert direct[0] == status


def test_an_answer_that_ends_early_cuts_the_connection(filled: LiveServer, taken: list[bool]) -> None:
    connection = Wire(filled)
    connection.send(*post("SELECT ?a ?b { ?a ?p ?o . ?b ?q ?n }", JSON))
    with pytest.raises(AssertionError, match="closed"):
        connection.answer()
    connection.close()


def test_requests_in_pieces_and_several_at_once_are_answered_in_order(filled: LiveServer) -> None:
    one, two = message(*post("ASK {}", JSON)), message(*post("ASK { FILTER(false) }", JSON))
    for pieces in (
        [one + two],
        [one[:30], one[30:] + two],
        [one[:-4], one[-4:], two],
        [one, two[:-1], two[-1:]],
    ):
        connection = Wire(filled)
        for piece in pieces:
            connection.socket.sendall(piece)
            time.sleep(0.03)
        assert b"true" in connection.answer()[2]
        assert b"false" in connection.answer()[2]
        connection.close()


def test_more_busy_clients_than_workers_are_all_served(start_server: Start) -> None:
    server = start_server(threads=2)
    until = time.monotonic() + 1.0
    served: dict[int, int] = {}

    def ask(number: int) -> None:
        connection = Wire(server)
        while time.monotonic() < until:
            connection.send(*post(f"ASK {{ <http://e/{number}> ?p ?o }}", JSON))
            assert connection.answer()[0] == 200
            served[number] = served.get(number, 0) + 1
        connection.close()

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(20)
    assert len(served) == 8
    assert min(served.values()) * 20 > max(served.values()), served


def test_clients_that_say_nothing_hold_no_worker(start_server: Start) -> None:
    server = start_server(threads=2)
    silent = [Wire(server) for _ in range(8)]
    began = time.monotonic()
    connection = Wire(server)
    connection.send(*post("ASK {}", JSON))
    assert connection.answer()[0] == 200
    assert time.monotonic() - began < 5
    for each in (*silent, connection):
        each.close()


def test_event_streams_flow_beside_busy_clients(start_server: Start) -> None:
    server = start_server(threads=2)
    done = threading.Event()

    def ask() -> None:
        connection = Wire(server)
        while not done.is_set():
            connection.send(*post("ASK {}", JSON))
            connection.answer()
        connection.close()

    clients = [threading.Thread(target=ask) for _ in range(4)]
    for client in clients:
        client.start()
    try:
        with server.client.stream("GET", "/changes", headers={"Accept": "text/event-stream"}) as events:
            assert server.update("INSERT DATA { <http://e/1> <http://e/p> 1 }").status_code == 204
            assert any("version" in line for line in itertools.islice(events.iter_lines(), 20))
    finally:
        done.set()
        for client in clients:
            client.join(20)


def test_requests_on_the_short_cut_are_counted_and_listed(filled: LiveServer) -> None:
    def count() -> float:
        lines = filled.client.get("/metrics").text.splitlines()
        wanted = 'quadrill_http_requests_total{method="POST",route="/query",status="200"} '
        return sum(float(line.removeprefix(wanted)) for line in lines if line.startswith(wanted))

    before = count()
    connection = Wire(filled)
    for _ in range(3):
        connection.send(*post("ASK {}", JSON))
        connection.answer()
    connection.close()
    eventually(lambda: count() >= before + 3)
    assert filled.client.get("/processes").json()["processes"] == []


@pytest.mark.parametrize(
    "head",
    [
        b"GET /query HTTP/1.0\r\nHost: a",
        b"GET http://a/query HTTP/1.1\r\nHost: a",
        b"GET /query#x HTTP/1.1\r\nHost: a",
        b"GET /qu\xc3\xa9ry HTTP/1.1\r\nHost: a",
        b"GET  /query HTTP/1.1\r\nHost: a",
        b"get /query HTTP/1.1\r\nHost: a",
        b"GET /query HTTP/1.1",
        b"GET /query HTTP/1.1\r\nAccept: b",
        b"GET /query HTTP/1.1\r\nHost:",
        b"GET /query HTTP/1.1\r\nHost: a\r\nHost: a",
        b"GET /query HTTP/1.1\r\nHost: a\r\n folded",
        b"GET /query HTTP/1.1\r\nHost : a",
        b"GET /query HTTP/1.1\r\nHost: a\nX: b",
        b"GET /query HTTP/1.1\r\nHost: a\r\nConnection: close",
        b"POST /query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 2",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: +1",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: -1",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Encoding: gzip",
    ],
)
def test_unusual_heads_are_left_to_the_ordinary_way(head: bytes) -> None:
    assert wire.parse(head + b"\r\n\r\n") is None


def test_a_plain_head_is_read() -> None:
    data = b"POST /sparql?a=%20b HTTP/1.1\r\nhost: a:1\r\nACCEPT:  x/y \r\nContent-Length: 2\r\n\r\n{}"
    found = wire.parse(data)
    assert found is not None
    assert (found.method, found.path, found.query_string) == ("POST", "/sparql", b"a=%20b")
    assert found.headers == {"Host": "a:1", "Accept": "x/y", "Content-Length": "2"}
    assert data[found.body_at :] == b"{}"
    assert found.fields.body_length == 2


def test_a_large_answer_gives_its_turn_back_before_its_client_has_read_it(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    server.client.put(
        "/store?default",
        content="".join(f"<urn:s{n}> <urn:p> <urn:o{n}> .\n" for n in range(100_000)),
        headers={"Content-Type": "application/n-triples"},
    )
    turns: list[Held] = []
    take = Turn.take

    def taken(turn: Turn, aside: Callable[[], None] | None = None) -> Held:
        turns.append(take(turn, aside))
        return turns[-1]

    monkeypatch.setattr(Turn, "take", taken)
    slow = Wire(server)
    slow.send("GET", "/query?query=SELECT%20*%20%7B%3Fs%20%3Fp%20%3Fo%7D", [], b"")
    eventually(lambda: turns and not turns[0].is_held)
    assert server.boolean("ASK {}")
    eventually(lambda: not turns[1].is_held)
    slow.close()


def test_what_fails_in_the_thread_of_short_answers_is_answered_the_ordinary_way(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    failed: set[str] = set()

    def fail(*_: object) -> None:
        failed.add(threading.current_thread().name)
        raise RuntimeError("broken")

    monkeypatch.setattr(server.services.endpoint, "looked_up", fail)
    until = time.monotonic() + 10
    statuses: set[int] = set()

    def ask() -> None:
        connection = Wire(server)
        while time.monotonic() < until and "quadrill-quick" not in failed:
            connection.send(*post("ASK {}", JSON))
            statuses.add(connection.answer()[0])
        connection.close()

    clients = [threading.Thread(target=ask) for _ in range(3)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(20)
    assert "quadrill-quick" in failed
    assert statuses == {200}
