"""The engine's queue: a lone input is worked off at once, a backlog with one settling for many inputs."""

from __future__ import annotations

import threading

from quadrill.continuous.scheduler.loop import WorkLoop


class Counted:
    """A loop that counts how often it settles."""

    def __init__(self) -> None:
        self.settled = 0
        # A tick says that nothing is due for an hour: only an input can wake the loop.
        self.loop = WorkLoop(threaded=True, tick=lambda: 3600.0, settle=self.settle)
        self.loop.start()

    def settle(self) -> None:
        self.settled += 1


def test_a_lone_input_waits_for_no_other() -> None:
    counted = Counted()
    try:
        for number in range(5):
            assert counted.loop.submit(lambda number=number: number).wait(30) == number
    finally:
        counted.loop.stop()


def test_a_backlog_is_settled_in_batches() -> None:
    counted = Counted()
    go = threading.Event()
    order: list[int] = []
    try:
        counted.loop.submit(lambda: go.wait(30))
        tickets = [counted.loop.submit(lambda number=number: order.append(number)) for number in range(500)]
        before = counted.settled
        go.set()
        for ticket in tickets:
            ticket.wait(30)
        assert order == list(range(500))
        assert counted.settled - before < 50
    finally:
        counted.loop.stop()
