"""A query that stays behind: the log does not grow for ever, and only that query fails."""

from __future__ import annotations

import time
from pathlib import Path

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.scheduler.backlog import Reader

from .test_recovery import Life, comparable
from .test_stopping import SLOW

LOG = 20_000


def life_in(folder: Path, **settings: int) -> Life:
    return Life(folder, ManualClock(0), threaded=True, max_future_ms=10**12, backlog_log=LOG, **settings)


def push_until(life: Life, first: int, ended: object) -> int:
    """Push an element a minute until something has happened; the number of the last one."""
    assert callable(ended)
    number, deadline = first, time.monotonic() + 30
    while not ended():
        assert time.monotonic() < deadline
        number += 1
        life.push(number * 61_000, "a")
        time.sleep(0.002)
    return number


def test_query_that_stays_behind_fails_when_the_log_has_no_checkpoint_for_too_long(tmp_path: Path) -> None:
    life = life_in(tmp_path / "data")
    life.register("slow", SLOW)
    life.register("seen")
    checkpoints, entry = life.engine.recovery.checkpoints, life.engine.parts.catalogue.get("slow")
    life.push(61_000, *[f"a{each}" for each in range(200)])
    while not life.engine.parts.router.shares.backlogs:
        time.sleep(0.001)
    made = checkpoints.made
    last = push_until(life, 1, lambda: entry.state == "failed")
    assert "behind its input for" in entry.error and "(max_backlog_log) is 20,000" in entry.error
    last = push_until(life, last, lambda: checkpoints.made > made)
    life.engine.parts.sequencer.wait_for_all()
    told = life.told()
    assert told["slow"][-1][1] == "error"
    assert life.engine.parts.catalogue.get("seen").state == "running"
    life = life.crash()
    assert life.engine.parts.catalogue.get("slow").state == "failed"
    assert comparable(life.told()) == comparable(told)
    assert len(told["seen"]) == last
    life.stop()


def test_queries_that_are_behind_for_a_moment_catch_up_and_none_fails(tmp_path: Path) -> None:
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, slice_ms=1, backlog_log=500)
    names = ["slow", "other"]
    life.register("slow", SLOW)
    life.register("other", SLOW.replace("?y", "?x"))
    fell, shares = list[Reader](), life.engine.parts.router.shares
    before, made = shares.on_lag, life.engine.recovery.checkpoints.made

    def fall_behind(reader: Reader) -> None:
        fell.append(reader)
        before(reader)

    shares.on_lag = fall_behind
    with life.engine.parts.sequencer.paused:  # nothing is taken from the line while it fills
        for number in range(1, 7):
            life.push(number * 61_000, *[f"a{each}" for each in range(8)])
    life.engine.parts.sequencer.wait_for_all()
    while life.engine.recovery.checkpoints.made == made:
        time.sleep(0.001)
    assert fell
    assert {life.engine.parts.catalogue.get(name).state for name in names} == {"running"}
    life.stop()
