"""Short answers one after the other, and those that wait in vain."""

from __future__ import annotations

import threading
import time

from quadrill.app.http.turn import Turn


def test_an_answer_begins_when_the_one_before_it_has_ended() -> None:
    turn, order = Turn(wait=30), []

    def second() -> None:
        with turn.take():
            order.append("second")

    with turn.take():
        beside = threading.Thread(target=second)
        beside.start()
        time.sleep(0.05)
        order.append("first")
    beside.join()
    assert order == ["first", "second"]


def test_one_that_is_not_short_lets_the_next_one_answer() -> None:
    turn = Turn(wait=30)
    with turn.take() as held:
        held.give_back()
        with turn.take():
            pass
        began = time.monotonic()
        with turn.take():
            pass
    assert time.monotonic() - began < 10


def test_who_waits_in_vain_answers_beside_it_and_for_a_while_nobody_waits() -> None:
    turn = Turn(wait=0.05, apart=30)
    with turn.take():
        began = time.monotonic()
        with turn.take():
            waited = time.monotonic() - began
        for _ in range(100):
            with turn.take():
                pass
        assert 0.04 < waited <= time.monotonic() - began < waited + 2
    with turn.take():
        pass
