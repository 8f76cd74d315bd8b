"""The longest pauses of an engine that holds much: a million static rows, tens of thousands of live terms.

Run: ``python -m benchmarks.pauses [--rows N] [--seconds N]``. One query joins a stream with a static part of
1,000 and of ``--rows`` rows. Each push brings 20 elements whose subjects never come again, 8,000 elements a
second of event time, so that the window of ten seconds holds 80,000 of them. Timed is each push through the
whole engine in memory, as CPU time of the process, for ``--seconds`` behind a full window; what is far above
the median is a pause: a slice of a sweep of the term dictionary, or Python looking for cycles of garbage, by
its own rules and by the server's (`quadrill.app.upkeep.garbage`), which has a thread of its own.
"""

from __future__ import annotations

import argparse
import gc
import random
import time

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from .results import keep

STREAM = "http://localhost/visits"
QUERY = """SELECT ?visit ?city WHERE {
  STREAM <http://localhost/visits> [RANGE 10s] { ?visit <urn:who> ?person }
  ?person <urn:city> ?city }"""
BATCH = 20
PER_SECOND = 8000
START_MS = 1_700_000_000_000
COLUMNS = (
    "static_rows", "collections_of", "pushes", "median_ms", "p99_ms", "longest_ms", "longest_old_ms",
    "old_collections", "forgotten",
)  # fmt: skip


class Collections:
    """CPU time of Python's collections of the oldest generation."""

    def __init__(self) -> None:
        self.spent: list[float] = []
        self._begin = 0.0

    def __call__(self, phase: str, info: dict[str, int]) -> None:
        """Called by Python before and after each collection."""
        if phase == "start":
            self._begin = time.process_time()
        elif info["generation"] == 2:
            self.spent.append((time.process_time() - self._begin) * 1000)


def body(chance: random.Random, first: int, rows: int) -> bytes:
    """One push."""
    lines = [
        f"<http://localhost/visits/{number}> <urn:who> <http://localhost/people/{chance.randrange(rows)}> .\n"
        for number in range(first, first + BATCH)
    ]
    return "".join(lines).encode("ascii")


def lives(number: int) -> Quad:
    """Where a person lives."""
    person, city = NamedNode(f"http://localhost/people/{number}"), NamedNode(f"urn:city{number % 1000}")
    return Quad(person, NamedNode("urn:city"), city, DefaultGraph())


def run(rows: int, seconds: float) -> tuple[float, ...]:
    """One line of the table."""
    settings = Settings(data=MEMORY, feed_history=100, max_future="10000d")
    services = open_services(settings, clock=ManualClock(START_MS), threaded=False)
    try:
        services.store.writer.apply(add=[lives(number) for number in range(rows)])
        engine = services.engine
        engine.start()
        engine.queries.register(Registration.from_json({"query": QUERY, "name": "q"}))
        chance = random.Random(2015)
        full = 11 * PER_SECOND
        spent: list[float] = []
        total, first = 0.0, 0
        seen = Collections()
        while total < seconds:
            if first == full:
                gc.callbacks.append(seen)
            at, content = START_MS + first * 1000 // PER_SECOND, body(chance, first, rows)
            begin = time.process_time()
            engine.streams.push(
                PushCall(STREAM, "application/n-triples", at=at, each="triple", wait=True), content
            )
            took = time.process_time() - begin
            first += BATCH
            if first > full:
                spent.append(took * 1000)
                total += took
        gc.callbacks.remove(seen)
        spent.sort()
        forgotten = engine.parts.statics.terms.dictionary.forgotten
        return (len(spent), spent[len(spent) // 2], spent[int(len(spent) * 0.99)], spent[-1],
                max(seen.spent, default=0.0), len(seen.spent), forgotten)  # fmt: skip
    finally:
        services.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000, help="static rows of the large run")
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds of each run")
    options = parser.parse_args()
    print(("{:>15}" * len(COLUMNS)).format(*COLUMNS))
    lines = []
    for rows in (1000, options.rows):
        for young in (False, True):
            collections = CollectionSchedule()
            if young:
                collections.start()
            pushes, *times, longest, number, forgotten = run(rows, options.seconds)
            collections.stop()
            line = [rows, "young objects" if young else "Python", int(pushes)]
            line += [round(figure, 3) for figure in (*times, longest)] + [int(number), int(forgotten)]
            lines.append(line)
            print(("{:>15}" * len(COLUMNS)).format(*line), flush=True)
    keep("pauses", {"columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
