"""Experiment 2 of the CQELS paper of 2011: growing static data.

Run: ``python -m benchmarks.experiments [--most N]``. CPU time of one thread: Q1, Q3, Q4 and Q5 in the
compiled evaluator over 10^4 to ``--most`` static triples. Experiment 3 is in ``benchmarks.instances``.
"""

from __future__ import annotations

import argparse

from quadrill.store.quads.quad_store import QuadStore

from . import conference
from .drive import Driver
from .results import keep

QUERIES = ("Q1", "Q3", "Q4", "Q5")
WARM_UP = 4000


def by_size(triples: int, events: int) -> list[float]:
    """Microseconds an event of each query."""
    scene = conference.Conference(triples)
    store = QuadStore.open(None)
    store.writer.apply(add=scene.static)
    elements = list(scene.elements(WARM_UP + events))
    return [
        Driver(conference.query(name), store, {"Name": scene.busiest})
        .native(elements, warm_up=WARM_UP)
        .per_event
        for name in QUERIES
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=1_000_000, help="static triples of the largest run")
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
    keep("experiments", {"queries": QUERIES, "sizes": sizes})


if __name__ == "__main__":
    main()
