"""Working off: a lone turn at once, a backlog with one settling for many turns, in a thread or without."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from quadrill.continuous.durable.tasks import TaskQueue
from quadrill.continuous.errors import EngineStoppedError
from quadrill.continuous.scheduler.router import Router
from quadrill.continuous.scheduler.sequencer import Sequencer
from quadrill.continuous.scheduler.task_kinds import CallTask

from .engines import Bench, bench


def test_a_lone_turn_waits_for_no_other() -> None:
    # A tick says that nothing is due for an hour: only an input can wake the engine's thread.
    with bench(threaded=True, tick_ms=3_600_000) as b:
        for number in range(5):
            assert b.engine.parts.sequencer.call(lambda number=number: number) == number


def test_outputs_of_a_backlog_are_flushed_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    flushes: list[None] = []
    flush = Sequencer.flush

    def counted(sequencer: Sequencer, **options: Any) -> None:
        flushes.append(None)
        flush(sequencer, **options)

    monkeypatch.setattr(Sequencer, "flush", counted)
    with bench(threaded=True) as b:
        tasks: TaskQueue = b.engine.parts.tasks
        go = threading.Event()
        order: list[int] = []
        tasks.put(CallTask(lambda: go.wait(30)))
        waiting = [CallTask(lambda number=number: order.append(number)) for number in range(500)]
        for task in waiting:
            tasks.put(task)
        before = len(flushes)
        go.set()
        for task in waiting:
            tasks.wait(task, 30)
        assert order == list(range(500))
        assert 0 < len(flushes) - before < 50


def in_line(b: Bench, monkeypatch: pytest.MonkeyPatch, *tasks: CallTask) -> None:
    """Two inputs and then turns that nobody has worked off yet, in an engine without a thread."""
    with monkeypatch.context() as held:
        held.setattr(Sequencer, "drain", lambda _: None)
        b.push(1000, "a")
        b.push(2000, "b")
    for task in tasks:
        b.engine.parts.tasks.put(task)


def test_without_a_thread_what_is_in_line_is_worked_off_and_settled_together(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settled: list[None] = []
    with bench() as b:
        b.register("all", "SELECT ?o { STREAM <urn:s> [RANGE 1h] { ?s <urn:p> ?o } }")
        parts = b.engine.parts
        order: list[int] = []
        tasks = [CallTask(lambda number=number: order.append(number)) for number in range(150)]
        wrong = CallTask(lambda: 1 // 0)
        in_line(b, monkeypatch, *tasks[:3], wrong, *tasks[3:])
        monkeypatch.setattr(Sequencer, "flush", lambda _: settled.append(None))
        parts.sequencer.drain()
        assert order == list(range(150)) and parts.tasks.weight == 0
        assert isinstance(wrong.error, ZeroDivisionError)
        assert all(task.done and task.error is None for task in tasks)
        assert len(settled) == 3


def test_nobody_waits_for_what_an_interrupt_has_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with bench() as b:
        b.register("all", "SELECT ?o { STREAM <urn:s> [RANGE 1h] { ?s <urn:p> ?o } }")
        parts, (behind, last) = b.engine.parts, (CallTask(lambda: 1), CallTask(lambda: 2))
        in_line(b, monkeypatch, behind, last)
        with monkeypatch.context() as stopping:
            stopping.setattr(Router, "dispatch", interrupted)
            with pytest.raises(KeyboardInterrupt):
                parts.sequencer.drain()
        with pytest.raises(EngineStoppedError, match="interrupted"):
            parts.tasks.wait(behind, 0)
        parts.sequencer.drain()
        assert parts.tasks.wait(last, 0) == 2


def test_commits_that_move_no_query_wait_for_the_next_turn() -> None:
    with bench(threaded=True, tick_ms=3_600_000) as b:
        parts, version = b.engine.parts, b.store.reader.version
        parts.sequencer.wait_for_all()
        for number in range(30):
            b.store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        assert parts.tasks.version == version, "nothing has woken the engine's thread"
        assert parts.sequencer.call(lambda: parts.tasks.version) == version + 30
        for number in range(30, 200):
            b.store.writer.update(f"INSERT DATA {{ <urn:a> <urn:p> {number} }}")
        assert len(parts.tasks.delayed) <= 64
        parts.sequencer.wait_for_all()
        assert parts.tasks.version == version + 200


def test_a_commit_that_moves_a_query_wakes_the_thread() -> None:
    query = "SELECT ?s ?o { STREAM <urn:s> [RANGE 1h] { ?s <urn:q> ?v } GRAPH <urn:g> { ?s <urn:p> ?o } }"
    with bench(threaded=True, tick_ms=3_600_000) as b:
        b.register("joined", query)
        parts = b.engine.parts
        parts.sequencer.wait_for_all()
        b.store.writer.update("INSERT DATA { <urn:elsewhere> <urn:other> 1 }")
        assert not parts.tasks.waiting.qsize() and len(parts.tasks.delayed) == 1
        b.store.writer.update("INSERT DATA { GRAPH <urn:g> { <urn:a> <urn:p> 1 } }")
        assert not parts.tasks.delayed


def test_several_may_wait_for_one_turn() -> None:
    """As pushes with one Idempotency-Key do."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with bench(threaded=True) as b, ThreadPoolExecutor(8) as pool:
            tasks: TaskQueue = b.engine.parts.tasks
            for number in range(200):
                go, ready = threading.Event(), threading.Barrier(9)
                task = CallTask(lambda go=go, number=number: go.wait(30) and number)

                def waits(task: CallTask = task, ready: threading.Barrier = ready) -> int:
                    ready.wait(30)
                    found: int = tasks.wait(task, 30)
                    return found

                tasks.put(task)
                found = [pool.submit(waits) for _ in range(8)]
                ready.wait(30)
                go.set()
                assert [each.result(40) for each in found] == [number] * 8
    finally:
        sys.setswitchinterval(interval)
