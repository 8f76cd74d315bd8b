"""The thread of a periodic piece of upkeep."""

from __future__ import annotations

import logging
import threading

import pytest

from quadrill.app.upkeep.periodic import Periodic


def test_work_goes_on_after_an_error_and_ends_with_stop(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    third, calls = threading.Event(), 0

    def work() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise ValueError("once")
        if calls == 3:
            third.set()

    one = Periodic("quadrill-test", work, lambda: 0.01)
    one.start()
    assert third.wait(10)
    one.stop()
    after = calls
    assert "quadrill-test" in caplog.text
    assert not [each for each in threading.enumerate() if each.name == "quadrill-test"]
    assert calls == after


def test_rest_ends_at_once_when_it_is_stopped() -> None:
    resting, ended = threading.Event(), list[bool]()

    def work() -> None:
        resting.set()
        ended.append(one.rest(60))

    one = Periodic("quadrill-test", work, lambda: 0.0)
    one.start()
    assert resting.wait(10)
    one.stop()
    assert ended == [True]


def test_stop_without_a_start_does_nothing() -> None:
    Periodic("quadrill-test", lambda: None, lambda: 0.0).stop()
