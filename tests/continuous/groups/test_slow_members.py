"""Queries that differ in constants alone: a slow one does not hold the others."""

from __future__ import annotations

import time
from pathlib import Path

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.groups.shared_plan import MemberSlot
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from tests.continuous.test_recovery import E, Life


def text(kind: str) -> str:
    kinds = " . ".join(f"?{name} :kind :{kind}" for name in "abc")
    return f"SELECT ?a ?b ?c WHERE {{ STREAM :s [RANGE 1m] {{ {kinds} }} }}"


def push(life: Life, at: int, *things: str) -> None:
    lines = "".join(f"<{E}{each}{at}> <{E}kind> <{E}{each.rstrip('0123456789')}> .\n" for each in things)
    life.engine.streams.push(PushCall(E + "s", "application/n-triples", at=at), lines.encode())


def test_slow_member_of_a_common_plan_goes_on_by_itself(tmp_path: Path) -> None:
    limits = QueryLimits(ms=60_000)
    life = Life(tmp_path / "data", ManualClock(0), threaded=True, limits=limits, stop_wait_ms=50)
    names = ["much", "few", "none"]
    for name in names:
        life.register(name, text(name))
    engine = life.engine
    push(life, 1_000, "much", "few")
    engine.parts.sequencer.wait_for_all()
    running = [engine.parts.catalogue.get(name).running for name in names]
    assert all(each is not None and isinstance(each.group.plan_slot, MemberSlot) for each in running)
    push(life, 2_000, *[f"much{number}" for number in range(400)], "few")
    deadline = time.monotonic() + 30
    while engine.queries.feed("few").history.last_id < 2:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert engine.queries.feed("much").history.last_id == 1
    push(life, 3_000, "few", "none")
    while engine.queries.feed("few").history.last_id < 3 or engine.queries.feed("none").history.last_id < 1:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert engine.queries.feed("much").history.last_id == 1, "it is still at work"
    life.stop()
