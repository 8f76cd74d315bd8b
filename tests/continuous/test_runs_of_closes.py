"""Runs of closes that change nothing are one step, and give the answers of every single close."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quadrill.app.describing.queries import describe
from quadrill.continuous.algebra.reports import UnchangedRun
from quadrill.continuous.engine import Registration
from quadrill.continuous.inputs import Advance, StreamTime
from quadrill.continuous.streams.push_call import PushCall
from quadrill.continuous.windows.runs import AskSilent, number_of_instants
from quadrill.continuous.windows.timeline import QueryTimeline

from .engines import Bench, bench, reference_evaluator, tick
from .timeline_law.cases import IDLE_MS, Beat, Case, E, Happening, Push, random_case
from .timeline_law.test_timeline_law import give as happen

BAD = "urn:bad"
DAY = 86_400_000
BLOCK = "{ ?a <urn:k> ?n }"
EACH_MS = f"STREAM <{BAD}> [RANGE 1000d SLIDE 1ms] {BLOCK}"
SLIDES = [1, 1, 2, 3, 7]
COUNT = "SELECT (COUNT(?n) AS ?c) WHERE"


def element(b: Bench, at: int, stream: str = BAD) -> None:
    b.engine.streams.push(
        PushCall(stream, "application/n-triples", at=at), f'<urn:a> <urn:k> "{at}" .'.encode()
    )


def feed(b: Bench, name: str = "q") -> list[tuple[str, Any]]:
    return [(each.kind, json.loads(each.data)) for each in b.engine.queries.feed(name).subscribe(0).take()]


def instants(b: Bench, name: str = "q") -> list[tuple[str, int]]:
    return [(kind, document.get("at")) for kind, document in feed(b, name)]


SILENT = {
    "on content change": (f"SELECT ?n WHERE {{ {EACH_MS} }}", {}, [("insert", 30001), ("insert", 40000001)]),
    "dstream": (f"SELECT ?n WHERE {{ {EACH_MS} }}", {"output": "dstream"}, []),
    "changes": (
        f"{COUNT} {{ {EACH_MS} }}",
        {"output": "changes"},
        [
            ("insert", 30000),
            *[("delete", 30001), ("insert", 30001)],
            *[("delete", 40000001), ("insert", 40000001)],
        ],
    ),
    "on window close": (
        f"SELECT ?n WHERE {{ {EACH_MS} }}",
        {"report": "on-window-close"},
        [("insert", 30001), ("insert", 40000001)],
    ),
    "periodic": (
        f"SELECT ?n WHERE {{ {EACH_MS} }}",
        {"report": {"periodic": 7}},
        [("insert", 30002), ("insert", 40000002)],
    ),
    "closes between two reports": (
        f"SELECT ?n WHERE {{ {EACH_MS} }}",
        {"report": {"periodic": 39_000_000}, "output": "rstream"},
        [("answer", 39_000_000)],
    ),
    "empty answers that are not emitted": (
        f"SELECT ?n WHERE {{ {EACH_MS.replace('?n }', '?n FILTER(?n = 5) }')} }}",
        {"output": "rstream", "non_empty": True},
        [],
    ),
    "a boolean": (
        f"ASK WHERE {{ {EACH_MS} }}",
        {"output": "rstream"},
        [("answer", 30000), ("answer", 30001)],
    ),
    "quads": (
        f"CONSTRUCT {{ ?n <urn:of> ?a }} WHERE {{ {EACH_MS.replace('?n }', '?n . ?n <urn:x> ?a }')} }}",
        {"output": "changes"},
        [],
    ),
    "once per": (
        f"SELECT ?a ?n WHERE {{ {EACH_MS} }} ONCE PER ?a EVERY 10m",
        {},
        [("insert", 30001), ("insert", 40000001)],
    ),
    "several windows": (
        f"SELECT ?n ?m WHERE {{ {EACH_MS} STREAM <{BAD}> [RANGE 900d SLIDE 3ms] {{ ?a <urn:k> ?m }} "
        f"STREAM <{BAD}> [LATEST 1 BY ?a] {{ ?a <urn:k> ?k }} }}",
        {},
        [("insert", 30003), ("insert", 40000001), ("insert", 40000002)],
    ),
    "a window of the past": (
        f"SELECT ?n WHERE {{ STREAM <{BAD}> [RANGE 1000d TO 3s SLIDE 1ms] {BLOCK} }}",
        {},
        [("progress", None), ("insert", 33001)],
    ),
    "a while after the start": (
        f"SELECT ?n WHERE {{ {EACH_MS} }}",
        {"output": "rstream", "after": "39970s"},
        [("answer", 40000000), ("answer", 40000001), ("answer", 40000002)],
    ),
}


@pytest.mark.parametrize("reference", [False, True], ids=["native", "reference"])
@pytest.mark.parametrize("case", SILENT)
def test_forty_million_silent_closes_are_one_step(case: str, reference: bool) -> None:
    text, options, told = SILENT[case]
    with bench(make_evaluator=reference_evaluator if reference else None) as b:
        b.register("q", text, **options)
        began = time.process_time()
        element(b, 30_000)
        element(b, 40_000_000)
        b.engine.streams.heartbeat(BAD, 40_000_002)
        assert time.process_time() - began < 2
        assert instants(b) == told


def test_queries_of_one_group_pass_over_closes_together() -> None:
    with bench() as b:
        for number in range(6):
            text = f'SELECT ?a WHERE {{ {EACH_MS.replace("?n }", f"""?n FILTER(?n != "{number}") }}""")} }}'
            b.register(f"q{number}", text, output="rstream" if number == 5 else "istream", non_empty=True)
        b.engine.queries.drop("q5")
        element(b, 30_000)
        element(b, 40_000_000)
        b.engine.streams.heartbeat(BAD, 40_000_002)
        for number in range(5):
            assert describe(b.engine, f"q{number}")["counters"]["evaluations"] == 39_970_003


def test_a_query_that_emits_at_every_close_holds_no_silent_one() -> None:
    """Its steps are drawn one by one: the first comes at once, however many follow."""
    with bench() as b:
        b.register("loud", f"SELECT ?n WHERE {{ {EACH_MS} }}", output="rstream")
        b.register("silent", f"SELECT ?n WHERE {{ {EACH_MS} }}", output="istream")
        element(b, 30_000)
        b.engine.streams.heartbeat(BAD, 30_100)
        assert len(feed(b, "loud")) == 101
        assert instants(b, "silent") == [("insert", 30001)]
        b.engine.queries.drop("loud")
        element(b, 40_000_000)
        b.engine.streams.heartbeat(BAD, 40_000_001)
        assert instants(b, "silent") == [("insert", 30001), ("insert", 40000001)]


def test_a_query_with_now_is_evaluated_at_every_close() -> None:
    with bench() as b:
        b.register("q", f"SELECT ?n (NOW() AS ?t) WHERE {{ {EACH_MS} }}")
        element(b, 30_000)
        b.engine.streams.heartbeat(BAD, 30_050)
        assert [at for _, at in instants(b)] == list(range(30_001, 30_051))


def test_a_paused_query_steps_through_no_closes() -> None:
    with bench() as b:
        b.register("q", f"SELECT ?n WHERE {{ {EACH_MS} }}", output="rstream")
        element(b, 30_000)
        b.engine.queries.patch("q", {"state": "paused"})
        element(b, 40_000_000)
        b.engine.queries.patch("q", {"state": "running"})
        b.engine.streams.heartbeat(BAD, 40_000_001)
        assert instants(b) == [("answer", at) for at in (30_000, 40_000_000, 40_000_001)]


def test_a_heartbeat_centuries_later_costs_as_much_as_one_a_second_later() -> None:
    with bench(max_future_ms=300 * 365 * DAY) as b:
        text = f"SELECT ?n WHERE {{ STREAM <{BAD}> [RANGE 2s SLIDE 1ms] {BLOCK} }}"
        b.register("q", text, output="changes")
        element(b, 30_000)
        began = time.process_time()
        b.engine.streams.heartbeat(BAD, 200 * 365 * DAY)
        assert time.process_time() - began < 1
        assert [kind for kind, _ in feed(b)] == ["insert", "delete", "progress"]


def test_a_wall_clock_that_jumps_by_years_costs_as_much_as_a_second() -> None:
    with bench() as b:
        b.register("q", f"SELECT ?n WHERE {{ {EACH_MS} }}")
        b.engine.streams.push(PushCall(BAD, "application/n-triples"), b'<urn:a> <urn:k> "1" .')
        began = time.process_time()
        b.clock.advance(2 * 365 * DAY)
        tick(b.engine)
        assert time.process_time() - began < 1
        assert instants(b) == [("insert", 1)]
        assert describe(b.engine, "q")["counters"]["evaluations"] > DAY


def test_tumbling_windows_pass_over_a_gap_in_which_they_are_empty() -> None:
    with bench() as b:
        text = f"SELECT ?n WHERE {{ STREAM <{BAD}> [RANGE 1ms STEP 1ms] {BLOCK} }}"
        b.register("q", text, report="on-window-close", output="rstream", non_empty=True)
        b.register("many", text, report="on-window-close", output="istream")
        element(b, 30_000)
        element(b, 40_000_000)
        b.engine.streams.heartbeat(BAD, 40_000_001)
        assert instants(b) == [("answer", 30001), ("answer", 40000001)]
        assert [kind for kind, _ in feed(b, "many")] == ["insert", "progress", "insert"]


@given(
    st.lists(
        st.builds(
            lambda start, length, step: range(start, start + length, step),
            st.integers(-50, 50),
            st.integers(0, 80),
            st.integers(1, 12),
        ),
        max_size=5,
    )
)
def test_instants_of_ranges_are_counted_without_walking_them(runs: list[range]) -> None:
    assert number_of_instants(runs) == len(set().union(*runs))


# --- the same answers as with a step for each close -------------------------------------------------


def small_slides(seed: int) -> Case:
    """A random case with wide gaps, wide windows and small slides."""
    chance, case = random.Random(seed), random_case(seed)
    factor = chance.choice([3, 10, 25])

    def stretched(happening: Happening) -> Happening:
        match happening:
            case Push(stream, elements):
                return Push(stream, tuple((at * factor, facts) for at, facts in elements))
            case Beat(stream, at):
                return Beat(stream, at * factor)
            case _:
                return happening

    queries = []
    for place, query in case.queries:
        windows = tuple(
            replace(
                each, size=each.size * factor, past=each.past * factor, step=chance.choice([1, 1, 2, 3, 7])
            )
            if each.kind in ("grid", "range", "past", "session")
            else each
            for each in query.windows
        )
        windows = tuple(replace(each, t0=None if each.t0 is None else each.t0 * factor) for each in windows)
        query = replace(query, windows=windows, t0=None if query.t0 is None else query.t0 * factor)
        queries.append((place, query))
        if chance.random() < 0.5:
            queries.append((place, replace(query, output=chance.choice(["istream", "rstream", "dstream"]))))
    return Case(case.streams, tuple(map(stretched, case.happenings)), tuple(queries))


def outcome(case: Case, seed: int, **options: Any) -> tuple[list[Any], int]:
    """All that a case leads to, and how many runs of closes were passed over."""
    chance, passed = random.Random(seed), 0
    run = QueryTimeline._pass_over

    def counted(timeline: QueryTimeline, until: int, silent: AskSilent) -> Iterator[UnchangedRun]:
        nonlocal passed
        for each in run(timeline, until, silent):
            passed += 1
            yield each

    found: list[Any] = []
    with (
        pytest.MonkeyPatch.context() as patch,
        bench(max_empty_windows=chance.choice([3, 1000]), **options) as b,
    ):
        patch.setattr(QueryTimeline, "_pass_over", counted)
        for name, (lateness, late) in case.streams.items():
            b.engine.streams.declare(E + name, lateness=lateness, late=late, idle_timeout=IDLE_MS)
        for place, happening in enumerate(case.happenings):
            for number, (begin, query) in enumerate(case.queries):
                more = chance.choice([{}, {}, {}, {"after": "40ms"}])
                if begin == place:
                    members = {"query": query.text(), **query.options(), **more}
                    b.engine.queries.register(Registration.from_json(members, name=f"q{number}"))
            happen(b, happening)
        for number in range(len(case.queries)):
            name, entry = f"q{number}", b.engine.parts.catalogue.get(f"q{number}")
            running = entry.running
            assert running is not None, entry.error
            running.bring_up_to_date()
            found.append(
                (
                    [(each.kind, each.data) for each in b.engine.queries.feed(name).subscribe(0).take()],
                    b.engine.queries.current_answer(name),
                    (
                        running.last.evaluations,
                        running.last.step,
                        running.last.answer_id,
                        running.last.result,
                    ),
                    running.timeline.snapshot()[5:],
                    running.counts(),
                )
            )
    return found, passed


def step_by_step(timeline: QueryTimeline, until: int, silent: AskSilent) -> Iterator[UnchangedRun]:
    return iter(())


def compare(seed: int) -> int:
    """Compare a case with the same one in which every close is evaluated; how many runs it had."""
    case = small_slides(seed)
    found, passed = outcome(case, seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(QueryTimeline, "_pass_over", step_by_step)
        every, _ = outcome(case, seed)
    assert found == every, (seed, [query.text() for _, query in case.queries])
    return passed


def test_answers_are_those_of_a_step_for_each_close() -> None:
    assert sum(map(compare, range(60))) > 50


@pytest.mark.slow
def test_answers_of_many_cases_are_those_of_a_step_for_each_close() -> None:
    for seed in range(1000, 3000):
        compare(seed)


def test_steps_of_a_loud_query_are_drawn_lazily() -> None:
    """The million steps of one input are not made before the first is worked off."""
    with bench() as b:
        b.register("q", f"SELECT ?n WHERE {{ {EACH_MS} }}", output="rstream")
        element(b, 30_000)
        running = b.engine.parts.catalogue.get("q").running
        assert running is not None
        timeline = running.timeline.fork(0, 0, 0)
        stream = b.engine.parts.streams.find(BAD)
        assert stream is not None
        steps = timeline.handle(Advance(BAD, StreamTime(30_000, 40_000_000)))
        assert [step.end for step in islice(steps, 3)] == [30_001, 30_002, 30_003]
