"""The short cut for updates: it answers as the ordinary way does, and nothing is changed twice."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.http import wire
from quadrill.app.http.reply import Reply
from quadrill.app.routes import update_shortcut
from quadrill.app.security import hash_token
from quadrill.store.changes.commit import Commit
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.quads.writing import StoreWrites
from quadrill.store.registry import TokenRecord
from tests.app.conftest import LiveServer, Start
from tests.app.test_server import eventually
from tests.app.test_shortcut import FORM, Request, Wire, both_ways

DIRECT = ("Content-Type", "application/sparql-update")
INSERT = "INSERT DATA { <http://e/s> <http://e/p> 1 }"


def post(text: str, *headers: tuple[str, str], target: str = "/update") -> Request:
    return "POST", target, [DIRECT, *headers], text.encode()


TAKEN: list[Request] = [
    post(INSERT),
    post("DELETE { ?s ?p ?o } INSERT { ?s ?p 2 } WHERE { ?s ?p ?o }"),
    post("", target="/update"),
    post("nonsense"),
    post("CLEAR GRAPH <http://e/none>"),
    post("LOAD <http://127.0.0.1:1/x>"),
    post(INSERT, ("Origin", "https://page.example")),
    post("DELETE WHERE { ?s ?p ?o }", target="/update?using-graph-uri=http%3A%2F%2Fe%2Fg"),
    post("DELETE WHERE { ?s ?p ?o }", target="/update?using-graph-uri=nothing"),
    post(INSERT, target="/update?timeout=soon"),
    post("x" * 3000, ("Accept-Encoding", "gzip")),
    ("POST", "/update", [FORM], urlencode({"update": INSERT}).encode()),
    ("POST", "/update", [FORM], urlencode({"update": INSERT, "timeout": "5"}).encode()),
    ("POST", "/update", [FORM], urlencode({"query": "ASK {}"}).encode()),
]
DECLINED: list[Request] = [
    *((method, "/update", [DIRECT], INSERT.encode()) for method in ("PUT", "DELETE", "PATCH", "OPTIONS")),
    ("GET", "/update?update=CLEAR%20ALL", [], b""),
    ("POST", "/update", [], INSERT.encode()),
    ("POST", "/update", [("Content-Type", "text/plain")], INSERT.encode()),
    post(INSERT, ("Host", "attacker.example")),
    post(INSERT, ("Origin", "https://other.example")),
    post("\udcff".encode("utf-8", "surrogateescape").decode("latin-1") + INSERT, target="/sparql"),
    ("POST", "/update", [DIRECT], b"\xff"),
    ("POST", "/update?%ff", [FORM], b"update=%ff"),
]


@pytest.fixture(scope="module")
def filled() -> Iterator[LiveServer]:
    with running.serve(Settings(data=":memory:", port=0, cors_origins=("https://page.example",))) as found:
        live = LiveServer(found)
        yield live
        live.client.close()


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """What the short cut said to the requests that it was asked for."""
    found: list[bool] = []
    whole = update_shortcut.UpdateShortcut.take

    def take(
        self: update_shortcut.UpdateShortcut, request: wire.WireRequest, reply: Reply, remote: str
    ) -> bool:
        found.append(whole(self, request, reply, remote))
        return found[-1]

    monkeypatch.setattr(update_shortcut.UpdateShortcut, "take", take)
    return found


def without_version(answer: tuple[int, dict[str, str], bytes]) -> tuple[int, dict[str, str], bytes]:
    answer[1].pop("etag")  # each way makes a commit of its own
    return answer


@pytest.mark.parametrize("request_", TAKEN, ids=range(len(TAKEN)))
def test_the_short_cut_answers_as_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = map(without_version, both_ways(filled, request_))
    assert direct == ordinary
    eventually(lambda: taken)
    assert taken == [True]


@pytest.mark.parametrize("request_", DECLINED, ids=range(len(DECLINED)))
def test_what_is_no_plain_update_goes_the_ordinary_way(
    filled: LiveServer, request_: Request, taken: list[bool]
) -> None:
    direct, ordinary = map(without_version, both_ways(filled, request_))
    assert direct == ordinary
    assert True not in taken


@pytest.mark.parametrize(
    ("token", "status"),
    [("read-token-of-length", 403), ("write-token-of-length", 204), ("x" * 20, 401), ("", 401)],
)
def test_tokens_are_asked_for_on_the_short_cut(start_server: Start, token: str, status: int) -> None:
    server = start_server(token="the-first-admin-token")
    for role in ("read", "write"):
        server.services.registry.add_token(TokenRecord(hash_token(f"{role}-token-of-length"), role, role, 0))
    headers = [("Authorization", f"Bearer {token}")] if token else []
    direct, ordinary = map(without_version, both_ways(server, post(INSERT, *headers)))
    assert direct == ordinary
    assert direct[0] == status


def test_who_prefers_it_is_told_how_many_quads_changed(filled: LiveServer, taken: list[bool]) -> None:
    request = post("INSERT DATA { <urn:new> <urn:p> 1 }", ("Prefer", "return=representation"))
    direct, ordinary = both_ways(filled, request)
    version = filled.services.store.version
    assert (direct[0], json.loads(direct[2])) == (200, {"version": version, "added": 1, "removed": 0})
    assert (ordinary[0], json.loads(ordinary[2])) == (200, {"version": version, "added": 0, "removed": 0})
    assert direct[1]["preference-applied"] == "return=representation" and True not in taken


def test_a_read_only_server_takes_no_update(start_server: Start) -> None:
    server = start_server(read_only=True)
    direct, ordinary = both_ways(server, post(INSERT))
    assert direct == ordinary
    assert direct[0] == 403


def test_each_update_is_one_version(filled: LiveServer, taken: list[bool]) -> None:
    before = filled.services.store.version
    answers = [
        filled.client.post(
            "/update", content=f"INSERT DATA {{ <urn:a> <urn:b> {n} }}", headers=dict([DIRECT])
        )
        for n in range(3)
    ]
    assert [each.headers["ETag"] for each in answers] == [f'"{before + n}"' for n in (1, 2, 3)]
    eventually(lambda: len(taken) == 3)
    assert taken == [True] * 3


def test_a_push_behind_an_answered_update_sees_it(start_server: Start) -> None:
    server = start_server()
    query = "SELECT ?n { STREAM <urn:s> [RANGE 1s] { ?s <urn:p> ?o } ?s <urn:n> ?n }"
    assert server.client.post(
        "/queries?name=q", content=query, headers={"Content-Type": "text/plain"}
    ).is_success
    feed = server.services.engine.feed("q").subscribe(0)
    for number in range(30):
        text = f"DELETE WHERE {{ <urn:a> <urn:n> ?n }} ; INSERT DATA {{ <urn:a> <urn:n> {number} }}"
        if number % 2:
            text = f"DELETE {{ ?s ?p ?n }} INSERT {{ ?s ?p {number} }} WHERE {{ ?s ?p ?n }}"
        assert server.client.post("/update", content=text, headers=dict([DIRECT])).status_code == 204
        line = json.dumps({"at": 1_767_268_800_000 + 5_000 * number, "data": "<urn:a> <urn:p> <urn:o> ."})
        pushed = server.client.post(
            "/streams?iri=urn:s&wait=true", content=line, headers={"Content-Type": "application/x-ndjson"}
        )
        assert pushed.is_success
        assert f'"{number}"' in str(feed.take()), number


def test_busy_clients_count_to_the_same_number_in_the_thread_of_short_answers(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, threads, groups = start_server(data=str(tmp_path / "data")), set(), []
    line, append = StoreWrites.update_in_line, SqliteChangeLog.append

    def put(*args: Any, **options: Any) -> Any:
        threads.add(threading.current_thread().name)
        return line(*args, **options)

    def log(log: SqliteChangeLog, commits: list[Commit], *rest: Any) -> None:
        groups.append(len(commits))
        append(log, commits, *rest)

    monkeypatch.setattr(StoreWrites, "update_in_line", put)
    monkeypatch.setattr(SqliteChangeLog, "append", log)
    server.update("INSERT DATA { <urn:n> <urn:is> 0 }")
    one = "<urn:n> <urn:is>"
    count = f"DELETE {{ {one} ?o }} INSERT {{ {one} ?n }} WHERE {{ {one} ?o BIND(?o + 1 AS ?n) }}"
    statuses: Counter[int] = Counter()

    def ask(number: int) -> None:
        connection = Wire(server)
        for at in range(100):
            wrong = at % 10 == 9
            connection.send(*post("INSERT DATA { <urn:a> }" if wrong else count))
            statuses[connection.answer()[0]] += 1
        connection.close()

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(6)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(30)
    assert statuses == {204: 540, 400: 60}
    assert server.boolean("ASK { <urn:n> <urn:is> 540 }")
    assert "quadrill-quick" in threads and max(groups) > 1
    assert not server.services.endpoint.processes.list()
