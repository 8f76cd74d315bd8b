"""Dates of fetches: what stopping meets."""

from __future__ import annotations

import threading
import time

from apscheduler.schedulers.base import STATE_RUNNING

from quadrill.continuous.clock import Clock
from quadrill.continuous.remote.timers import Timers
from quadrill.store.threads import Threads


def test_timers_that_stop_while_a_fetch_begins_end_it_in_order() -> None:
    """The thread of the scheduler does not fail, which would be an error of this test."""
    begun, go_on, fetched = threading.Event(), threading.Event(), threading.Event()

    class Held(Timers):
        def _begin(self, key: str) -> None:
            begun.set()
            go_on.wait(10)
            super()._begin(key)

    clock = Clock()
    timers = Held(clock, lambda _: fetched.set(), Threads(threaded=True))
    timers.start()
    scheduler = timers._scheduler
    assert scheduler is not None
    timers.set("k", clock.now_ms())
    assert begun.wait(10)
    stopping = threading.Thread(target=timers.stop)
    stopping.start()
    while scheduler.state == STATE_RUNNING:
        time.sleep(0.001)
    go_on.set()
    stopping.join(10)
    assert not stopping.is_alive()
    assert fetched.wait(10)
