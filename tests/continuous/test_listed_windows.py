"""Windows that are told straight from the texts of their triples say what the operators say of them.

A query with a limit of memory is evaluated by its operators: it is the twin of one without.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.continuous.evaluate.listed_window import ListedAnswer
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.queries.snapshot import snapshot_of
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.streams.push_call import PushCall
from tests.examples import examples

from .engines import Bench, S, bench
from .test_run_loop import Beat, Push, T, elements, line, push_steps, same, told

OPTIONS = {"output": "rstream", "report": "on-window-close"}
QUERIES = {
    "all": "SELECT ?x ?v { STREAM :s [RANGE 4ms SLIDE 4ms] { ?x :seen ?v } }",
    "one column": "SELECT ?v { STREAM :s [RANGE 4ms SLIDE 4ms] { ?x ?p ?v } }",
    "constants": "SELECT ?x ?none { STREAM :s [RANGE 3ms SLIDE 5ms] { ?x :seen 1 } }",
    "hops": "SELECT ?x ?v { STREAM :s [RANGE 4ms SLIDE 2ms] { ?x :seen ?v } }",
}
FILTERED = "SELECT ?x { STREAM :s [RANGE 4ms SLIDE 4ms] { ?x :seen ?v FILTER(?v > 0) } }"


@dataclass(frozen=True)
class Does:
    """Something that wants to know what the operators do not."""

    what: str


inputs = st.lists(
    st.one_of(
        st.builds(Push, st.sampled_from([S, S, T]), st.lists(elements, min_size=1, max_size=12)),
        st.builds(Beat, st.just(S), st.integers(0, 12)),
        st.builds(Does, st.sampled_from(["late", "pause", "resume", "snapshot", "others", "drop"])),
    ),
    min_size=1,
    max_size=14,
)


def running_of(b: Bench, name: str) -> RunningQuery:
    running = b.engine.parts.catalogue.get(name).running
    assert running is not None
    return running


def windows_of(b: Bench, name: str) -> Any:
    """What a checkpoint would hold of a query's windows and of its figures."""
    found = snapshot_of(running_of(b, name), {})
    contents = [(snapshot.closed, snapshot.content) for _, snapshot in found.timeline.windows]
    held = [
        (closed, {**content.counts}, {**content.changes}, content.occurrences) for closed, content in contents
    ]
    return held, found.last_step, found.counts, found.last_result


def do(b: Bench, what: str, time: int) -> None:
    match what:
        case "late" if time > 3:
            b.engine.streams.push(
                PushCall(S, "application/x-ndjson"), line(time - 3, [("a", "seen", 7)], named=False).encode()
            )
        case "pause" | "resume":
            for name in ("run", "twin"):
                b.engine.queries.patch(name, {"state": "paused" if what == "pause" else "running"})
        case "snapshot":
            assert windows_of(b, "run") == windows_of(b, "twin")
        case "others" if "other" not in b.engine.queries.names():
            b.register("other", FILTERED, **OPTIONS)
        case "drop" if "other" in b.engine.queries.names():
            b.engine.queries.drop("other")


@pytest.mark.parametrize("kind", QUERIES)
@settings(max_examples=examples(40), deadline=None)
@given(events=inputs, named=st.booleans(), late=st.sampled_from(["drop", "admit"]))
def test_listed_windows_say_what_operators_say(
    kind: str, events: list[Push | Beat | Does], named: bool, late: str
) -> None:
    with bench() as b:
        for stream in (S, T):
            b.engine.streams.declare(stream, late=late)
        b.register("run", QUERIES[kind], **OPTIONS)
        b.register("twin", QUERIES[kind], memory=1_000_000, **OPTIONS)
        time = 0
        for event in events:
            match event:
                case Push():
                    time = push_steps(b, event, time, named=named)
                case Beat(stream, step):
                    time += step
                    b.engine.streams.heartbeat(stream, time)
                case Does(what):
                    do(b, what, time)
            same(b)
        assert windows_of(b, "run") == windows_of(b, "twin")


def listed(b: Bench, name: str) -> bool:
    """True when the last answer of a query was told without its operators."""
    current = running_of(b, name).feed._current
    return isinstance(current.answer, ListedAnswer)  # type: ignore[union-attr]


def test_windows_in_place_of_others_are_told_without_operators() -> None:
    with bench() as b:
        b.register("run", QUERIES["all"], **OPTIONS)
        b.register("twin", QUERIES["all"], memory=1_000_000, **OPTIONS)
        for at in range(0, 40, 2):
            b.push(at, "a", f"n{at}")
        assert listed(b, "run") and not listed(b, "twin")
        evaluator = running_of(b, "run").evaluator
        assert isinstance(evaluator, NativeEvaluator)
        assert not evaluator.answer.rows
        assert evaluator.state is not None
        assert evaluator.state.plan.figures.steps == running_of(b, "run").last.evaluations
        same(b)


@pytest.mark.parametrize("limits", [QueryLimits(kept=5), QueryLimits(bytes=700)])
def test_a_listed_window_that_is_too_large_fails_with_the_same_words(limits: QueryLimits) -> None:
    with bench(limits=limits) as b:
        b.register("run", QUERIES["all"], **OPTIONS)
        b.register("twin", QUERIES["all"], memory=1_000_000, **OPTIONS)
        for at in range(40):
            b.push(at, *[f"n{each}" for each in range(1 + at // 4)])
        run, twin = running_of(b, "run"), running_of(b, "twin")
        assert run.state == twin.state == "failed"
        assert run.error == twin.error
        assert told(b, "run")[:2] == told(b, "twin")[:2]
        assert windows_of(b, "run") == windows_of(b, "twin")
