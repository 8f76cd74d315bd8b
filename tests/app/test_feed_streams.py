"""Feeds through the process that writes event streams: one frame for all, nothing twice, nothing missing."""

from __future__ import annotations

import logging
import os
import random
import selectors
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from quadrill.app.feeds.broadcast import Greeting
from quadrill.app.feeds.fanout import Fanout
from quadrill.app.feeds.query_feeds import FeedSource, encode
from quadrill.store.feeds.feed import Feed
from tests.app.conftest import Start
from tests.app.events import EventReader


@pytest.fixture
def fanout() -> Iterator[Fanout]:
    started = Fanout()
    started.start()
    yield started
    started.stop()


def connect(fanout: Fanout, feed: Feed, after_id: int | None = None) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    FeedSource(feed, after_id, snapshot=False).hand_over(fanout, theirs, Greeting(b"HEAD;\n\n"))
    return ours


def ids(client: socket.socket, last: int) -> list[int]:
    """The ids that a client gets up to one."""
    data = b""
    while f"id: {last}\n".encode() not in data or not data.endswith(b"\n\n"):
        piece = client.recv(1 << 16)
        assert piece, data[-200:]
        data += piece
    return [int(line[4:]) for line in data.split(b"\n") if line.startswith(b"id: ")]


def publish(feed: Feed, count: int = 1) -> None:
    for _ in range(count):
        feed.publish([("insert", '{"n": 1}')])


def until(condition: object, seconds: float = 10.0) -> None:
    deadline = time.monotonic() + seconds
    assert callable(condition)
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def writer_of(fanout: Fanout) -> int:
    assert fanout.process_id is not None
    return fanout.process_id


def test_those_who_join_while_events_come_miss_nothing_and_get_nothing_twice(fanout: Fanout) -> None:
    feed = Feed("f", history=10_000)
    done = threading.Event()
    chance = random.Random(1)

    def work() -> None:
        while not done.is_set():
            publish(feed)
            time.sleep(0.0005)

    worker = threading.Thread(target=work)
    worker.start()
    clients = []
    try:
        for _ in range(60):
            after = chance.randrange(feed.history.last_id + 1)
            clients.append((after, connect(fanout, feed, after)))
            time.sleep(chance.random() * 0.005)
    finally:
        done.set()
        worker.join()
    for after, client in clients:
        assert ids(client, feed.history.last_id) == list(range(after + 1, feed.history.last_id + 1))
        client.close()


def test_a_thousand_subscribers_get_every_event_and_each_is_encoded_once(fanout: Fanout) -> None:
    feed = Feed("f")
    clients = [connect(fanout, feed) for _ in range(1_000)]
    assert feed.subscribers == fanout.clients == 1_000
    encoded = encode.cache_info().misses
    for number in range(20):
        feed.publish([("insert", f'{{"thousand": {number}}}')])
    assert encode.cache_info().misses == encoded + 20
    wanted = b"HEAD;\n\n" + b"".join(encode(event) for event in feed.subscribe(0).take())
    received = dict.fromkeys(clients, b"")
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client, selectors.EVENT_READ)
        deadline = time.monotonic() + 30
        missing = len(clients)
        while missing:
            assert time.monotonic() < deadline
            for key, _ in selector.select(1.0):
                client = key.fileobj
                assert isinstance(client, socket.socket)
                received[client] += client.recv(1 << 16)
                missing -= len(received[client]) == len(wanted)
    assert set(received.values()) == {wanted}
    for client in clients:
        client.close()
    until(lambda: fanout.clients == 0)
    # The subscription above stays; the channel has left the feed.
    assert feed.subscribers == 1


def test_when_the_last_one_has_left_the_next_one_is_served_again(fanout: Fanout) -> None:
    feed = Feed("f")
    for number in range(1, 6):
        with connect(fanout, feed) as client:
            assert feed.subscribers == 1
            publish(feed)
            assert ids(client, number) == [number]
        until(lambda: feed.subscribers == 0)


def test_the_end_of_a_feed_ends_its_streams_after_the_last_event(fanout: Fanout) -> None:
    feed = Feed("f")
    with connect(fanout, feed) as client, connect(fanout, feed) as other:
        publish(feed, 3)
        feed.close()
        for each in (client, other):
            assert ids(each, 3) == [1, 2, 3]
            assert each.recv(100) == b""
    with connect(fanout, feed, 1) as late:
        assert ids(late, 3) == [2, 3]
        assert late.recv(100) == b""


def test_a_subscriber_that_is_too_slow_leaves_alone() -> None:
    fanout = Fanout(buffer_bytes=10_000)
    feed = Feed("f", history=5)
    with connect(fanout, feed), connect(fanout, feed) as quick:
        for number in range(1, 400):
            feed.publish([("insert", "x" * 20_000)])
            assert ids(quick, number) == [number]
            if fanout.figures.dropped:
                break
        until(lambda: feed.subscribers == 1)
        assert fanout.figures.dropped == 1
    fanout.stop()


def test_a_quick_subscriber_gets_what_comes_at_once_and_is_larger_than_its_buffer() -> None:
    fanout = Fanout(buffer_bytes=10_000)
    feed = Feed("f")
    with connect(fanout, feed) as quick, connect(fanout, feed) as slow:
        for number in range(1, 5):
            feed.publish([("insert", "x" * 20_000)] * 100)
            feed.publish([("insert", "y")])
            last = number * 101
            assert ids(quick, last) == list(range(last - 100, last + 1))
        until(lambda: feed.subscribers == 1)
        assert fanout.figures.dropped == 1, "who reads nothing is too slow"
        got = b""
        while piece := slow.recv(1 << 16):
            got += piece
        assert b"id: 1\n" in got and b"id: 404\n" not in got
    fanout.stop()


def test_a_writer_that_is_killed_is_replaced_and_clients_resume_without_gap(start_server: Start) -> None:
    server = start_server()
    text = "PREFIX : <http://e/> SELECT ?v WHERE { STREAM :s [NOW] { ?x :p ?v } }"
    assert server.client.put("/queries/q", json={"query": text}).status_code == 201

    def push(number: int) -> None:
        body = f"<http://e/x> <http://e/p> {number} ."
        headers = {"Content-Type": "text/turtle"}
        answer = server.client.post("/streams?iri=http://e/s&wait=true", content=body, headers=headers)
        assert answer.status_code == 200, answer.text

    fanout = server.services.fanout
    with EventReader(server, "/queries/q/results") as reader:
        push(1)
        assert [event.id for event in reader.take(1)] == ["1"]
        os.kill(writer_of(fanout), signal.SIGKILL)
        until(lambda: fanout.figures.restarts == 1)
        # The sources are closed after the restart is counted.
        until(lambda: (fanout.clients, server.services.engine.queries.feed("q").subscribers) == (0, 0))
    push(2)
    with EventReader(server, "/queries/q/results", headers={"Last-Event-ID": "1"}) as reader:
        assert [event.id for event in reader.take(1)] == ["2"]
        push(3)
        assert [event.id for event in reader.take(1)] == ["3"]
        assert fanout.figures.restarts == 1


def test_a_writer_that_never_lives_is_replaced_by_a_thread(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit(1)\n")
    fanout = Fanout(script=str(script))
    feed = Feed("f")
    with caplog.at_level(logging.ERROR):
        for attempt in range(1, 4):
            with connect(fanout, feed) as client:
                assert client.recv(100) == b""
            until(lambda attempt=attempt: fanout.figures.restarts == attempt)
    assert "a thread replaces the process" in caplog.text
    with connect(fanout, feed) as client:
        publish(feed)
        assert ids(client, 1) == [1]
    fanout.stop()


def test_stopping_ends_the_process() -> None:
    fanout = Fanout()
    feed = Feed("f")
    with connect(fanout, feed) as client:
        publish(feed)
        assert ids(client, 1) == [1]
        child = writer_of(fanout)
        fanout.stop()
        with pytest.raises(ProcessLookupError):
            os.kill(child, 0)
        assert client.recv(100) == b""
