"""The thread of short answers: what it answers, in which order, and who leaves it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

import pytest

from quadrill.app.http.request import Request
from quadrill.app.server.connection import Connection, Timeouts
from quadrill.app.server.fast_lane import FastLane, Later
from quadrill.app.server.refused import RefusedError

Client = tuple[Connection, socket.socket]
PLAIN = b"GET /one HTTP/1.1\r\nHost: localhost\r\n\r\n"


@dataclass
class Around:
    """The server around a lane: notes what it gets."""

    noted: list[tuple[str, Connection]] = field(default_factory=list)
    since: float = -1.0
    changed: threading.Event = field(default_factory=threading.Event)

    def note(self, what: str, connection: Connection) -> None:
        self.noted.append((what, connection))
        self.changed.set()

    def put(self, connection: Connection, since: float = 0.0) -> None:
        self.since = since
        self.note("home", connection)

    def refuse(self, connection: Connection, error: RefusedError) -> None:
        self.note("refused", connection)

    def close(self, connection: Connection) -> None:
        self.note("closed", connection)

    def dispatch(self, connection: Connection) -> None:
        assert connection.request is not None
        self.note("dispatched", connection)

    def wait_for(self, *wanted: tuple[str, Connection]) -> None:
        until = time.monotonic() + 10
        while not set(wanted) <= set(self.noted) and time.monotonic() < until:
            self.changed.wait(0.1)
            self.changed.clear()
        assert set(wanted) <= set(self.noted)


Answer = Callable[[Connection, Request], "bool | Later | None"]


@dataclass
class Lanes:
    """Makes lanes and connections, and ends them."""

    stack: ExitStack
    around: Around = field(default_factory=Around)

    def lane(self, answer: Answer, **options: float) -> FastLane:
        options = {"idle": 60.0, "apart": 60.0, **options}
        lane = FastLane(answer, self.around.dispatch, self.around, **options)  # type: ignore[arg-type]
        lane.start()
        self.stack.callback(lambda: lane.join(time.monotonic() + 5) or pytest.fail("it does not end"))
        self.stack.callback(lane.stop)
        return lane

    def connected(self) -> tuple[Connection, socket.socket]:
        ours, theirs = socket.socketpair()
        connection = Connection(ours, "", 0, Timeouts())
        self.stack.callback(connection.close)
        self.stack.enter_context(theirs)
        return connection, theirs


@pytest.fixture
def lanes() -> Iterator[Lanes]:
    with ExitStack() as stack:
        yield Lanes(stack)


def test_requests_that_follow_each_other_are_answered(lanes: Lanes) -> None:
    def answer(connection: Connection, request: Request) -> bool:
        connection.send(request.path.encode())
        return True

    lane = lanes.lane(answer)
    connection, client = lanes.connected()
    assert lane.adopt(connection)
    for _ in range(3):
        client.sendall(PLAIN)
        assert client.recv(100) == b"/one"
    lane.stop()
    lanes.around.wait_for(("home", connection))
    assert not lane.adopt(connection)


def test_who_sends_several_requests_at_once_leaves_behind_the_first(lanes: Lanes) -> None:
    def answer(connection: Connection, request: Request) -> bool:
        connection.send(request.path.encode())
        return True

    lane = lanes.lane(answer)
    connection, client = lanes.connected()
    assert lane.adopt(connection)
    client.sendall(PLAIN + PLAIN)
    assert client.recv(100) == b"/one"
    lanes.around.wait_for(("home", connection))
    assert connection.next_request() is not None


def send_while_busy(
    lane: FastLane, before: Client, pair: list[Client], begun: threading.Event, both_sent: threading.Event
) -> None:
    """Two clients ask while another one is answered, and get their answers in the round behind that."""
    for connection, _client in (before, *pair):
        assert lane.adopt(connection)
    before[1].sendall(PLAIN)
    assert begun.wait(5)
    for _connection, client in pair:
        client.sendall(PLAIN)
    both_sent.set()
    for _connection, client in pair:
        assert client.recv(10) == b"!"


def test_all_that_has_come_is_read_before_any_is_answered(lanes: Lanes) -> None:
    read: list[list[bool]] = []
    begun, both_sent = threading.Event(), threading.Event()

    def answer(connection: Connection, request: Request) -> bool:
        if connection is before[0]:
            begun.set()
            return both_sent.wait(5)
        read.append([bool(each.data) for each, _client in pair])
        connection.send(b"!")
        return True

    before, *pair = (lanes.connected() for _ in range(3))
    send_while_busy(lanes.lane(answer), before, pair, begun, both_sent)
    assert sorted(map(sum, read)) == [0, 1]


def test_what_waits_for_the_log_ends_when_all_of_a_round_is_accepted(lanes: Lanes) -> None:
    order: list[str] = []
    begun, both_sent = threading.Event(), threading.Event()

    def answer(connection: Connection, request: Request) -> bool | Later:
        if connection is before[0]:
            begun.set()
            return both_sent.wait(5)
        order.append("accept")

        def end() -> bool:
            order.append("end")
            connection.send(b"!")
            return True

        return end

    before, *pair = (lanes.connected() for _ in range(3))
    send_while_busy(lanes.lane(answer), before, pair, begun, both_sent)
    assert order == ["accept", "accept", "end", "end"]


def test_what_comes_while_a_round_is_accepted_waits_for_the_log_with_it(lanes: Lanes) -> None:
    (first, one), (second, two) = lanes.connected(), lanes.connected()
    steps: list[str] = []

    def answer(connection: Connection, request: Request) -> Later:
        steps.append("accepted")
        if connection is first:
            two.sendall(PLAIN)

        def end() -> bool:
            steps.append("ended")
            connection.send(b"done")
            return True

        return end

    lane = lanes.lane(answer)
    for connection in (first, second):
        assert lane.adopt(connection)
    one.sendall(PLAIN)
    assert (one.recv(100), two.recv(100)) == (b"done", b"done")
    assert steps == ["accepted", "accepted", "ended", "ended"]


def test_others_leave_an_answer_that_takes_long_and_nobody_comes_meanwhile(lanes: Lanes) -> None:
    goes_on, begun = threading.Event(), threading.Event()

    def answer(connection: Connection, request: Request) -> bool:
        begun.set()
        goes_on.wait(10)
        return True

    lane = lanes.lane(answer)
    slow, client = lanes.connected()
    other, _ = lanes.connected()
    third, _ = lanes.connected()
    assert lane.adopt(slow)
    assert lane.adopt(other)
    client.sendall(PLAIN)
    assert begun.wait(5)
    until = time.monotonic() + 5
    while not lanes.around.noted and time.monotonic() < until:
        assert lane.look(time.monotonic())
        time.sleep(0.01)
    assert lanes.around.noted == [("home", other)]
    assert not lane.adopt(third)
    goes_on.set()
    lanes.around.wait_for(("home", slow))
    assert not lane.look(time.monotonic())


def test_what_is_owed_does_not_wait_for_an_answer_that_takes_long(lanes: Lanes) -> None:
    begun, goes_on, both_sent = threading.Event(), threading.Event(), threading.Event()

    def answer(connection: Connection, request: Request) -> bool | Later:
        if connection is first:
            begun.set()
            return both_sent.wait(5)
        if connection is blocker:
            return goes_on.wait(10)

        def end() -> bool:
            connection.send(b"!")
            return True

        return end

    lane = lanes.lane(answer)
    (first, one), (pusher, two), (blocker, three) = (lanes.connected() for _ in range(3))
    for connection in (first, pusher, blocker):
        assert lane.adopt(connection)
    one.sendall(PLAIN)
    assert begun.wait(5)
    for client in (two, three):
        client.sendall(PLAIN)
    both_sent.set()
    two.settimeout(0.05)
    got, until = b"", time.monotonic() + 5
    while not got and time.monotonic() < until:
        lane.look(time.monotonic())
        with suppress(TimeoutError):
            got = two.recv(10)
    assert got == b"!" and not goes_on.is_set()
    lanes.around.wait_for(("home", pusher))
    goes_on.set()
    lanes.around.wait_for(("home", blocker))


def test_an_answer_that_grows_lets_the_others_go_at_once(lanes: Lanes) -> None:
    other, _ = lanes.connected()

    def answer(connection: Connection, request: Request) -> bool:
        lane.step_aside()
        lanes.around.note("answered", connection)
        return True

    lane = lanes.lane(answer)
    connection, client = lanes.connected()
    assert lane.adopt(other)
    assert lane.adopt(connection)
    client.sendall(PLAIN)
    lanes.around.wait_for(("home", other), ("answered", connection), ("home", connection))
    assert lanes.around.noted[0] == ("home", other)


def test_who_is_idle_goes_home_with_the_time_since_when(lanes: Lanes) -> None:
    lane = lanes.lane(lambda _connection, _request: True, idle=0.05)
    connection, _ = lanes.connected()
    began = time.monotonic()
    assert lane.adopt(connection)
    lanes.around.wait_for(("home", connection))
    assert began <= lanes.around.since < time.monotonic()


@pytest.mark.parametrize(
    ("sent", "what"),
    [
        (PLAIN, "dispatched"),
        (b"GET /on", "home"),
        (b"GET / HTTP/1.1\r\nBad Name: 1\r\n\r\n", "refused"),
        (b"", "closed"),
    ],
)
def test_what_is_not_short_or_not_whole_is_for_others(lanes: Lanes, sent: bytes, what: str) -> None:
    lane = lanes.lane(lambda _connection, _request: None)
    connection, client = lanes.connected()
    assert lane.adopt(connection)
    if sent:
        client.sendall(sent)
    else:
        client.shutdown(socket.SHUT_WR)
    lanes.around.wait_for((what, connection))
    assert lanes.around.noted == [(what, connection)]


def test_waiting_costs_nothing(lanes: Lanes) -> None:
    lane = lanes.lane(lambda _connection, _request: None)
    for _ in range(2):
        connection, client = lanes.connected()
        assert lane.adopt(connection)
        client.sendall(PLAIN)
        lanes.around.wait_for(("dispatched", connection))
    began = time.process_time()
    idle, _ = lanes.connected()
    assert lane.adopt(idle)
    time.sleep(0.09)
    assert time.process_time() - began < 0.045
