"""The papers' queries run natively, and DEBS Q1 agrees with a plain Python recomputation."""

from collections import Counter, deque
from decimal import ROUND_DOWN, ROUND_FLOOR, Decimal, localcontext
from pathlib import Path

import pytest
from pyoxigraph import Literal

from benchmarks.drive import Driver
from benchmarks.taxi import Q1, Trip, element_of, trips
from quadrill.app.describing.operators import tree
from quadrill.continuous.algebra.reports import Evaluation
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.inputs import Arrival, StreamTime
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore

DATA = Path(__file__).parents[2] / "data"
TEXTS = sorted([*(DATA / "paper-queries").glob("*.cqels"), *(DATA / "rspql-queries").glob("*.rspql")])


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_no_query_of_the_papers_falls_back(path: Path) -> None:
    query = parse(path.read_text(encoding="utf-8"), parameters={"Name": "Ada", "Person": "Ada"})
    evaluator = NativeEvaluator(query, QuadStore.open(None), EvaluationOptions())
    plan = evaluator.state
    assert plan is not None and tree(plan.plan)
    assert plan.compiled.text.startswith("def step(")


def cell(distance: Decimal, step: str) -> int:
    with localcontext() as context:
        context.prec = 60
        quotient = (distance / Decimal(step)).quantize(Decimal("1e-18"), rounding=ROUND_DOWN)
        return int((quotient + Decimal("0.5")).to_integral_value(rounding=ROUND_FLOOR)) + 1


def route(trip: Trip) -> tuple[int, int, int, int]:
    (pick_lat, pick_lon), (drop_lat, drop_lon) = (
        tuple(Decimal(degrees) / 10**6 for degrees in place) for place in (trip.pick, trip.drop)
    )
    south, east = "0.004491556", "0.005986"
    return (
        cell(Decimal("41.474937") - pick_lat, south),
        cell(Decimal("74.913585") + pick_lon, east),
        cell(Decimal("41.474937") - drop_lat, south),
        cell(Decimal("74.913585") + drop_lon, east),
    )


def test_the_most_frequent_routes_are_those_of_a_plain_recomputation() -> None:
    driver = Driver(Q1, QuadStore.open(None))
    evaluator = NativeEvaluator(driver.query, QuadStore.open(None), EvaluationOptions())
    timeline = driver.timeline(evaluator)
    window: deque[tuple[int, tuple[int, int, int, int]]] = deque()
    routes: Counter[tuple[int, int, int, int]] = Counter()
    seen = StreamTime()
    checked = 0
    for trip in trips(1500, per_minute=30):
        element = element_of(trip)
        after = StreamTime(element.event_time)
        for step in timeline.handle(Arrival(timeline.inputs.streams[0], (element,), seen, after)):
            assert isinstance(step, Evaluation)
            answer = evaluator.advance(step.at, timeline.windows.contents)
        seen = after
        window.append((element.event_time, route(trip)))
        routes[route(trip)] += 1
        while window[0][0] < element.event_time - 1_800_000:
            routes[window.popleft()[1]] -= 1
        if trip.number % 97:
            continue
        inside = {each: count for each, count in routes.items() if count and all(0 < c < 301 for c in each)}
        expected = sorted(inside.items(), key=lambda item: (-item[1], item[0]))[:10]
        found = [tuple(int(term.value) for term in row if isinstance(term, Literal)) for row in answer.rows]
        assert found == [(*each, count) for each, count in expected]
        checked += 1
    assert checked > 10
