"""The fan-out thread: many subscribers, slow ones, ended ones."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from quadrill.app.feeds.broadcast import Greeting
from quadrill.app.feeds.fanout import Fanout
from quadrill.app.feeds.sources import frame
from tests.app.conftest import Start
from tests.app.events import EventReader


class Source:
    """A source that tests fill by hand."""

    def __init__(self) -> None:
        self.finished = self.more = False
        self.closed = threading.Event()
        self._frames: list[bytes] = []
        self._wake: Callable[[], None] = lambda: None

    def put(self, *frames: bytes) -> None:
        self._frames.extend(frames)
        self._wake()

    @property
    def waits(self) -> bool:
        return bool(self._frames)

    def finish(self) -> None:
        self.finished = True
        self._wake()

    def take(self) -> list[bytes]:
        taken, self._frames = self._frames, []
        return taken

    def listen(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def close(self) -> None:
        self.closed.set()


@pytest.fixture(params=["process", "thread"])
def fanout(request: pytest.FixtureRequest) -> Iterator[Fanout]:
    started = Fanout(heartbeat=30.0, buffer_bytes=10_000, process=request.param == "process")
    started.start()
    yield started
    started.stop()


def connect(fanout: Fanout, source: Source) -> socket.socket:
    ours, theirs = socket.socketpair()
    ours.settimeout(10)
    fanout.adopt(theirs, source, Greeting(b"HEAD;"))
    return ours


def read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = client.recv(size - len(data))
        if not piece:
            break
        data += piece
    return data


def test_the_head_goes_out_at_once_and_frames_follow_in_order(fanout: Fanout) -> None:
    source = Source()
    with connect(fanout, source) as client:
        assert read(client, 5) == b"HEAD;"
        source.put(b"one;", b"two;")
        source.put(b"three;")
        assert read(client, 14) == b"one;two;three;"


def test_a_thousand_subscribers_share_one_thread(fanout: Fanout) -> None:
    with connect(fanout, Source()) as first:
        read(first, 5)
    before = threading.active_count()
    sources = [Source() for _ in range(300)]
    clients = [connect(fanout, source) for source in sources]
    for number in range(3):
        for source in sources:
            source.put(b"event %d;" % number)
    for client in clients:
        assert read(client, 5 + 3 * 8) == b"HEAD;event 0;event 1;event 2;"
        client.close()
    assert threading.active_count() == before


def test_a_subscriber_that_goes_away_is_forgotten(fanout: Fanout) -> None:
    source = Source()
    connect(fanout, source).close()
    assert source.closed.wait(10)
    assert fanout.clients == 0


def test_a_slow_subscriber_is_disconnected_and_others_are_served(fanout: Fanout) -> None:
    slow, quick = Source(), Source()
    with connect(fanout, slow) as stuck, connect(fanout, quick) as client:
        read(client, 5)
        for number in range(200):
            slow.put(b"x" * 20_000)
            quick.put(b"%03d;" % number)
            assert read(client, 4) == b"%03d;" % number
            if slow.closed.is_set():
                break
        assert slow.closed.wait(10)
        assert fanout.figures.dropped == 1
        stuck.settimeout(10)
        while stuck.recv(1 << 16):
            pass


def test_an_event_larger_than_the_buffer_still_arrives(fanout: Fanout) -> None:
    source = Source()
    with connect(fanout, source) as client:
        large = b"x" * 3_000_000
        source.put(large)
        assert read(client, 5 + len(large)) == b"HEAD;" + large


def test_what_follows_an_event_larger_than_the_buffer_arrives_too(fanout: Fanout) -> None:
    source = Source()
    with connect(fanout, source) as client:
        large = b"x" * 3_000_000
        for each in (large, b"one;", b"two;"):
            source.put(each)
            while source.waits:
                time.sleep(0.001)
        assert read(client, 5 + len(large) + 8) == b"HEAD;" + large + b"one;two;"
        assert fanout.figures.dropped == 0


class Pages(Source):
    """A source that has many frames ready, which it gives one by one."""

    def take(self) -> list[bytes]:
        self.more = len(self._frames) > 1
        return [self._frames.pop(0)] if self._frames else []

    @property
    def left(self) -> int:
        return len(self._frames)


def test_a_source_with_much_to_give_goes_as_fast_as_its_client(fanout: Fanout) -> None:
    pages = [b"%04d" % number * 25_000 for number in range(60)]
    quick, slow = Pages(), Pages()
    with connect(fanout, quick) as client, connect(fanout, slow) as stuck:
        quick.put(*pages)
        slow.put(*pages)
        assert read(client, 5 + 60 * 100_000) == b"HEAD;" + b"".join(pages)
        quick.put(b"new")
        assert read(client, 3) == b"new"
        assert slow.left > 40, "nothing is taken for a client that does not read"
        slow.put(b"new;")
        assert read(stuck, 9 + 60 * 100_000) == b"HEAD;" + b"".join(pages) + b"new;"
        assert fanout.figures.dropped == 0


def test_an_event_larger_than_what_may_wait_for_the_writer_arrives() -> None:
    fanout, source = Fanout(process=False), Source()
    with connect(fanout, source) as client:
        large = b"x" * (70 << 20)
        source.put(large, b"end;")
        left = len(large) + 9
        while left and (piece := client.recv(min(left, 1 << 20))):
            left -= len(piece)
        assert not left and piece.endswith(b"end;")
        assert fanout.figures.restarts == 0
    fanout.stop()


def test_a_finished_source_ends_the_connection_after_its_last_frame(fanout: Fanout) -> None:
    source = Source()
    with connect(fanout, source) as client:
        source.put(b"last;")
        source.finish()
        assert read(client, 100) == b"HEAD;last;"
    assert source.closed.wait(10)


def test_silent_streams_get_a_comment() -> None:
    fanout = Fanout(heartbeat=0.1)
    fanout.start()
    with connect(fanout, Source()) as client:
        read(client, 5)
        assert read(client, 1) == b":"
        while fanout.figures.frames_sent < 2:  # the head and a comment, told with a heartbeat
            time.sleep(0.01)
    fanout.stop()


def test_stopping_closes_every_stream() -> None:
    fanout = Fanout()
    fanout.start()
    with connect(fanout, Source()) as client:
        read(client, 5)
        fanout.stop()
        assert client.recv(10) == b""


def test_a_frame_has_id_event_and_one_line_of_data() -> None:
    assert frame(kind="insert", data='{"a": 1}', event_id=7) == b'id: 7\nevent: insert\ndata: {"a": 1}\n\n'
    assert frame(kind=None, data="x") == b"data: x\n\n"


def test_idle_subscribers_leave_the_workers_free(start_server: Start) -> None:
    server = start_server(threads=2)
    readers = [EventReader(server, "/changes") for _ in range(20)]
    try:
        assert server.boolean("ASK {}")
        server.update("INSERT DATA { <urn:a> <urn:b> 1 }")
        assert {reader.take(1)[0].id for reader in readers} == {"1"}
    finally:
        for reader in readers:
            reader.__exit__(None, None, None)
    deadline = time.monotonic() + 10
    while server.services.fanout.clients and time.monotonic() < deadline:
        time.sleep(0.01)
    assert server.services.fanout.clients == 0


def test_more_subscribers_than_allowed_are_refused(start_server: Start) -> None:
    server = start_server(max_subscribers=1)
    with EventReader(server, "/changes"):
        answer = server.client.get("/changes", headers={"Accept": "text/event-stream"})
        assert answer.status_code == 503
        assert answer.json()["code"] == "too-many-streams"
