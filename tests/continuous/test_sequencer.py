"""The engine's thread: a lone turn is worked off at once, a backlog with one settling for many turns."""

from __future__ import annotations

import threading

import pytest

from quadrill.continuous.durable.turns import CallTurn, TurnQueue
from quadrill.continuous.output.views import ViewRegistry

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
        turns.put(CallTurn(lambda: go.wait(30)))
        waiting = [CallTurn(lambda number=number: order.append(number)) for number in range(500)]
        for turn in waiting:
            turns.put(turn)
        before = len(settled)
        go.set()
        for turn in waiting:
            turns.wait(turn, 30)
        assert order == list(range(500))
        assert len(settled) - before < 50
