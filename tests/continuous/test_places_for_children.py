"""Only so many recomputed evaluations have a child process at once; the others wait and hold nobody."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest

from quadrill.app.describing.queries import describe
from quadrill.continuous.engine import Registration
from quadrill.continuous.evaluate import in_child
from quadrill.continuous.evaluate.in_child import evaluate_in_child
from quadrill.continuous.evaluate.permits import PERMITS, PermitPool
from quadrill.continuous.rows import Budget, QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.logs.process_copy import COPIES
from tests.continuous.engines import PREFIX, S
from tests.continuous.test_fair_shares import OTHER, N, latency, lines, threaded
from tests.continuous.test_recomputing_limits import HEAVY, children, others, until
from tests.continuous.test_recovery import Life

__all__ = ["others"]  # a fixture for each test here

pytestmark = pytest.mark.skipif(not COPIES, reason="processes are copied on Linux only")

MOST = 2
MANY = [f"q{number}" for number in range(MOST + 3)]
ENDLESS = QueryLimits(rows=0, ms=0)
MINUTES = HEAVY["product"]
"""Over 300 elements it takes minutes, over 30 a moment."""


@pytest.fixture
def places(monkeypatch: pytest.MonkeyPatch) -> PermitPool:
    made = PermitPool(MOST)
    monkeypatch.setattr(in_child, "PERMITS", made)
    return made


def register(life: Life, names: list[str], text: str = MINUTES) -> None:
    for name in names:
        life.engine.queries.register(Registration(name=name, query=PREFIX + text))
        assert describe(life.engine, name)["engine"].startswith("reference")


def waiting(life: Life, places: PermitPool) -> list[str]:
    """Push what takes minutes; the names of the queries that wait for a place."""
    register(life, MANY)
    life.engine.queries.register(Registration(name="quick", query=PREFIX + OTHER))
    life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
    until(lambda: (places.running, places.waiting) == (MOST, 3), 10.0)
    until(lambda: len(children()) == MOST, 10.0)
    return MANY[MOST:]


def test_there_are_as_many_places_as_cores_within_bounds() -> None:
    assert 2 <= PERMITS.size <= 8


def test_no_more_children_than_places_and_all_queries_go_on(tmp_path: Path, places: PermitPool) -> None:
    most, ended = 0, threading.Event()

    def look() -> None:
        nonlocal most
        while not ended.wait(0.005):
            most = max(most, len(children()), places.running)

    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=60_000)) as life:
        register(life, MANY)
        looks = threading.Thread(target=look)
        looks.start()
        try:
            for at in range(2):
                life.engine.streams.push(PushCall(S, "text/turtle", at=1_000 + at), lines(11, 1, 11 * at))
            until(lambda: all(life.engine.queries.feed(name).history.last_id >= 2 for name in MANY), 60.0)
        finally:
            ended.set()
            looks.join()
        until(lambda: not places.running and not children(), 5.0)
        assert {describe(life.engine, name)["state"] for name in MANY} == {"running"}
    assert 1 <= most <= MOST


def test_who_waits_is_behind_holds_nobody_and_uses_little_cpu(tmp_path: Path, places: PermitPool) -> None:
    with threaded(tmp_path / "d", limits=ENDLESS, stop_wait_ms=200) as life:
        for name in waiting(life, places):
            shown = describe(life.engine, name)
            assert shown["state"] == "running" and shown["backlog"]["tasks"] == 1
        assert latency(life, "quick", N + "t", 10) < 4.0
        spent = time.process_time()
        time.sleep(0.5)
        assert time.process_time() - spent < 0.3
        assert places.waiting == 3 and len(children()) == MOST


def test_who_waits_can_be_paused_and_dropped(tmp_path: Path, places: PermitPool) -> None:
    with threaded(tmp_path / "d", limits=ENDLESS, stop_wait_ms=200) as life:
        paused, dropped, last = waiting(life, places)
        began = time.monotonic()
        life.engine.queries.patch(paused, {"state": "paused"})
        life.engine.queries.drop(dropped)
        assert time.monotonic() - began < 4.0
        until(lambda: places.waiting == 1, 4.0)
        assert describe(life.engine, paused)["state"] == "paused"
        # Those who have places leave them to the one that still waits.
        for name in MANY[:MOST]:
            life.engine.queries.drop(name)
        until(lambda: (places.running, places.waiting) == (1, 0) and len(children()) == 1, 6.0)
        life.engine.queries.drop(last)
        until(lambda: not places.running and not children(), 6.0)
        spent = time.process_time()
        time.sleep(0.3)
        assert time.process_time() - spent < 0.2


def test_a_stop_leaves_no_place_held(tmp_path: Path, places: PermitPool) -> None:
    with threaded(tmp_path / "d", limits=ENDLESS, stop_wait_ms=200) as life:
        waiting(life, places)
        life.stop()
        assert (places.running, places.waiting, children()) == (0, 0, [])


def test_endless_evaluations_do_not_keep_all_places(
    tmp_path: Path, places: PermitPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_child, "_SHARE_S", 0.1)
    with threaded(tmp_path / "d", limits=ENDLESS, stop_wait_ms=200) as life:
        register(life, MANY[:MOST])
        register(life, ["short"], MINUTES.replace(":s", ":t"))
        life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
        until(lambda: places.running == MOST, 10.0)
        life.engine.streams.push(PushCall(N + "t", "text/turtle", at=1_000), lines(20))
        until(lambda: life.engine.queries.feed("short").history.last_id > 0, 60.0)
        until(lambda: places.running == MOST, 10.0)
        assert {describe(life.engine, name)["state"] for name in MANY[:MOST]} == {"running"}


def test_the_wait_is_not_time_of_the_evaluation(tmp_path: Path, places: PermitPool) -> None:
    places.size = 1
    with threaded(tmp_path / "d", limits=QueryLimits(rows=0, ms=600)) as life:
        register(life, MANY[:3])
        life.engine.streams.push(PushCall(S, "text/turtle", at=1_000), lines(300))
        until(lambda: all(describe(life.engine, name)["state"] == "failed" for name in MANY[:3]), 30.0)
        for name in MANY[:3]:
            found = re.match(r"one evaluation took (\d+) ms", describe(life.engine, name)["error"] or "")
            assert found is not None and int(found[1]) < 1_200


def test_places_are_given_in_the_order_of_the_line() -> None:
    places = PermitPool(1)
    with places.request() as first:
        second, third, fourth = places.request(), places.request(), places.request()
        line = [each.__enter__() for each in (second, third, fourth)]
        assert first.ready(0.0) and not any(each.ready(0.0) for each in line)
        assert first.is_due(0.0) and not first.is_due(60.0)
        second.__exit__(None, None, None)  # does not wait any more
    assert [each.ready(0.0) for each in line[1:]] == [True, False]
    third.__exit__(None, None, None)
    assert line[2].ready(0.0) and not line[2].is_due(0.0)
    fourth.__exit__(None, None, None)
    assert (places.running, places.waiting) == (0, 0)


def test_a_thread_that_has_all_places_does_not_wait_for_itself(places: PermitPool) -> None:
    with places.request(), places.request():
        assert places.running == MOST
        assert evaluate_in_child(lambda: True, lambda: None, 0, Budget(QueryLimits(ms=5_000)), "here") is True


def test_another_thread_waits_until_it_is_called_off_or_gets_one(places: PermitPool) -> None:
    found: list[object] = []
    budget = Budget(QueryLimits(ms=5_000))
    thread = threading.Thread(
        target=lambda: found.append(evaluate_in_child(lambda: True, lambda: None, 0, budget, "here"))
    )
    with places.request(), places.request():
        thread.start()
        until(lambda: places.waiting == 1, 5.0)
        time.sleep(0.1)
        assert found == []
    thread.join(10.0)
    assert found == [True]
