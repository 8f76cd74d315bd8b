"""Short requests of busy clients: all are served, in order, beside slow ones and large answers."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from quadrill.app.evaluation.short_answers import LockLease, ShortAnswerLock
from quadrill.app.http.request import FastLaneThread
from tests.app.conftest import LiveServer, Start
from tests.app.test_server import eventually
from tests.app.wire import JSON, Wire, message, post


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


def test_an_answer_that_ends_early_cuts_the_connection(filled: LiveServer) -> None:
    connection = Wire(filled)
    connection.send(*post("SELECT ?a ?b { ?a ?p ?o . ?b ?q ?n }", JSON))
    with pytest.raises(AssertionError, match="closed"):
        connection.answer()
    connection.close()


def test_large_answer_releases_the_lock_before_its_client_has_read_it(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    server.client.put(
        "/store?default",
        content="".join(f"<urn:s{n}> <urn:p> <urn:o{n}> .\n" for n in range(100_000)),
        headers={"Content-Type": "application/n-triples"},
    )
    holds: list[LockLease] = []
    hold = ShortAnswerLock.hold

    def noted(lock: ShortAnswerLock, lane: FastLaneThread | None = None) -> LockLease:
        holds.append(hold(lock, lane))
        return holds[-1]

    monkeypatch.setattr(ShortAnswerLock, "hold", noted)
    slow = Wire(server)
    slow.send("GET", "/query?query=SELECT%20*%20%7B%3Fs%20%3Fp%20%3Fo%7D", [], b"")
    eventually(lambda: holds and not holds[0].is_held)
    assert server.boolean("ASK {}")
    eventually(lambda: not holds[1].is_held)
    slow.close()


def test_error_in_the_thread_of_short_answers_is_a_problem_and_the_connection_stays(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server()
    failed: set[str] = set()

    def fail(*_: object) -> None:
        failed.add(threading.current_thread().name)
        raise RuntimeError("broken")

    monkeypatch.setattr(server.services.endpoint, "look_up_answer", fail)
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
    assert statuses == {500}
