"""The native engine against recomputation and against polling of Oxigraph, per event, in one run.

Run: ``python -m benchmarks.native [--triples N] [--events N]``. CPU time of one thread. For each query of
the conference (ISWC, 2011): microseconds an event in the compiled evaluator, the same with the upkeep of
windows, in the operators one by one, recomputed by the reference evaluator and asked anew of Oxigraph alone
(samples of events, see `benchmarks.polling`); the ratio of polling to the compiled evaluator with windows;
and rows an event. The author named in the queries is the one with most co-authors among the attendees.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice

from quadrill.continuous.algebra.reports import Evaluation
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.inputs import Arrival, Element, StreamTime
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore

from . import conference
from .drive import Driver
from .policies import by_operators
from .polling import polled
from .results import keep

COLUMNS = ("compiled", "with_windows", "operators", "recomputed", "polled", "ratio", "rows")


def recomputed(
    driver: Driver, store: QuadStore, elements: Sequence[Element], warm_up: int, sample: int
) -> float:
    """Microseconds per event when every instant is recomputed; the windows are full before the first."""
    evaluator = ReferenceEvaluator(driver.query, store, EvaluationOptions())
    timeline = driver.timeline(evaluator)
    seen = StreamTime()
    spent = 0.0
    for number, element in enumerate(islice(elements, warm_up + sample)):
        after = StreamTime(element.event_time)
        for step in timeline.handle(Arrival(timeline.inputs.streams[0], (element,), seen, after)):
            if number < warm_up or not isinstance(step, Evaluation):
                continue
            start = time.thread_time()
            evaluator.advance(step.at, timeline.windows.contents)
            spent += time.thread_time() - start
        if number == warm_up - 1:
            evaluator.advance(element.event_time, timeline.windows.contents)
        seen = after
    return spent / sample * 1e6


def measure(
    driver: Driver, store: QuadStore, elements: Sequence[Element], warm_up: int, sample: int
) -> tuple[float, ...]:
    """Microseconds an event compiled, with windows, by operators and recomputed, and rows an event."""
    times = []
    for compiled in (True, False):
        evaluator = NativeEvaluator(driver.query, store, EvaluationOptions())
        if not compiled:
            by_operators(evaluator)
        times.append(driver.native(elements, warm_up=warm_up, evaluator=evaluator))
    fast, slow = times
    again = recomputed(driver, store, elements, warm_up, sample)
    return (fast.per_event, fast.per_event_with_windows, slow.per_event, again, fast.rows / fast.events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=100_000, help="static triples of the conference")
    parser.add_argument("--events", type=int, default=3000, help="timed events")
    options = parser.parse_args()
    print(("{:>6}" + "{:>12}" * 7).format("query", *COLUMNS) + "   (microseconds an event)")
    scene = conference.Conference(options.triples)
    store = QuadStore.open(None)
    store.writer.apply(add=scene.static)
    elements = list(scene.elements(6000 + options.events))
    lines = []
    for name in conference.QUERIES:
        driver = Driver(conference.query(name), store, {"Name": scene.busiest})
        figures = measure(driver, store, elements, 6000, 40)
        text = conference.query(name).replace("$Name$", scene.busiest)
        again = polled(text, scene.static, elements, 6000, 200)
        told = (*figures[:4], again, again / figures[1], figures[4])
        lines.append((name, *(round(figure, 2) for figure in told)))
        print(f"{name:>6}" + "".join(f"{figure:12.2f}" for figure in told), flush=True)
    keep("native", {"triples": options.triples, "columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
