"""Clients that send slowly, do not read, or are many: others are answered all the while."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from tests.app.conftest import LiveServer, Start
from tests.app.test_server import connect, read_all

HOST = b"Host: 127.0.0.1\r\n"
HALF = b"GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: 127.0"
PLAIN = b"GET /query?query=ASK%7B%7D HTTP/1.1\r\n" + HOST + b"\r\n"
UPLOAD = b"POST /store?default HTTP/1.1\r\n" + HOST + b"Content-Type: text/turtle\r\n"
TURTLE = {"Content-Type": "text/turtle"}


def large_answer() -> bytes:
    values = " ".join(map(str, range(400)))
    text = f"SELECT * {{ VALUES ?x {{ {values} }} VALUES ?y {{ {values} }} VALUES ?z {{ {values} }} }}"
    head = b"POST /query HTTP/1.1\r\n" + HOST + b"Content-Type: application/sparql-query\r\n"
    return head + b"Content-Length: %d\r\n\r\n" % len(text) + text.encode()


@contextlib.contextmanager
def clients(server: LiveServer, number: int, first: bytes) -> Iterator[list[socket.socket]]:
    """So many connections that have said the same."""
    with ExitStack() as stack:
        found = [stack.enter_context(connect(server)) for _ in range(number)]
        for each in found:
            each.sendall(first)
        yield found


def trickle(slow: list[socket.socket], done: threading.Event) -> None:
    while not done.wait(0.05):
        for each in slow:
            with contextlib.suppress(OSError):
                each.send(b"#")


def longest(server: LiveServer, times: int, *paths: str) -> float:
    """The longest of so many requests to each path, each over a connection of its own."""
    worst = 0.0
    for _ in range(times):
        for path in paths:
            began = time.monotonic()
            with connect(server) as client:
                client.sendall(b"GET %b HTTP/1.1\r\n" % path.encode() + HOST + b"Connection: close\r\n\r\n")
                answer = read_all(client)
            worst = max(worst, time.monotonic() - began)
            assert answer.startswith(b"HTTP/1.1 200 "), answer
    return worst


def test_others_are_answered_within_a_second_beside_slow_heads_slow_bodies_and_slow_readers(
    start_server: Start,
) -> None:
    server = start_server()
    # A server that has run for a while: its processes for heavy queries are there.
    with clients(server, 2, large_answer()) as first:
        assert all(each.recv(1000).startswith(b"HTTP/1.1 200 ") for each in first)
    assert server.boolean("ASK {}")
    done = threading.Event()
    length = b"Content-Length: 1000000\r\n\r\n" + b"#" * 70_000
    chunks = b"Transfer-Encoding: chunked\r\n\r\n" + b"11170\r\n" + b"#" * 70_000 + b"\r\nfffff\r\n"
    with (
        clients(server, 64, HALF),
        clients(server, 8, UPLOAD + length) as plain,
        clients(server, 8, UPLOAD + chunks) as chunked,
        clients(server, 16, large_answer()),
    ):
        trickling = threading.Thread(target=trickle, args=([*plain, *chunked], done))
        trickling.start()
        try:
            worst = longest(server, 50, "/health/live", "/query?query=ASK%20%7B%7D")
        finally:
            done.set()
            trickling.join()
    assert worst < 1.0


def test_uploads_that_send_a_byte_now_and_then_do_not_hold_all_workers(start_server: Start) -> None:
    """They are more than there may be workers, and none is ever silent for long."""
    server = start_server()
    done = threading.Event()

    def drip(slow: list[socket.socket]) -> None:
        while not done.wait(0.4):
            for each in slow:
                with contextlib.suppress(OSError):
                    each.send(b"#")

    with clients(server, 80, UPLOAD + b"Content-Length: 9000000\r\n\r\n" + b"#" * 70_000) as slow:
        dripping = threading.Thread(target=drip, args=(slow,))
        dripping.start()
        try:
            worst = longest(server, 3, "/query?query=ASK%20%7B%7D")
        finally:
            done.set()
            dripping.join()
    assert worst < 6.0


def test_health_and_figures_have_lanes_of_their_own(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every worker is busy, more are not allowed, and a line stands behind them."""
    server = start_server(threads=2)
    done = threading.Event()
    monkeypatch.setattr(
        "quadrill.app.resources.streams.describe_streams", lambda _engine: done.wait(20) and []
    )
    with clients(server, 20, b"GET /streams HTTP/1.1\r\n" + HOST + b"\r\n"):
        time.sleep(0.5)
        with pytest.raises(httpx.TimeoutException):
            httpx.get(f"{server.url}prefixes", timeout=0.3)
        worst = longest(server, 10, "/health/live", "/health/ready", "/metrics", "/processes")
        done.set()
        assert longest(server, 1, "/prefixes") < 10
    assert worst < 1.0


def test_half_a_head_is_given_up_after_its_time_and_silence_is_not_answered(start_server: Start) -> None:
    server = start_server(header_timeout=0.3, request_timeout=1.0)
    began = time.monotonic()
    with connect(server) as half, connect(server) as silent:
        half.sendall(HALF)
        assert read_all(half).startswith(b"HTTP/1.1 408 ")
        assert 0.3 <= time.monotonic() - began < 1.0
        assert read_all(silent) == b""
        assert 1.0 <= time.monotonic() - began < 3.0


@pytest.mark.parametrize("piece", [b"", b"#"])
def test_a_body_that_comes_too_slowly_is_given_up(start_server: Start, piece: bytes) -> None:
    """A small one by the thread that reads, a large one by its worker; a byte now and then does not help."""
    server = start_server(request_timeout=0.5)
    for first in (b"Content-Length: 1000\r\n\r\n#", b"Content-Length: 1000000\r\n\r\n" + b"#" * 70_000):
        began = time.monotonic()
        with connect(server) as client:
            client.sendall(UPLOAD + first)
            client.settimeout(0.1)
            answer = b""
            while b"\r\n\r\n" not in answer:
                with contextlib.suppress(TimeoutError):
                    answer += client.recv(1000)
                with contextlib.suppress(OSError):
                    client.send(piece)
                assert time.monotonic() - began < 5
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"problem+json" in answer


def test_the_oldest_unfinished_request_of_an_address_makes_room(start_server: Start) -> None:
    server = start_server(max_unfinished_per_address=3)
    with ExitStack() as stack:
        half = []
        for _ in range(5):
            half.append(stack.enter_context(connect(server)))
            half[-1].sendall(HALF)
            # Nobody is given up whose rest may be on its way.
            time.sleep(1.2 if len(half) == 3 else 0.05)
        assert [read_all(each)[:13] for each in half[:2]] == [b"HTTP/1.1 408 "] * 2
        for each in half[2:]:
            each.sendall(b"\r\nConnection: close\r\n\r\n")
            # The host that was sent in halves is another one.
            assert read_all(each).startswith(b"HTTP/1.1 403 ")


def test_an_address_has_so_many_connections_and_idle_ones_make_room(start_server: Start) -> None:
    server = start_server(max_connections_per_address=3)
    with ExitStack() as stack:
        first = [stack.enter_context(connect(server)) for _ in range(3)]
        for each in first:
            each.sendall(PLAIN)
            assert each.recv(1000).startswith(b"HTTP/1.1 200 ")
        with connect(server) as refused:
            assert read_all(refused).startswith(b"HTTP/1.1 503 ")
        time.sleep(1.3)
        with connect(server) as taken:
            taken.sendall(PLAIN)
            assert taken.recv(1000).startswith(b"HTTP/1.1 200 ")
        kept = 0
        for each in first:
            each.sendall(PLAIN)
            with contextlib.suppress(ConnectionResetError):
                kept += each.recv(1000).startswith(b"HTTP/1.1 200 ")
        assert kept == 2


def test_connections_that_end_are_counted_off(start_server: Start) -> None:
    server = start_server(max_connections_per_address=4, sse_heartbeat=0.2)
    for _ in range(20):
        for request in (
            PLAIN,
            PLAIN.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),
            b"nonsense\r\n",
            b"",
        ):
            deadline = time.monotonic() + 5
            while True:
                with connect(server) as client:
                    client.sendall(request)
                    # What was closed a moment ago may still be counted.
                    if not request or not client.recv(1000).startswith(b"HTTP/1.1 503 "):
                        break
                assert time.monotonic() < deadline
    with server.client.stream("GET", "/changes", headers={"Accept": "text/event-stream"}) as events:
        assert next(events.iter_lines())
        assert longest(server, 5, "/health/live") < 5
