"""Short answers one after the other, and the limit of their waits."""

from __future__ import annotations

import threading
import time

from quadrill.app.evaluation.short_answers import ShortAnswerLock


def test_an_answer_begins_when_the_one_before_it_has_ended() -> None:
    lock, order = ShortAnswerLock(wait=30), []

    def second() -> None:
        with lock.hold():
            order.append("second")

    with lock.hold():
        mark_path = threading.Thread(target=second)
        mark_path.start()
        time.sleep(0.05)
        order.append("first")
    mark_path.join()
    assert order == ["first", "second"]


def test_one_that_is_not_short_lets_the_next_one_answer() -> None:
    lock = ShortAnswerLock(wait=30)
    with lock.hold() as held:
        held.release_early()
        with lock.hold():
            pass
        began = time.monotonic()
        with lock.hold():
            pass
    assert time.monotonic() - began < 10


def test_waiting_in_vain_lets_one_answer_and_for_a_while_no_answer_waits() -> None:
    lock = ShortAnswerLock(wait=0.05, apart=30)
    with lock.hold():
        began = time.monotonic()
        with lock.hold():
            waited = time.monotonic() - began
        for _ in range(100):
            with lock.hold():
                pass
        assert 0.04 < waited <= time.monotonic() - began < waited + 2
    with lock.hold():
        pass
