"""Few large answers are computed at a time: the others wait, and who waits for a client leaves its place."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from quadrill.app.evaluation.answer import AnswerLimits, AnswerPreferences, BodyAnswer, ByteSink
from quadrill.app.evaluation.large_answers import SMALL_BYTES, LargeAnswers
from quadrill.app.evaluation.processes import Processes
from tests.app.test_server import eventually

BLOCK = b"x" * 8192


def never() -> bool:
    return False


def test_places_are_given_first_to_answers_that_have_written_little() -> None:
    large = LargeAnswers(1)
    assert large.enter(0, never)
    order: list[str] = []

    def wait(name: str, written: int) -> None:
        assert large.enter(written, never)
        order.append(name)
        large.leave()

    waits = []
    for number, (name, written) in enumerate([("large", 1 << 30), ("first", 0), ("second", 0)], 1):
        waits.append(threading.Thread(target=wait, args=(name, written)))
        waits[-1].start()
        eventually(lambda number=number: large.waiting() == number)
    large.leave()
    for each in waits:
        each.join(5)
    assert order == ["first", "second", "large"]
    assert large.waiting() == 0 and large.enter(0, never)


def test_who_is_not_wanted_any_more_leaves_the_line() -> None:
    large = LargeAnswers(1)
    assert large.enter(0, never)
    assert not large.enter(0, lambda: True)
    assert large.waiting() == 0
    large.leave()
    assert large.enter(0, never)


class Sending(threading.Thread):
    """Sends an answer of so many blocks to a client that takes its first bytes at once and waits then."""

    def __init__(self, large: LargeAnswers, blocks: int, takes: Callable[[], object] = lambda: None) -> None:
        super().__init__(daemon=True)
        self.sent = 0
        self.blocks = 0
        self.takes = takes
        processes = Processes()
        self.process = processes.begin("query", "", "")
        self.answer = BodyAnswer(processes, self.process, AnswerLimits(30), AnswerPreferences(None), large)
        self.answer.body = lambda sink: self._write(sink, blocks)
        self.error: Exception | None = None
        self.start()

    def _write(self, sink: ByteSink, blocks: int) -> None:
        for _ in range(blocks):
            sink.write(BLOCK)
            self.blocks += 1

    def begin(self, headers: Mapping[str, str], version: int | None) -> None:
        """Take the head of the answer."""

    def write(self, block: bytes) -> None:
        """Take a block of the answer."""
        self.takes()
        self.sent += len(block)

    def run(self) -> None:
        try:
            whole = self.answer.send(self)
            if whole is not None:
                self.sent += len(whole.body or b"")
        except Exception as error:
            self.error = error


def test_an_answer_that_waits_for_its_client_leaves_its_place() -> None:
    large = LargeAnswers(1)
    taken = threading.Event()
    slow = Sending(large, 100, taken.wait)
    eventually(lambda: slow.blocks >= 7)
    quick = Sending(large, 100)
    quick.join(5)
    assert quick.sent == 100 * len(BLOCK)
    assert slow.sent == 0
    taken.set()
    slow.join(5)
    assert slow.sent == 100 * len(BLOCK)
    assert large.enter(0, never), "all places are free again"


def test_small_answers_need_no_place_and_large_ones_that_are_stopped_give_theirs_back() -> None:
    large = LargeAnswers(1)
    assert large.enter(0, never)
    small = Sending(large, SMALL_BYTES // len(BLOCK))
    small.join(5)
    assert small.sent == SMALL_BYTES
    waits = Sending(large, 100)
    eventually(lambda: large.waiting() == 1)
    waits.process.interrupt("it was stopped")
    waits.join(5)
    assert large.waiting() == 0 and not waits.is_alive()
    large.leave()
    failing = Sending(large, 100, takes=lambda: 1 // 0)
    failing.join(5)
    assert failing.error is not None
    assert large.enter(0, never)


def test_large_answers_pause_once_a_block_for_requests_in_line() -> None:
    large = LargeAnswers(2)
    large.pause()
    ends = large.paused_until
    paused = Sending(large, 20)
    paused.join(5)
    assert paused.sent == 20 * len(BLOCK)
    assert time.monotonic() >= ends
