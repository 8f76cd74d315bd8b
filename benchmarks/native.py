"""The native engine against recomputation by Oxigraph, per event, in one run.

Run: ``python -m benchmarks.native [--triples N] [--events N]``. CPU time of one thread. For each query:
microseconds per event compiled, by the operators one by one, and recomputed (a sample of events), the ratio,
and the share of events with a result. DEBS Q1 and Q2 also over windows of 60 and 120 minutes.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import islice

from quadrill.continuous.element import Element
from quadrill.continuous.inputs import Arrival, Evaluation, StreamTime
from quadrill.continuous.native import NativeEvaluator
from quadrill.continuous.reference import EvaluationOptions, ReferenceEvaluator
from quadrill.store.quads import QuadStore

from . import conference, taxi
from .drive import Driver


def recomputed(
    driver: Driver, store: QuadStore, elements: Sequence[Element], warm_up: int, sample: int
) -> float:
    """Microseconds per event when every instant is recomputed; the windows are full before the first."""
    evaluator = ReferenceEvaluator(driver.query, store, EvaluationOptions())
    timeline = driver.timeline()
    seen = StreamTime()
    spent = 0.0
    for number, element in enumerate(islice(elements, warm_up + sample)):
        after = StreamTime(element.event_time)
        for step in timeline.handle(Arrival(timeline.streams[0], (element,), seen, after)):
            if number < warm_up or not isinstance(step, Evaluation):
                continue
            start = time.thread_time()
            evaluator.answer(step.at, timeline.contents())
            spent += time.thread_time() - start
        if number == warm_up - 1:
            evaluator.answer(element.event_time, timeline.contents())
        seen = after
    return spent / sample * 1e6


def report(
    name: str, driver: Driver, store: QuadStore, elements: Sequence[Element], warm_up: int, sample: int
) -> None:
    """Print one line of the table."""
    times = []
    for compiled in (True, False):
        evaluator = NativeEvaluator(driver.query, store, EvaluationOptions(), compiled=compiled)
        times.append(driver.native(elements, warm_up=warm_up, evaluator=evaluator))
    fast, slow = times
    again = recomputed(driver, store, elements, warm_up, sample)
    print(
        f"{name:16} {fast.per_event:10.1f} {fast.per_event_with_windows:10.1f} {slow.per_event:10.1f}"
        f" {again:12.0f} {again / fast.per_event:9.0f} {fast.rows / fast.events:8.2f}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=100_000, help="static triples of the conference")
    parser.add_argument("--events", type=int, default=3000, help="timed events")
    options = parser.parse_args()
    head = ("query", "compiled", "+windows", "operators", "recomputed", "ratio", "rows")
    print("{:16} {:>10} {:>10} {:>10} {:>12} {:>9} {:>8}".format(*head) + "   (microseconds per event)")
    scene = conference.Conference(options.triples)
    store = QuadStore.open(None)
    store.apply(add=scene.static)
    elements = list(scene.elements(6000 + options.events))
    for name in conference.QUERIES:
        driver = Driver(conference.query(name), store, {"Name": scene.name_of(3)})
        report(f"2011 {name}", driver, store, elements, 6000, 40)
    empty = QuadStore.open(None)
    for minutes in (30, 60, 120):
        filling = 170 * minutes + 200
        rides = [taxi.element_of(trip) for trip in taxi.trips(filling + min(options.events, 2000))]
        for name, text in (("Q1", taxi.Q1), ("Q2", taxi.Q2)):
            driver = Driver(taxi.with_windows(text, minutes), empty)
            report(f"DEBS {name} {minutes} min", driver, empty, rides, filling, 3 if name == "Q1" else 1)


if __name__ == "__main__":
    main()
