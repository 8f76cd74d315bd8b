"""The continuous workloads on Quadrill, in one process and in memory, by the size of a push.

Run: ``python -m benchmarks.peers.ours [--items N] [--rounds N] [--sizes 1 100] [--only TEXT] [--alone]``.

Timed is the process, from the bytes of a push (N-Triples for one element, NDJSON with the time of each for
more) to the events that a subscriber took, lines of JSON. The client pushes on and looks at what it was told
after every `LOOK` elements; with ``--alone`` it waits for the answer to each push, and the engine works in
its thread. Each round is an engine of its own; printed are the elements a second of CPU time in the median
round, and the rows. It runs against other states of the code too: ``PYTHONPATH=OTHER/.links:$PWD python -m
benchmarks.peers.ours``.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from statistics import median
from typing import NamedTuple

from pyoxigraph import RdfFormat, parse

from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import Services, open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from .workloads import WORKLOADS, Element, Workload

SIZES = (1, 100, 1000)
LOOK = 1000
"""After so many elements the client waits for what it was told."""
HISTORY = 1_000_000


class Push(NamedTuple):
    """One body as `StreamService.push` takes it, with the number of its elements."""

    stream: str
    body: bytes
    media_type: str
    at: int | None
    elements: int


class Run(NamedTuple):
    """Elements timed, CPU and wall clock seconds, and rows in the events of the timed part."""

    elements: int
    cpu: float
    wall: float
    rows: int


def pushes(elements: Iterable[Element], size: int) -> Iterator[Push]:
    """Elements in pushes of so many, each stream's in their order; streams take turns."""
    waiting: dict[str, list[Element]] = {}
    for element in elements:
        group = waiting.setdefault(element.stream, [])
        group.append(element)
        if len(group) == size:
            yield _push(group)
            group.clear()
    for group in waiting.values():
        if group:
            yield _push(group)


def _push(group: list[Element]) -> Push:
    if len(group) == 1:
        (one,) = group
        return Push(one.stream, one.line.encode(), "application/n-triples", one.at, 1)
    body = "".join(json.dumps({"at": each.at, "data": each.line}) + "\n" for each in group).encode()
    return Push(group[0].stream, body, "application/x-ndjson", None, len(group))


@contextmanager
def engine(work: Workload, *, threaded: bool) -> Iterator[Services]:
    """A started engine with the workload's data and queries; ``threaded`` as in a server."""
    settings = Settings(data=MEMORY, feed_history=HISTORY)
    services = open_services(settings, clock=ManualClock(time.time_ns() // 1_000_000), threaded=threaded)
    garbage = CollectionSchedule()  # as in a server
    garbage.start()
    try:
        services.engine.start()
        services.store.writer.apply(add=list(parse(work.static_triples().encode(), RdfFormat.N_TRIPLES)))
        for number, text in enumerate(work.queries):
            services.engine.queries.register(Registration.from_json({"query": text, "name": f"q{number}"}))
        yield services
    finally:
        garbage.stop()
        services.close()


def run(work: Workload, size: int, items: int, rows: list[str] | None = None, *, alone: bool = False) -> Run:
    """One round; ``rows`` gets the events of the timed part. ``alone``: each push is waited for."""
    look = size if alone else LOOK
    with engine(work, threaded=not alone) as services:
        elements = work.elements(work.filling + items)
        for push in pushes(islice(elements, work.filling), 100):
            services.engine.streams.push(
                PushCall(push.stream, push.media_type, at=push.at, wait=True), push.body
            )
        _reached(services, work, work.begin - 1)
        feeds = [services.engine.queries.feed(f"q{each}").subscribe() for each in range(len(work.queries))]
        ready = list(pushes(elements, size))
        taken: list[str] = []
        cpu, wall, since = time.process_time(), time.perf_counter(), 0
        for push in ready:
            since += push.elements
            wait = since >= look
            services.engine.streams.push(
                PushCall(push.stream, push.media_type, at=push.at, wait=wait), push.body
            )
            if wait:
                since = 0
                for feed in feeds[:10]:  # to ask a thousand each time is no work of the engine
                    taken += [event.data for event in feed.take()]
        _reached(services, work, work.begin + items - 1)
        taken += [event.data for feed in feeds[:10] for event in feed.take()]
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        for feed in feeds[10:]:
            taken += [event.data for event in feed.take()]
        if rows is not None:
            rows += taken
        return Run(sum(each.elements for each in ready), cpu, wall, sum(map(_rows, taken)))


def _reached(services: Services, work: Workload, at: int) -> None:
    """Every stream is at this time: what waits for the slowest does no longer."""
    for stream in work.streams:
        services.engine.streams.heartbeat(stream, at, wait=True)


def _rows(event: str) -> int:
    return len(json.loads(event)["results"]["bindings"])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=6000, help="timed elements of each round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES, help="elements a push")
    parser.add_argument("--only", default="", help="workloads whose name has this text")
    parser.add_argument("--alone", action="store_true", help="wait for the answer to each push")
    options = parser.parse_args()
    print(f"{'':32}" + "".join(f"{f'{size} a push':>14}" for size in options.sizes) + f"{'rows':>12}")
    for work in WORKLOADS:
        if options.only not in work.name:
            continue
        cells, rows = [], set()
        for size in options.sizes:
            found = [run(work, size, options.items, alone=options.alone) for _ in range(options.rounds)]
            cells.append(median(each.elements / each.cpu for each in found))
            rows |= {each.rows for each in found}
        shown = ", ".join(f"{each:,}" for each in sorted(rows))
        print(f"{work.name:32}" + "".join(f"{cell:12,.0f}/s" for cell in cells) + f"{shown:>12}", flush=True)


if __name__ == "__main__":
    main()
