"""Webhook sinks and sources next to peers that answer slowly, without end, or packed a thousand times."""

from __future__ import annotations

import json
import resource
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from quadrill.app.connectors.source import SourceContext
from quadrill.store.network import connections
from tests.app.conftest import LiveServer, Start
from tests.app.test_feed_streams import until
from tests.hostile_peers import Answer, bomb, bytewise, endless, peer, silent, slow_body

OK = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
TEXT = "SELECT ?s { STREAM <http://e/s> [NOW] { ?s <urn:p> ?o } }"


def sink(start_server: Start, url: str, **members: Any) -> LiveServer:
    """A server with a sink and one event for it."""
    server = start_server(remote_hosts=("127.0.0.1",))
    assert server.client.post("/queries", json={"query": TEXT, "name": "q"}).status_code == 201
    given = {"query": "q", "kind": "webhook", "url": url, "from": 0, **members}
    assert server.client.put("/sinks/it", json=given).status_code == 201
    push = {"params": {"iri": "http://e/s", "at": "1"}, "headers": {"Content-Type": "application/n-triples"}}
    assert server.client.post("/streams", content="<urn:a> <urn:p> 1 .", **push).status_code in (200, 400)
    assert server.client.post("/streams", content='<urn:a> <urn:p> "1" .', **push).status_code == 200
    return server


def test_lag_of_a_sink_counts_all_events_that_wait(start_server: Start) -> None:
    server = sink(start_server, "http://127.0.0.1:1/")
    lines = "".join(
        json.dumps({"at": n + 2, "data": f'<urn:{n}> <urn:p> "1" .'}) + "\n" for n in range(1_699)
    )
    push = {"params": {"iri": "http://e/s"}, "headers": {"Content-Type": "application/x-ndjson"}}
    assert server.client.post("/streams", content=lines, **push).status_code == 200
    until(lambda: state(server)["lag"] == 1_700, 20)
    until(lambda: state(server)["state"] == "waiting", 20)


def state(server: LiveServer) -> dict[str, Any]:
    return dict(server.client.get("/sinks/it").json())


@pytest.mark.parametrize("answer", [endless(OK), bomb(OK), endless(OK + b"Content-Encoding: gzip\r\n")])
def test_a_sink_reads_the_head_and_little_of_the_body(start_server: Start, answer: Answer) -> None:
    with peer(answer) as far:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        server = sink(start_server, far.url)
        until(lambda: state(server)["position"] == 1, 20)
        until(lambda: far.left == len(far.asked) or far.sent < 8 << 20, 20)
        assert state(server)["error"] is None
        # The buffers of both sockets take some megabytes.
        assert far.sent < 16 << 20
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 << 10


@pytest.mark.parametrize("answer", [silent, bytewise(OK + b"Content-Length: 0\r\n\r\n", 0.1)])
def test_the_time_out_of_a_sink_is_the_deadline_of_the_exchange(start_server: Start, answer: Answer) -> None:
    with peer(answer) as far:
        server = sink(start_server, far.url, timeout="1s")
        until(lambda: state(server)["state"] == "waiting", 15)
        assert "has not answered within 1 seconds" in state(server)["error"]
        until(lambda: len(far.asked) > 1, 15)


def test_a_slow_body_behind_a_head_holds_a_sink_until_its_deadline_only(start_server: Start) -> None:
    with peer(slow_body(OK, 0.1)) as far:
        server = sink(start_server, far.url, timeout="1s")
        until(lambda: state(server)["position"] == 1, 15)
        assert state(server)["error"] is None and len(far.asked) == 1


@pytest.mark.parametrize("answer", [silent, slow_body(OK), bytewise(OK)])
def test_delete_ends_the_exchange_of_a_sink(start_server: Start, answer: Answer) -> None:
    with peer(answer) as far:
        server = sink(start_server, far.url, timeout="60s")
        until(lambda: len(far.asked) == 1, 15)
        began = time.monotonic()
        assert server.client.delete("/sinks/it").status_code == 204
        assert time.monotonic() - began < 8
        if answer is not silent:
            until(lambda: far.left == 1, 8)


@pytest.mark.always("silent-poll", "answer*-sse")
@pytest.mark.parametrize("kind", ["poll", "sse"])
@pytest.mark.parametrize("answer", [silent, bytewise(OK, 0.1)])
def test_a_source_has_a_deadline_for_the_head_and_ends_when_it_is_dropped(
    start_server: Start, kind: str, answer: Answer
) -> None:
    with peer(answer) as far:
        server = start_server(remote_hosts=("127.0.0.1",))
        given = {"kind": kind, "url": far.url, "stream": "http://e/s", "timeout": "1s"}
        assert server.client.put("/sources/it", json=given).status_code == 201
        until(lambda: server.client.get("/sources/it").json()["state"] == "waiting", 15)
        assert server.client.put("/sources/it", json=given | {"timeout": "60s"}).status_code == 200
        count = len(far.asked)
        until(lambda: len(far.asked) > count - 1, 15)
        began = time.monotonic()
        assert server.client.delete("/sources/it").status_code == 204
        assert time.monotonic() - began < 8


def test_an_event_stream_that_unpacks_to_a_thousand_times_its_size_takes_no_memory(
    start_server: Start,
) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    with peer(bomb(head, 200)) as far:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        server = start_server(remote_hosts=("127.0.0.1",))
        given = {"kind": "sse", "url": far.url, "stream": "http://e/s"}
        assert server.client.put("/sources/it", json=given).status_code == 201
        until(lambda: server.client.get("/sources/it").json()["state"] == "waiting", 30)
        assert "longer than" in server.client.get("/sources/it").json()["error"]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 400 << 10


def test_long_messages_of_a_websocket_are_bounded_by_their_bytes(start_server: Start) -> None:
    """A peer that sends 1,000 messages of a megabyte at once: few of them wait at a time."""
    serving = pytest.importorskip("websockets.sync.server", reason="needs the library websockets")
    sent = []

    def talk(connection: Any) -> None:
        line = "<urn:a> <urn:p> " + '"' + "x" * (1 << 20) + '" .'
        for _ in range(300):
            connection.send(line)
            sent.append(1)

    with serving.serve(talk, "127.0.0.1", 0, compression=None) as there:
        threading.Thread(target=there.serve_forever, daemon=True).start()
        url = f"ws://127.0.0.1:{there.socket.getsockname()[1]}/"
        server = start_server(remote_hosts=("127.0.0.1",))
        batches: list[int] = []
        push_messages = SourceContext.push_messages

        def noted(context: SourceContext, messages: Any, media_type: str) -> None:
            batches.append(sum(len(message.body) for message, _ in messages))
            time.sleep(0.05)
            push_messages(context, messages[:1], media_type)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SourceContext, "push_messages", noted)
            given = {
                "kind": "websocket",
                "url": url,
                "stream": "http://e/s",
                "format": "application/n-triples",
            }
            assert server.client.put("/sources/it", json=given).status_code == 201
            until(lambda: len(batches) >= 5, 20)
            assert server.client.delete("/sources/it").status_code == 204
        there.shutdown()
    assert max(batches) <= (5 << 20) + 1_000


SOURCES = {
    "poll": "http://slow.example/",
    "sse": "https://slow.example/",
    "websocket": "ws://slow.example/",
    "mqtt": "mqtt://slow.example",
}


@pytest.fixture
def silent_resolver(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The names that a resolver was asked for that does not answer for ``slow.example``."""
    asked: list[str] = []
    go_on, resolve = threading.Event(), socket.getaddrinfo

    def getaddrinfo(host: str, *arguments: Any, **named: Any) -> Any:
        if host != "slow.example":
            return resolve(host, *arguments, **named)
        asked.append(host)
        assert go_on.wait(60)
        raise socket.gaierror("nobody knows it")

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(connections, "_LOOKUPS", connections._Lookups())
    yield asked
    go_on.set()


@pytest.mark.parametrize("kind", SOURCES)
def test_delete_ends_a_source_whose_name_server_is_silent(
    start_server: Start, silent_resolver: list[str], kind: str
) -> None:
    server = start_server(remote_hosts=("slow.example",))
    given = {"kind": kind, "url": SOURCES[kind], "stream": "http://e/s", "format": "application/n-triples"}
    if kind == "mqtt":
        given["topic"] = "t"
    assert server.client.put("/sources/it", json=given).status_code == 201
    until(lambda: silent_resolver, 20)
    began = time.monotonic()
    assert server.client.delete("/sources/it").status_code == 204
    assert time.monotonic() - began < 5


def test_a_sink_whose_name_server_is_silent_waits_and_can_be_deleted(
    start_server: Start, silent_resolver: list[str]
) -> None:
    server = start_server(remote_hosts=("slow.example",))
    assert server.client.post("/queries", json={"query": TEXT, "name": "q"}).status_code == 201
    given = {"query": "q", "kind": "webhook", "url": "http://slow.example/", "from": 0, "timeout": "500ms"}
    assert server.client.put("/sinks/it", json=given).status_code == 201
    push = {"params": {"iri": "http://e/s", "at": "1"}, "headers": {"Content-Type": "application/n-triples"}}
    assert server.client.post("/streams", content='<urn:a> <urn:p> "1" .', **push).status_code == 200
    until(lambda: state(server)["state"] == "waiting", 20)
    began = time.monotonic()
    assert server.client.delete("/sinks/it").status_code == 204
    assert time.monotonic() - began < 5
