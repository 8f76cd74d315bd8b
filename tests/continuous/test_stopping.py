"""A stop with a long backlog: what is left in line takes its turn at the next start, as after a crash."""

from __future__ import annotations

import shutil
import threading
import time
from pathlib import Path

import pytest

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.errors import EngineStoppedError

from .test_recovery import Life, comparable

SLOW = "SELECT ?a ?b ?c WHERE { STREAM :s [RANGE 1m] { ?a :seen ?x . ?b :seen ?y . ?c :seen ?z } }"
"""A push of n triples tells n to the third rows."""


def pushes(life: Life, number: int) -> None:
    """All of them bear the time of their push, so each is one evaluation."""
    names = [f"a{each}" for each in range(16)]
    for at in range(1, number + 1):
        life.push(at * 61_000, *names)


def test_a_stop_leaves_a_long_backlog_to_the_next_start(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, stop_wait_ms=50, max_future_ms=10**12)
    life.register("slow", SLOW)
    life.register("seen")
    waiting = life.engine.parts.tasks.waiting
    with life.engine.parts.sequencer.paused:  # nothing is taken from the line while it fills
        pushes(life, 24)
        assert waiting.qsize() > 4
    life.engine.stop()
    assert waiting.qsize() == 0
    life.stop()
    after = Life(life.folder, ManualClock(0), max_future_ms=10**12)
    assert after.engine.recovery is not None and after.engine.recovery.report["records"] > 4
    straight = Life(tmp_path / "straight", ManualClock(0), max_future_ms=10**12)
    straight.register("slow", SLOW)
    straight.register("seen")
    pushes(straight, 24)
    assert comparable(after.told()) == comparable(straight.told())
    after.stop()
    straight.stop()


@pytest.mark.always("1")
@pytest.mark.parametrize("later", [0, 1, 3])
def test_a_stop_while_a_query_is_behind_loses_nothing(tmp_path: Path, later: int) -> None:
    """Tasks behind the one that it is suspended in are done for all others, for it by the next start."""
    found = []
    for wait_ms in (0, 60_000):
        folder = tmp_path / str(wait_ms)
        folder.mkdir()
        life = Life(
            folder / "data", ManualClock(0), threaded=True, stop_wait_ms=wait_ms, max_future_ms=10**12
        )
        life.register("slow", SLOW)
        life.register("seen")
        life.push(61_000, *[f"a{each}" for each in range(30)])
        while not wait_ms and not life.engine.parts.router.shares.backlogs:
            time.sleep(0.001)
        for number in range(later):
            life.push((number + 2) * 61_000, "a")
        while life.engine.queries.feed("seen").history.last_id < 1 + later:
            time.sleep(0.001)
        assert wait_ms or life.engine.parts.router.shares.backlogs
        life.stop()
        after = Life(folder / "data", ManualClock(0), max_future_ms=10**12)
        found.append(comparable(after.told()))
        after.stop()
    assert len(found[0]["slow"]) == 1 + later
    assert found[0] == found[1]


def test_who_waits_for_a_turn_that_is_left_is_told(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, stop_wait_ms=100, max_future_ms=10**12)
    life.register("slow", SLOW)
    waiting = life.engine.parts.tasks.waiting
    found: list[BaseException] = []

    def wait() -> None:
        try:
            life.push(10_000_000, "a", wait=True)
        except BaseException as error:
            found.append(error)

    waiter = threading.Thread(target=wait)
    with life.engine.parts.sequencer.paused:  # nothing is taken from the line while it fills
        pushes(life, 40)
        before = waiting.qsize()
        waiter.start()
        while waiting.qsize() == before:
            time.sleep(0.005)
    life.stop()
    waiter.join(5)
    assert [type(each) for each in found] == [EngineStoppedError]


def test_a_turn_that_outlasts_the_stop_is_taken_again(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, stop_wait_ms=100)
    life.register("seen")
    engine = life.engine
    with engine.parts.sequencer.paused:  # the turn of the push does not get on
        life.push(1, "a", "b")
        began = time.monotonic()
        assert not engine.stop(), "the store must stay open for the turn"
        assert time.monotonic() - began < 3.0
        copy = tmp_path / "copy"
        shutil.copytree(life.folder, copy)
        after = Life(copy, ManualClock(0))
        ((_, kind, data),) = after.told()["seen"]
        assert kind == "result" and '"b"' in data or "/b" in data
        after.stop()
    engine.parts.sequencer.paused.acquire(timeout=5)
    assert engine._thread is not None
    engine.parts.sequencer.paused.release()
    engine._thread.join(5)
    assert engine.stop(), "nothing is at work any more"
    life.store.close()
    life.registry.close()


@pytest.mark.parametrize("wait_ms", [0, 3_000])
def test_a_stop_with_nothing_in_line_leaves_nothing(tmp_path: Path, wait_ms: int) -> None:
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, stop_wait_ms=wait_ms)
    life.register("seen")
    life.push(1, "a", wait=True)
    assert life.engine.stop()
    life.store.close()
    life.registry.close()
    after = Life(life.folder, ManualClock(0))
    assert after.engine.recovery is not None and after.engine.recovery.report["records"] == 0
    after.stop()
