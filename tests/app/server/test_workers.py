"""Worker threads: more of them while all wait, fewer again, and an end to a client that nobody waits for."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from quadrill.app.server.connection import Connection, Timeouts
from quadrill.app.server.workers import STUCK_SECONDS, Workers
from tests.app.test_server import eventually


@pytest.fixture
def pairs() -> Iterator[list[socket.socket]]:
    made: list[socket.socket] = []
    yield made
    for each in made:
        each.close()


def connection(pairs: list[socket.socket]) -> Connection:
    theirs, ours = socket.socketpair()
    pairs += [theirs, ours]
    return Connection(ours, "127.0.0.1", 1, Timeouts(request=30))


def test_a_line_that_does_not_move_gets_further_threads_up_to_a_limit(pairs: list[socket.socket]) -> None:
    go_on = threading.Event()
    workers = Workers("test", 2, 4, lambda _workers, _connection: go_on.wait() and None)
    workers.start()
    for _ in range(6):
        workers.put(connection(pairs))
    eventually(workers_taken(workers, 2))
    assert workers.look(10.0) and workers.look(10.0 + STUCK_SECONDS / 2)
    assert workers.threads == 2
    workers.look(10.0 + STUCK_SECONDS)
    assert workers.threads == 4
    eventually(workers_taken(workers, 4))
    for later in range(1, 5):
        workers.look(11.0 + later)
    assert workers.threads == 4
    go_on.set()
    eventually(workers.none_waits)
    assert not workers.look(20.0)
    workers.stop()
    assert workers.join(time.monotonic() + 5)


def workers_taken(workers: Workers, number: int) -> Callable[[], bool]:
    return lambda: workers.taken >= number


def test_the_client_that_keeps_a_worker_waiting_longest_is_cut_when_no_thread_can_be_added(
    pairs: list[socket.socket],
) -> None:
    broken: list[Connection] = []

    def receive(_workers: Workers, each: Connection) -> None:
        try:
            assert each.receive_more(10, 20) == b""
        finally:
            broken.append(each)

    workers = Workers("test", 1, 2, receive)
    workers.start()
    first, second, third = (connection(pairs) for _ in range(3))
    workers.put(first)
    eventually(lambda: first.waits_since)
    workers.put(second)
    workers.look(0.1)
    workers.look(0.2)
    eventually(lambda: second.waits_since)
    workers.put(third)
    now = time.monotonic()
    workers.look(now)
    workers.look(now + 0.5)
    assert broken == []
    workers.look(now + 2)
    eventually(lambda: broken)
    assert broken == [first]
    eventually(lambda: third.waits_since)
    workers.cut_waiting()
    workers.stop()
    assert workers.join(time.monotonic() + 5)
    assert set(broken) == {first, second, third}


def test_clients_that_are_waited_for_do_not_take_the_threads_of_others(pairs: list[socket.socket]) -> None:
    def receive(_workers: Workers, each: Connection) -> None:
        each.receive_more(10, 20)

    workers = Workers("test", 1, 2, receive, most_for_clients=3)
    workers.start()
    slow = [connection(pairs) for _ in range(5)]
    now = time.monotonic()
    for number, each in enumerate(slow):
        workers.put(each)
        workers.look(now + number)
        workers.look(now + number + 0.5)
        eventually(lambda each=each: each.waits_since)
    assert workers.threads == 5
    late = [connection(pairs) for _ in range(2)]
    for each in late:
        workers.put(each)
    workers.look(now + 10)
    workers.look(now + 11)
    # As many are cut as are in line.
    eventually(lambda: all(each.waits_since for each in late))
    assert workers.threads == 5
    workers.cut_waiting()
    workers.stop()
    assert workers.join(time.monotonic() + 5)


class Later:
    """Work in the background of which so many wait."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pauses = 0

    def waiting(self) -> int:
        return self.number

    def pause(self) -> None:
        self.pauses += 1


def test_work_in_the_background_pauses_for_a_line_and_takes_no_threads_from_it(
    pairs: list[socket.socket],
) -> None:
    go_on = threading.Event()
    later = Later(1)
    workers = Workers(
        "test",
        1,
        1,
        lambda _workers, _connection: go_on.wait() and None,
        most_for_clients=1,
        background=later,
    )
    workers.start()
    assert not workers.look(9.0)
    workers.put(connection(pairs))
    eventually(workers_taken(workers, 1))
    for _ in range(3):
        workers.put(connection(pairs))
    workers.look(10.0)
    assert later.pauses == 0
    workers.look(10.0 + STUCK_SECONDS)
    assert later.pauses == 1
    # One more thread in place of the one that only waits.
    assert workers.threads == 2
    go_on.set()
    eventually(workers.none_waits)
    assert not workers.look(11.0)
    assert later.pauses == 1
    workers.stop()
    assert workers.join(time.monotonic() + 5)


def test_threads_that_were_added_end_when_they_have_nothing_to_do(pairs: list[socket.socket]) -> None:
    go_on = threading.Event()
    workers = Workers("test", 1, 8, lambda _workers, _connection: go_on.wait() and None, idle_seconds=0.05)
    workers.start()
    for _ in range(5):
        workers.put(connection(pairs))
    workers.look(1.0)
    workers.look(2.0)
    assert workers.threads > 1
    go_on.set()
    eventually(lambda: workers.threads == 1)
    workers.put(connection(pairs))
    eventually(workers.none_waits)
    workers.stop()
    assert workers.join(time.monotonic() + 5)


def test_a_worker_outlives_a_fault(pairs: list[socket.socket], caplog: pytest.LogCaptureFixture) -> None:
    workers = Workers("test", 1, 1, lambda _workers, _connection: 1 // 0)
    workers.start()
    for _ in range(2):
        workers.put(connection(pairs))
    eventually(lambda: caplog.text.count("ZeroDivisionError") >= 2)
    workers.stop()
    assert workers.join(time.monotonic() + 5)
