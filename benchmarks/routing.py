"""The routing policies of the papers on the conference's queries: microseconds an event, by policy.

Run: ``python -m benchmarks.routing [--triples N] [--events N]``. CPU time of one thread in the compiled
evaluator; every policy sees the same events and gives the same rows. ``worst order`` is the slowest of the
orders that can be forced, which shows what there is to gain.
"""

from __future__ import annotations

import argparse
import itertools

from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.store.quads.quad_store import QuadStore

from . import conference
from .drive import Driver
from .policies import POLICIES, routed
from .results import keep

QUERIES = ("Q2", "Q3", "Q4", "Q5")
WARM_UP = 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, default=100_000, help="static triples of the conference")
    parser.add_argument("--events", type=int, default=1000, help="timed events")
    options = parser.parse_args()
    scene = conference.Conference(options.triples)
    store = QuadStore.open(None)
    store.writer.apply(add=scene.static)
    elements = list(scene.elements(WARM_UP + options.events))
    names = [*POLICIES, "worst order"]
    print(f"{'query':>6}" + "".join(f"{name:>22}" for name in names) + "   (microseconds an event)")
    lines = []
    for query in QUERIES:
        driver = Driver(conference.query(query), store, {"Name": scene.busiest})
        told, rows = [], set()
        for policy in POLICIES.values():
            evaluator = routed(NativeEvaluator(driver.query, store, EvaluationOptions()), policy)
            timing = driver.native(elements, warm_up=WARM_UP, evaluator=evaluator)
            told.append(timing.per_event)
            rows.add(timing.rows)
        worst = 0.0
        for order in list(itertools.permutations(range(4)))[::5]:
            evaluator = routed(NativeEvaluator(driver.query, store, EvaluationOptions()), order)
            few = elements[: WARM_UP + 100]
            worst = max(worst, driver.native(few, warm_up=WARM_UP, evaluator=evaluator).per_event)
        assert len(rows) == 1, "every policy gives the same rows"
        lines.append((query, *(round(figure, 1) for figure in (*told, worst))))
        print(f"{query:>6}" + "".join(f"{figure:22.1f}" for figure in (*told, worst)), flush=True)
    keep("routing", {"triples": options.triples, "columns": ["query", *names], "lines": lines})


if __name__ == "__main__":
    main()
