"""Inputs that wait in line are given to queries together, which tell what they tell of inputs one by one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import sleep
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.threads import Threads
from tests.examples import examples

from . import test_run_loop as loops
from .engines import Bench, E, S, bench
from .test_recovery import Life
from .test_run_loop import T, elements, line

OTHERS = {
    "tumbling": "SELECT ?x ?v { STREAM :s [RANGE 4ms SLIDE 4ms] { ?x :seen ?v } }",
    "strict": "SELECT ?x ?v { STREAM :s [RANGE 4ms SLIDE 2ms] { ?x :seen ?v } }",
    "made": "REGISTER STREAM <http://example.org/made> AS CONSTRUCT { ?x <http://example.org/seen> ?v } "
    "FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 3ms STEP 1ms] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } }",
    "reads": "SELECT ?x ?v ?w "
    "{ STREAM :s [RANGE 5ms] { ?x :seen ?v } STREAM :made [RANGE 6ms] { ?x :seen ?w } }",
    "one": "SELECT ?v { STREAM :s [RANGE 6ms] { :a :seen ?v } }",
    "other": "SELECT ?v { STREAM :s [RANGE 6ms] { :b :seen ?v } }",
    "third": "SELECT ?v { STREAM :s [RANGE 6ms] { :c :seen ?v } }",
    "quiet": "SELECT ?x ?v { STREAM :s [RANGE 9ms] { ?x :seen ?v } } AFTER 8ms",
    "latest": "SELECT ?x ?v { STREAM :s [LATEST 2 BY ?x WITHIN 6ms] { ?x :seen ?v } }",
}
ALL = {name.replace(" ", "-"): text for name, text in (loops.QUERIES | OTHERS).items()}

Push = tuple[str, list[Any], int]
"""A stream, elements as in the tests of runs, and how much before the newest the first of them is."""
pushes = st.tuples(
    st.sampled_from([S, S, S, T]), st.lists(elements, min_size=1, max_size=3), st.sampled_from([0, 0, 0, 2])
)
Line = list[Push | tuple[str, int]]
"""Inputs that wait together: pushes, and heartbeats by steps of time."""
lines = st.lists(
    st.one_of(pushes, st.tuples(st.sampled_from([S, T]), st.integers(0, 5))), min_size=1, max_size=9
)


@contextmanager
def in_line(engine: Engine) -> Iterator[None]:
    """What is pushed within waits, and is worked off behind it as by an engine's thread."""
    sequencer = engine.parts.sequencer
    sequencer.threads = Threads(threaded=True)
    try:
        yield
    finally:
        while not sequencer.tasks.waiting.empty():
            sequencer.execute_queued(0.0)
        sequencer._worker, sequencer.threads = None, Threads(threaded=False)


def enter(engine: Engine, inputs: Line, time: int) -> int:
    """Give inputs to the engine; the newest time."""
    for each in inputs:
        if len(each) == 2:
            stream, step = each
            time += step
            engine.streams.heartbeat(stream, time)
            continue
        stream, given, before = each
        at, body = max(0, time - before), []
        for step, quads, in_graph in given:
            at += step
            body.append(line(at, quads, named=in_graph))
        time = max(time, at)
        engine.streams.push(PushCall(stream, "application/x-ndjson"), "\n".join(body).encode())
    return time


def register(b: Bench, names: Sequence[str], **options: Any) -> None:
    for stream in (S, T):
        b.engine.streams.declare(stream, late="admit")
    b.store.writer.update(f"INSERT DATA {{ <{E}b> <{E}in> <{E}room> , <{E}hall> }}")
    for name in names:
        b.register(name, ALL[name], **options)


def found(engine: Engine, names: Sequence[str]) -> Any:
    """All that can be seen of queries: events, figures, state, and dead letters."""
    told: dict[str, Any] = {}
    for name in names:
        running = engine.parts.catalogue.get(name).running
        assert running is not None
        running.bring_up_to_date()
        events = [(each.id, each.kind, each.data) for each in engine.queries.feed(name).subscribe(0).take()]
        answer = json.loads(engine.queries.feed(name).current() or "null")
        if answer is not None and "results" in answer:
            answer["results"]["bindings"].sort(key=str)
        told[name] = (
            events,
            answer,
            running.last.evaluations,
            running.state,
            running.error,
            running.timeline.instant,
        )
        if running.state != "failed":
            due = running.timeline.next_due()
            told[name] += running.counts(), running.last.answer_id, due, len(running.timeline.inputs)
    # With an element at which a query failed others of that time are kept, which a line may have more of.
    letters = {
        (stream, each["reason"], each["query"], each["at"])
        for stream in (S, T)
        for each in engine.streams.dead_letters(stream)
    }
    return told, letters


def play(b: Bench, rounds: Sequence[Line], *, wait: bool) -> None:
    time = 0
    for number, inputs in enumerate(rounds):
        if wait:
            with in_line(b.engine):
                time = enter(b.engine, inputs, time)
        else:
            time = enter(b.engine, inputs, time)
        verb = "INSERT" if number % 2 else "DELETE"
        b.store.writer.update(f"{verb} DATA {{ <{E}b> <{E}in> <{E}room> }}")


@settings(max_examples=examples(150), deadline=None)
@given(
    rounds=st.lists(lines, min_size=1, max_size=4),
    names=st.lists(st.sampled_from(list(ALL)), min_size=1, max_size=6, unique=True),
    lateness=st.sampled_from([0, 0, 2]),
    limits=st.sampled_from(
        [QueryLimits(), QueryLimits(), QueryLimits(rows=3), QueryLimits(bytes=300), QueryLimits(kept=4)]
    ),
)
def test_inputs_in_line_are_as_one_by_one(
    rounds: list[Line], names: list[str], lateness: int, limits: QueryLimits
) -> None:
    names = ["made", *(each for each in names if each != "made")] if {"reads"} & {*names} else names
    if limits != QueryLimits():
        # Of a failure at a heartbeat what has come by now is kept.
        rounds = [[each for each in inputs if len(each) == 3] for inputs in rounds]
    both = []
    for wait in (True, False):
        with bench(limits=limits) as b:
            register(b, names, lateness=lateness)
            play(b, rounds, wait=wait)
            both.append(found(b.engine, names))
    assert both[0] == both[1]


def test_members_that_fail_in_one_step_take_no_input_from_other_readers() -> None:
    names = ["all", "values", "one"]
    with bench(limits=QueryLimits(bytes=300)) as b:
        for name in names[:2]:
            b.register(name, ALL[name])
        b.register("one", "SELECT ?v { STREAM :s [RANGE 4ms] { ?x :noted ?v } }")
        quads = [("a", "seen", 0), ("a", "seen", 1), ("b", "seen", 0), ("a", "noted", 7)]
        b.engine.streams.push(PushCall(S, "application/x-ndjson"), line(0, quads, named=False).encode())
        running = [b.engine.parts.catalogue.get(name).running for name in names]
        assert [each and each.state for each in running] == ["failed", "failed", "running"]
        assert [each.id for each in b.engine.queries.feed("one").subscribe(0).take()] == [1]


def test_a_line_is_one_run_of_the_loop() -> None:
    with bench() as b:
        register(b, ["all", "two"])
        b.push(1, "a")
        running = b.engine.parts.catalogue.get("all").running
        assert running is not None
        runs, run = [], running.evaluator.run

        def counted(given: Any, *others: Any) -> Any:
            runs.append(len(given))
            return run(given, *others)

        running.evaluator.run = counted  # type: ignore[method-assign]
        with in_line(b.engine):
            for at in range(2, 42):
                b.push(at, f"n{at}", stream=S if at % 2 else T)
        # A step that is measured is taken by itself.
        assert runs[0] == 20
        assert len(runs) <= 3
        assert [event.kind for event in b.engine.queries.feed("all").subscribe(0).take()] == ["insert"] * 21


@settings(max_examples=examples(15), deadline=None)
@given(
    rounds=st.lists(lines, min_size=2, max_size=4),
    limits=st.sampled_from([QueryLimits(), QueryLimits(rows=3)]),
)
def test_a_replay_of_a_line_tells_what_it_told(
    rounds: list[Line], limits: QueryLimits, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("line")
    names = ["all", "now", "two", "one", "other", "tumbling", "made", "reads", "count"]
    life = Life(folder / "data", ManualClock(0), limits=limits)
    try:
        for name in names:
            life.register(name, ALL[name])
        time = 0
        for inputs in rounds:
            with in_line(life.engine):
                time = enter(life.engine, inputs, time)
        before = found(life.engine, names)
        life = life.crash()
        assert found(life.engine, names) == before
    finally:
        life.stop()


def test_inputs_that_take_long_are_not_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, handle = [], RunningQuery.handle

    def slow(running: RunningQuery, events: Any, now_ms: int) -> None:
        runs.append(len(events))
        sleep(0.06 * len(events))
        handle(running, events, now_ms)

    monkeypatch.setattr(RunningQuery, "handle", slow)
    with bench() as b:
        register(b, ["all"])
        b.push(1, "a")
        with in_line(b.engine):
            for at in range(2, 14):
                b.push(at, f"n{at}")
    assert sum(runs) == 13
    assert max(runs) <= 5


def test_members_fail_at_the_input_at_which_an_instant_came() -> None:
    values = [(0, "c"), *[(1, "a")] * 4, (3, "b"), (5, "b"), (10, "b")]
    both = []
    for wait in (True, False):
        with bench(limits=QueryLimits(bytes=200)) as b:
            register(b, ["one", "other"], output="changes")
            inputs: Line = [(S, [(at, [(x, "seen", n)], False)], 20) for n, (at, x) in enumerate(values)]
            play(b, [inputs], wait=wait)
            both.append(found(b.engine, ["one", "other"]))
    assert both[0] == both[1]
    assert {at for *_, at in both[0][1]} == {10}
