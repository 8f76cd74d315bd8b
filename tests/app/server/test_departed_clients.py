"""A client that leaves ends the work for its request; one that only stops sending does not."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from tests.app.conftest import LiveServer, Start
from tests.app.server.proxies import haproxy, nginx
from tests.app.test_server import eventually

SOON_S = 5.0
"""One second is what the server needs by itself; a machine that runs other tests as well needs more of them.
Work that nobody ends goes on for minutes."""
PRODUCT = "{ ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z FILTER(?x + ?y + ?z < 0) }"
QUERIES = [
    f"SELECT * WHERE {PRODUCT}",
    f"ASK {PRODUCT}",
    f"CONSTRUCT {{ ?a ?x ?y }} WHERE {PRODUCT}",
    f"SELECT (COUNT(*) AS ?n) WHERE {PRODUCT}",
]
UPDATE = f"INSERT {{ ?a <http://e/q> ?y }} WHERE {PRODUCT}"
BRIEF = f"SELECT (COUNT(*) AS ?n) WHERE {PRODUCT.replace('< 0', '< 0 && ?x < 1')}"
Proxy = Callable[..., AbstractContextManager[str]]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveServer]:
    with running.serve(Settings(data=str(tmp_path_factory.mktemp("data")), port=0)) as found:
        server = LiveServer(found)
        rows = " ".join(f"<http://e/{n}> <http://e/p> {n} ." for n in range(700))
        assert server.update(f"INSERT DATA {{ {rows} }}").status_code == 204
        yield server
        server.client.close()


def post(path: str, text: str, version: str = "1.1", more: str = "") -> bytes:
    kind = "update" if path == "/update" else "query"
    head = f"POST {path} HTTP/{version}\r\nHost: 127.0.0.1\r\nContent-Type: application/sparql-{kind}\r\n"
    return f"{head}{more}Content-Length: {len(text)}\r\n\r\n{text}".encode()


def connected(url: str) -> socket.socket:
    parts = urlsplit(url)
    return socket.create_connection((parts.hostname or "", parts.port or 0), timeout=30)


def processes(server: LiveServer) -> list[dict[str, object]]:
    listed: list[dict[str, object]] = server.client.get("/processes").json()["processes"]
    return listed


def wait_until_it_runs(server: LiveServer, number: int = 1) -> None:
    eventually(lambda: len(processes(server)) == number)
    time.sleep(0.3)
    assert len(processes(server)) == number


def seconds_until_none_runs(server: LiveServer) -> float:
    began = time.monotonic()
    while processes(server):
        assert time.monotonic() - began < 10, processes(server)
        time.sleep(0.02)
    return time.monotonic() - began


def everything(client: socket.socket) -> bytes:
    found = b""
    while piece := client.recv(1 << 16):
        found += piece
    return found


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


@pytest.mark.always("*-close-1.1", "*-reset-1.0")
@pytest.mark.parametrize("version", ["1.0", "1.1"])
@pytest.mark.parametrize("leave", [socket.socket.close, reset])
@pytest.mark.parametrize("text", QUERIES)
def test_query_of_a_client_that_leaves_is_stopped_within_a_second(
    filled: LiveServer, text: str, leave: Callable[[socket.socket], None], version: str
) -> None:
    client = connected(filled.url)
    client.sendall(post("/query", text, version))
    wait_until_it_runs(filled)
    leave(client)
    assert seconds_until_none_runs(filled) < SOON_S


@pytest.mark.parametrize("path", ["/update", "/sparql"])
def test_update_of_a_client_that_leaves_is_stopped_and_changes_nothing(filled: LiveServer, path: str) -> None:
    version = filled.services.store.reader.version
    client = connected(filled.url)
    client.sendall(post("/update", UPDATE).replace(b"/update", path.encode(), 1))
    wait_until_it_runs(filled)
    client.close()
    assert seconds_until_none_runs(filled) < SOON_S
    assert filled.services.store.reader.version == version
    assert filled.update("INSERT DATA { <urn:a> <urn:b> 1 }").status_code == 204


def test_queries_that_wait_for_a_worker_are_stopped_too(filled: LiveServer) -> None:
    clients = [connected(filled.url) for _ in range(6)]
    for each in clients:
        each.sendall(post("/query", QUERIES[0]))
    wait_until_it_runs(filled, 6)
    for each in clients:
        each.close()
    assert seconds_until_none_runs(filled) < SOON_S
    assert filled.boolean("ASK {}")


@pytest.mark.always("/query*nginx-", "/update*nginx-p*", "/query*mode http*", "/update*mode tcp")
@pytest.mark.parametrize(
    ("proxy", "more"),
    [
        (nginx, ""),
        (nginx, 'proxy_http_version 1.1; proxy_set_header Connection "";'),
        (haproxy, "mode http\n  option abortonclose"),
        (haproxy, "mode tcp"),
    ],
)
@pytest.mark.parametrize(("path", "text"), [("/query", QUERIES[0]), ("/update", UPDATE)])
def test_proxy_whose_client_leaves_ends_the_work(
    start_server: Start, tmp_path: Path, proxy: Proxy, more: str, path: str, text: str
) -> None:
    server = start_server()
    rows = " ".join(f"<http://e/{n}> <http://e/p> {n} ." for n in range(700))
    assert server.update(f"INSERT DATA {{ {rows} }}").status_code == 204
    with proxy(tmp_path, server.url, more) as url:
        client = connected(url)
        client.sendall(post(path, text))
        wait_until_it_runs(server)
        client.close()
        assert seconds_until_none_runs(server) < SOON_S
        with contextlib.closing(connected(url)) as client:
            client.sendall(post("/query", "ASK {}", more="Connection: close\r\n"))
            assert b'"boolean":true' in everything(client)


@pytest.mark.slow
def test_client_that_only_stops_sending_gets_its_answer(filled: LiveServer) -> None:
    with contextlib.closing(connected(filled.url)) as client:
        client.sendall(post("/query", BRIEF))
        client.shutdown(socket.SHUT_WR)
        answer = everything(client)
    interim = b"HTTP/1.1 100 Continue\r\n\r\n"
    rest = answer.replace(interim, b"")
    assert answer.startswith(interim)
    assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b'"n"' in rest


def test_short_answer_to_a_client_that_stops_sending_has_no_interim_answer(filled: LiveServer) -> None:
    with contextlib.closing(connected(filled.url)) as client:
        client.sendall(post("/query", "ASK {}"))
        client.shutdown(socket.SHUT_WR)
        assert everything(client).startswith(b"HTTP/1.1 200 OK\r\n")


def test_requests_in_a_row_are_all_answered_when_the_client_stops_sending(filled: LiveServer) -> None:
    with contextlib.closing(connected(filled.url)) as client:
        client.sendall(post("/query", "ASK {}") + post("/query", BRIEF) + post("/query", "ASK {}"))
        client.shutdown(socket.SHUT_WR)
        answer = everything(client)
    assert answer.count(b"HTTP/1.1 200 OK\r\n") == 3


def test_query_behind_another_one_is_stopped_when_the_client_leaves(filled: LiveServer) -> None:
    client = connected(filled.url)
    client.sendall(post("/query", QUERIES[0]) + post("/query", QUERIES[1]))
    wait_until_it_runs(filled)
    client.close()
    assert seconds_until_none_runs(filled) < SOON_S


def test_other_clients_are_not_stopped(filled: LiveServer) -> None:
    stays, leaves = connected(filled.url), connected(filled.url)
    stays.sendall(post("/query", QUERIES[0]))
    leaves.sendall(post("/query", QUERIES[0]))
    wait_until_it_runs(filled, 2)
    leaves.close()
    eventually(lambda: len(processes(filled)) == 1)
    time.sleep(1)
    assert len(processes(filled)) == 1
    stays.close()
    assert seconds_until_none_runs(filled) < SOON_S


MAPPING = {
    "mapping": {
        "format": "json",
        "construct": "CONSTRUCT { <urn:s> <urn:p> ?x } WHERE { "
        + " ".join(f"VALUES ?v{n} {{ 0 1 2 3 4 5 6 7 8 9 }}" for n in range(3))
        + " BIND(?v0 + ?v1 + ?v2 AS ?x) }",
    },
    "records": [{"a": n} for n in range(20)],
}


def test_a_client_that_stops_sending_still_gets_its_mapped_records(filled: LiveServer) -> None:
    text = json.dumps(MAPPING)
    head = "POST /streams:map HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with connected(filled.url) as client:
        client.sendall(f"{head}Connection: close\r\nContent-Length: {len(text)}\r\n\r\n{text}".encode())
        client.shutdown(socket.SHUT_WR)
        received = b"".join(iter(lambda: client.recv(65536), b""))
    while received.startswith(b"HTTP/1.1 100"):
        received = received.partition(b"\r\n\r\n")[2]
    assert received.startswith(b"HTTP/1.1 200") and b"<urn:s> <urn:p>" in received
