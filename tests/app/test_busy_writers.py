"""Updates and pushes of busy clients: each is made once, in order."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.store.changes.commit import Commit
from quadrill.store.logs.change_log import SqliteChangeLog
from quadrill.store.quads.writing import StoreWriter
from tests.app.conftest import LiveServer, Start
from tests.app.wire import Request, Wire

DIRECT = ("Content-Type", "application/sparql-update")
ONE = b"<http://e/s> <http://e/p> <http://e/o> ."


def post(text: str) -> Request:
    return "POST", "/update", [DIRECT], text.encode()


@pytest.fixture(scope="module")
def filled() -> Iterator[LiveServer]:
    with running.serve(Settings(data=":memory:", port=0)) as found:
        live = LiveServer(found)
        yield live
        live.client.close()


def test_each_update_is_one_version(filled: LiveServer) -> None:
    before = filled.services.store.reader.version
    answers = [
        filled.client.post(
            "/update", content=f"INSERT DATA {{ <urn:a> <urn:b> {n} }}", headers=dict([DIRECT])
        )
        for n in range(3)
    ]
    assert [each.headers["ETag"] for each in answers] == [f'"{before + n}"' for n in (1, 2, 3)]


def test_a_push_behind_an_answered_update_sees_it(start_server: Start) -> None:
    server = start_server()
    query = "SELECT ?n { STREAM <urn:s> [RANGE 1s] { ?s <urn:p> ?o } ?s <urn:n> ?n }"
    assert server.client.post(
        "/queries?name=q", content=query, headers={"Content-Type": "text/plain"}
    ).is_success
    feed = server.services.engine.queries.feed("q").subscribe(0)
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
    line, append = StoreWriter.enqueue_update, SqliteChangeLog.append

    def put(*args: Any, **options: Any) -> Any:
        threads.add(threading.current_thread().name)
        return line(*args, **options)

    def log(log: SqliteChangeLog, commits: list[Commit], *rest: Any) -> None:
        groups.append(len(commits))
        append(log, commits, *rest)

    monkeypatch.setattr(StoreWriter, "enqueue_update", put)
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


def test_representation_of_an_update_is_its_number_of_quads(filled: LiveServer) -> None:
    for added in (1, 0):
        answer = filled.client.post(
            "/update",
            content="INSERT DATA { <urn:new> <urn:p> 1 }",
            headers=dict([DIRECT, ("Prefer", "return=representation")]),
        )
        version = filled.services.store.reader.version
        assert (answer.status_code, answer.json()) == (
            200,
            {"version": version, "added": added, "removed": 0},
        )
        assert answer.headers["Preference-Applied"] == "return=representation"


def test_push_that_fails_after_it_was_accepted_is_made_once(
    filled: LiveServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal cannot be waited for: the elements are in, nothing may push them again."""
    asked: list[int] = []

    def fail(number: int) -> None:
        asked.append(number)
        raise TimeoutError("the engine did not execute the task within 60 s")

    monkeypatch.setattr(filled.services.engine.parts.tasks, "wait_durable", fail)
    connection = Wire(filled)
    connection.send("POST", "/streams/plain?at=5000", [("Content-Type", "application/n-triples")], ONE)
    status, headers, body = connection.answer()
    connection.close()
    assert (status, headers["content-type"]) == (500, "application/problem+json")
    assert json.loads(body)["code"] == "internal"
    assert len(asked) == 1
