"""The HTTP server itself: raw sockets, slow clients, cut connections."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import pytest

from quadrill.app.config import Settings
from quadrill.app.wiring import open_services
from quadrill.continuous.errors import EngineStoppedError
from quadrill.continuous.streams.push_call import PushCall
from tests.app.conftest import LiveServer, Start

Found = TypeVar("Found")


def connect(server: LiveServer) -> socket.socket:
    host, _, port = server.url.removeprefix("http://").rstrip("/").partition(":")
    return socket.create_connection((host, int(port)), timeout=15)


def read_all(client: socket.socket) -> bytes:
    data = b""
    while piece := client.recv(1 << 16):
        data += piece
    return data


def exchange(server: LiveServer, request: bytes) -> tuple[int, dict[str, str], bytes]:
    """Send raw bytes; the status, headers and body of the answer."""
    with connect(server) as client:
        client.sendall(request)
        head, _, body = read_all(client).partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    return int(first.split()[1]), headers, body


def eventually(look: Callable[[], Found]) -> Found:
    """What is found once it is there: requests are counted and logged after their last byte was sent."""
    deadline = time.monotonic() + 10
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


HOST = b"Host: 127.0.0.1\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET /query?query=ASK%7B%7D HTTP/1.1\r\n" + HOST + b"\r\n", 200),
        (b"GET /query?query=ASK%7B%7D HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n", 200),
        (b"nonsense\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"get / HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /query HTTP/1.1\r\n" + HOST + b"Content-Length: many\r\n\r\n", 400),
        (b"POST /query HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip\r\n\r\n", 501),
        (b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"x" * 100_000 + b"\r\n\r\n", 413),
        (b"GET /query?query=%FF HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /query HTTP/1.1\r\nConnection: close\r\n\r\n", 400),
        (b"GET /query HTTP/1.0\r\n\r\n", 403),
        (b"BREW /query HTTP/1.1\r\n" + HOST + b"\r\n", 405),
    ],
)
def test_raw_requests_are_answered_and_faults_are_problems(
    server: LiveServer, request_bytes: bytes, status: int
) -> None:
    got, headers, body = exchange(server, request_bytes)
    assert got == status
    if status >= 400:
        assert headers["content-type"] == "application/problem+json"
        assert json.loads(body)["status"] == status


def test_chunked_bodies_are_read(server: LiveServer) -> None:
    body = b"6\r\nASK {}\r\n0\r\n\r\n"
    request = (
        b"POST /query HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/sparql-query\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    status, _, answer = exchange(server, request + body)
    assert status == 200
    assert b"true" in answer


def test_a_connection_is_kept_for_further_requests(server: LiveServer) -> None:
    with connect(server) as client:
        for _ in range(3):
            client.sendall(b"GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
            data = b""
            while b"true}" not in data:
                data += client.recv(65536)
            assert data.startswith(b"HTTP/1.1 200")


def test_requests_sent_at_once_are_answered_in_order_whatever_lane_they_belong_to(
    start_server: Start,
) -> None:
    server = start_server(threads=1)
    paths = [
        b"/health/live",
        b"/query?query=ASK%7B%7D",
        b"/health/live",
        b"/metrics",
        b"/prefixes",
        b"/health/ready",
    ]
    requests = b"".join(b"GET %b HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" % path for path in paths)
    with connect(server) as client:
        client.sendall(requests[:-4] + b"\r\nConnection: close\r\n\r\n")
        found = read_all(client)
    assert found.count(b"HTTP/1.1 200 OK") == len(paths)
    marks = [b'"live"', b"true", b'"live"', b"quadrill_store_quads", b"HTTP/1.1", b'"ready"']
    at = 0
    for mark in marks:
        assert (at := found.find(mark, at) + 1) > 0, mark


def test_a_client_that_announces_continue_is_answered(server: LiveServer) -> None:
    head = (
        b"POST /query HTTP/1.1\r\n"
        + HOST
        + b"Content-Type: application/sparql-query\r\nContent-Length: 6\r\nExpect: 100-continue\r\n\r\n"
    )
    with connect(server) as client:
        client.sendall(head)
        assert client.recv(100).startswith(b"HTTP/1.1 100")
        client.sendall(b"ASK {}")
        assert b"200 OK" in read_all(client)


def test_an_early_answer_reaches_a_client_that_still_sends(start_server: Start) -> None:
    server = start_server(max_body_bytes=1000)
    head = b"PUT /store?default HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/turtle\r\n"
    head += b"Content-Length: 20000000\r\n\r\n"
    with connect(server) as client:
        client.sendall(head)
        for _ in range(20):
            client.sendall(b"#" * 1_000_000)
        assert read_all(client).startswith(b"HTTP/1.1 413")


def test_slow_clients_do_not_hold_the_workers(start_server: Start) -> None:
    server = start_server(threads=2, request_timeout=1.5)
    clients = [connect(server) for _ in range(2)]
    try:
        started = time.monotonic()
        for client in clients:
            client.sendall(b"POST /query HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n")
        for _ in range(4):
            time.sleep(0.1)
            for client in clients:
                client.sendall(b"X: y\r\n")
        assert server.boolean("ASK {}")
        assert time.monotonic() - started < 5
        assert all(client.recv(100).startswith(b"HTTP/1.1 408") for client in clients)
    finally:
        for client in clients:
            client.close()


def test_a_client_that_goes_away_in_the_middle_of_an_answer_leaves_the_server_well(
    server: LiveServer,
) -> None:
    values = " ".join(map(str, range(500)))
    text = f"SELECT * {{ VALUES ?x {{ {values} }} VALUES ?y {{ {values} }} VALUES ?z {{ {values} }} }}"
    for _ in range(3):
        with server.client.stream("GET", "/query", params={"query": text}) as answer:
            next(answer.iter_bytes())
    deadline = time.monotonic() + 10
    while server.services.endpoint.processes.list() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert server.services.endpoint.processes.list() == []
    assert server.boolean("ASK {}")


def test_an_unexpected_error_has_a_number_and_no_stack_trace(
    start_server: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server = start_server()

    def broken(_engine: object) -> None:
        raise ZeroDivisionError("secret detail")

    monkeypatch.setattr("quadrill.app.resources.streams.describe_streams", broken)
    answer = server.client.get("/streams")
    assert answer.status_code == 500
    document = answer.json()
    assert "secret" not in answer.text
    assert document["incident"] in caplog.text
    assert server.client.get("/queries").status_code == 200


def test_health_tells_alive_from_ready(start_server: Start) -> None:
    server = start_server()
    assert server.client.get("/health/live").json() == {"status": "live"}
    ready = server.client.get("/health/ready")
    assert ready.status_code == 200
    assert ready.json()["checks"] == {"store": "ok", "registry": "ok", "engine": "ok"}
    assert ready.json()["version"] == version("quadrill")
    server.services.engine.stop()
    stopped = server.client.get("/health/ready")
    assert stopped.status_code == 503
    assert stopped.json()["checks"]["engine"] != "ok"
    assert stopped.json()["version"] == version("quadrill")


def test_metrics_count_requests_by_route(start_server: Start) -> None:
    server = start_server()
    server.update("INSERT DATA { <urn:a> <urn:b> 1, 2 }")
    server.client.get("/queries/nobody")
    counted = 'quadrill_http_requests_total{method="GET",route="/queries/<part:name>",status="404"} 1.0'
    eventually(lambda: counted in server.client.get("/metrics").text)
    text = server.client.get("/metrics").text
    assert "quadrill_store_quads 2.0" in text
    assert "quadrill_store_version 1.0" in text


def test_requests_are_logged_one_line_each(start_server: Start, tmp_path: object) -> None:
    log = f"{tmp_path}/access.log"
    server = start_server(access_log=log)
    server.client.get("/health/live?x=1")
    (line,) = eventually(lambda: Path(log).read_text(encoding="utf-8").splitlines())
    assert '"GET /health/live?x=1" 200' in line


def test_running_queries_are_listed_and_can_be_stopped(server: LiveServer) -> None:
    values = " ".join(map(str, range(500)))
    text = f"SELECT * {{ VALUES ?x {{ {values} }} VALUES ?y {{ {values} }} VALUES ?z {{ {values} }} }}"
    with server.client.stream("GET", "/query", params={"query": text}) as answer:
        pieces = answer.iter_bytes()
        next(pieces)
        (process,) = server.client.get("/processes").json()["processes"]
        assert process["text"] == text
        assert process["seconds"] >= 0
        assert server.client.delete(f"/processes/{process['id']}").status_code == 204
        with pytest.raises(Exception, match="peer closed|incomplete"):
            for _ in pieces:
                pass
    assert server.client.get("/processes").json() == {"processes": []}
    assert server.client.delete("/processes/999").status_code == 404


def test_a_stop_that_has_waited_long_enough_tells_who_waits_for_the_engine(tmp_path: Path) -> None:
    services = open_services(Settings(data=str(tmp_path), port=0))
    services.start()
    engine = services.engine
    found: list[int] = []

    def push(at: int, *, wait: bool) -> None:
        line = b"<urn:a> <urn:b> <urn:c> .\n"
        try:
            engine.streams.push(PushCall("urn:s", "application/n-triples", at=at, wait=wait), line)
        except EngineStoppedError:
            found.append(at)

    with engine.parts.sequencer.paused:  # the first turn does not get on, the others stand in line
        push(1, wait=False)
        before = engine.parts.tasks.order
        waiting = threading.Thread(target=push, args=(2,), kwargs={"wait": True})
        waiting.start()
        while engine.parts.tasks.order == before:
            time.sleep(0.01)
        services.cancel()
        waiting.join(5)
        assert found == [2] and services.engine_ended is False
        services.close()
        assert services.store.reader.quad_count == 0, "the store is open as long as the turn is at work"
    assert engine.stop(), "the turn has ended"
    services.store.close()
    services.registry.close()
