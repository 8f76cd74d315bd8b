"""Experiments 2 and 3 of the CQELS paper of 2011: growing static data, and many queries at a time.

Run: ``python -m benchmarks.experiments [--most N] [--instances N]``. CPU time of one thread. Experiment 2:
Q1, Q3, Q4 and Q5 in the compiled evaluator over 10^4 to ``--most`` static triples. Experiment 3: up to
``--instances`` instances of Q3, each naming another author, in one engine in memory, events pushed one by
one.
"""

from __future__ import annotations

import argparse
import time

from pyoxigraph import RdfFormat, serialize

from quadrill.app.config import MEMORY, Settings
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.registration import Registration
from quadrill.store.quads import QuadStore

from . import conference
from .drive import Driver
from .results import keep

QUERIES = ("Q1", "Q3", "Q4", "Q5")
WARM_UP = 4000


def by_size(triples: int, events: int) -> list[float]:
    """Microseconds an event of each query."""
    scene = conference.Conference(triples)
    store = QuadStore.open(None)
    store.apply(add=scene.static)
    elements = list(scene.elements(WARM_UP + events))
    return [
        Driver(conference.query(name), store, {"Name": scene.busiest})
        .native(elements, warm_up=WARM_UP)
        .per_event
        for name in QUERIES
    ]


def by_instances(number: int, scene: conference.Conference, events: int) -> tuple[float, float]:
    """Microseconds an event in the engine with ``number`` instances of Q3, and feed events an event."""
    services = open_services(Settings(data=MEMORY, feed_history=100), clock=ManualClock(0), threaded=False)
    try:
        engine = services.engine
        engine.start()
        services.store.apply(add=scene.static)
        for place in range(number):
            members = {
                "query": conference.query("Q3"),
                "name": f"q{place}",
                "parameters": {"Name": scene.name_of(place % len(scene.attendees))},
            }
            engine.register(Registration.from_json(members))
        spent = 0.0
        warm_up = events
        for element in scene.elements(warm_up + events):
            body = serialize([quad.triple for quad in element.quads], format=RdfFormat.N_TRIPLES)
            begin = time.thread_time()
            engine.push(conference.STREAM, body, "application/n-triples", at=element.event_time, wait=True)
            if element.seq > warm_up:
                spent += time.thread_time() - begin
        told = sum(engine.feed(f"q{place}").last_id for place in range(number))
        return spent / events * 1e6, told / (warm_up + events)
    finally:
        services.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="static triples of the largest run")
    parser.add_argument("--instances", type=int, default=256)
    parser.add_argument("--events", type=int, default=500, help="timed events of each run")
    options = parser.parse_args()
    print(
        f"{'static triples':>16}" + "".join(f"{name:>10}" for name in QUERIES) + "   (microseconds an event)"
    )
    sizes = []
    triples = 10_000
    while triples <= options.most:
        told = by_size(triples, options.events)
        sizes.append((triples, *(round(figure, 2) for figure in told)))
        print(f"{triples:16,}" + "".join(f"{figure:10.2f}" for figure in told), flush=True)
        triples *= 10
    print(f"{'instances':>16}{'an event':>12}{'and instance':>14}{'answers':>10}   (microseconds)")
    instances = []
    scene = conference.Conference(100_000)
    number = 1
    while number <= options.instances:
        spent, answers = by_instances(number, scene, options.events)
        instances.append((number, round(spent, 1), round(spent / number, 2), round(answers, 3)))
        print(f"{number:16}{spent:12.1f}{spent / number:14.2f}{answers:10.3f}", flush=True)
        number *= 4
    keep("experiments", {"queries": QUERIES, "sizes": sizes, "instances": instances})


if __name__ == "__main__":
    main()
