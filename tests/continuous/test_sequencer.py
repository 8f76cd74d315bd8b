"""The engine's thread: a lone turn is worked off at once, a backlog with one settling for many turns."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from quadrill.continuous.durable.turns import TurnQueue
from quadrill.continuous.scheduler.turn_kinds import BetweenTurns
from quadrill.store.quads.views import ViewRegistry

from .engines import bench


def test_a_lone_turn_waits_for_no_other() -> None:
    # A tick says that nothing is due for an hour: only an input can wake the engine's thread.
    with bench(threaded=True, tick_ms=3_600_000) as b:
        for number in range(5):
            assert b.engine.parts.sequencer.call(lambda number=number: number) == number


def test_a_backlog_is_settled_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    settled: list[None] = []
    monkeypatch.setattr(ViewRegistry, "settled", lambda _: settled.append(None))
    with bench(threaded=True) as b:
        turns: TurnQueue = b.engine.parts.turns
        go = threading.Event()
        order: list[int] = []
        turns.put(BetweenTurns(lambda: go.wait(30)))
        waiting = [BetweenTurns(lambda number=number: order.append(number)) for number in range(500)]
        for turn in waiting:
            turns.put(turn)
        before = len(settled)
        go.set()
        for turn in waiting:
            turns.wait(turn, 30)
        assert order == list(range(500))
        assert len(settled) - before < 50


def test_commits_that_move_no_query_wait_for_the_next_turn() -> None:
    with bench(threaded=True, tick_ms=3_600_000) as b:
        parts, version = b.engine.parts, b.store.version
        parts.sequencer.wait_for_all()
        for number in range(30):
            b.store.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        assert parts.turns.version == version, "nothing has woken the engine's thread"
        assert parts.sequencer.call(lambda: parts.turns.version) == version + 30
        for number in range(30, 200):
            b.store.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        assert len(parts.turns.kept_back) <= 64
        parts.sequencer.wait_for_all()
        assert parts.turns.version == version + 200


def test_a_commit_that_moves_a_query_wakes_the_thread() -> None:
    query = "SELECT ?s ?o { STREAM <urn:s> [RANGE 1h] { ?s <urn:q> ?v } GRAPH <urn:g> { ?s <urn:p> ?o } }"
    with bench(threaded=True, tick_ms=3_600_000) as b:
        b.register("joined", query)
        parts = b.engine.parts
        parts.sequencer.wait_for_all()
        b.store.update("INSERT DATA { <urn:elsewhere> <urn:other> 1 }")
        assert not parts.turns.waiting.qsize() and len(parts.turns.kept_back) == 1
        b.store.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
        assert not parts.turns.kept_back


def test_several_may_wait_for_one_turn() -> None:
    """As pushes with one Idempotency-Key do."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with bench(threaded=True) as b, ThreadPoolExecutor(8) as pool:
            turns: TurnQueue = b.engine.parts.turns
            for number in range(200):
                go, ready = threading.Event(), threading.Barrier(9)
                turn = BetweenTurns(lambda go=go, number=number: go.wait(30) and number)

                def waits(turn: BetweenTurns = turn, ready: threading.Barrier = ready) -> int:
                    ready.wait(30)
                    found: int = turns.wait(turn, 30)
                    return found

                turns.put(turn)
                found = [pool.submit(waits) for _ in range(8)]
                ready.wait(30)
                go.set()
                assert [each.result(40) for each in found] == [number] * 8
    finally:
        sys.setswitchinterval(interval)
