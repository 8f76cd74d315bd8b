"""``python -m benchmarks.peers [--quick]``: compare Quadrill with the peers that registries have, in one run.

The rules of the comparison are in docs/performance.md, "Compared with peers". A run takes at most 15 minutes,
with ``--quick`` under three minutes, without installations (`benchmarks.peers.tools`). ``--no-install``
leaves out peers that are not installed. The figures are written to ``benchmarks/results/peers.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

import pyoxigraph

from benchmarks import report, speed
from benchmarks.results import keep

from . import asking, over_http, tools
from .drivers import DRIVERS, Driver
from .ours import SIZES, run
from .rows import Row, of_json, verdict
from .workloads import GRIDS, WORKLOADS, Workload

POLLING = "polling loop"


class Extent(NamedTuple):
    """How much is measured."""

    items: int
    rounds: int
    polling_s: float
    http_rounds: int
    http_elements: int


FULL = Extent(items=6000, rounds=3, polling_s=2.0, http_rounds=3, http_elements=2400)
QUICK = Extent(items=2000, rounds=1, polling_s=0.5, http_rounds=1, http_elements=800)


class Line(NamedTuple):
    """One workload on one engine: elements a second of CPU time and of wall clock, and if rows are right."""

    work: str
    engine: str
    given: str
    cpu_rate: float
    wall_rate: float
    rows: str


def in_process(extent: Extent, drivers: Sequence[Driver]) -> Iterator[Line]:
    """Every workload on every engine; rounds of the engines in turn, medians."""
    for work in WORKLOADS:
        items = extent.items if work.step else _affordable(work, extent)
        store = asking.InProcess()
        cpu, wall, told = asking.poll(work, store, items)
        expected = {items: told}
        yield Line(work.name, POLLING, "bytes", items / cpu, items / wall, "expected")
        yield from _ours(work, extent, expected)
        if work in GRIDS:
            for driver in drivers:
                for given in ("terms", "bytes"):
                    yield _driven(driver, work, given, extent, told)


def _affordable(work: Workload, extent: Extent) -> int:
    """Elements that the polling loop gets through in the time that it has."""
    few = 4
    cpu, _, _ = asking.poll(work, asking.InProcess(), few)
    return max(few, min(extent.items, int(extent.polling_s * few / cpu)))


def _ours(work: Workload, extent: Extent, expected: dict[int, list[Row]]) -> Iterator[Line]:
    """Quadrill by the size of a push; rows are compared over as many elements as the loop was polled for."""
    ((items, rows),) = expected.items()
    for size in SIZES:
        events: list[str] = []
        run(work, size, items, events)
        told = verdict(rows, [row for event in events for row in of_json(event)])
        found = [run(work, size, extent.items) for _ in range(extent.rounds)]
        yield Line(
            work.name,
            "Quadrill",
            f"bytes, {size:,} a push",
            median(each.elements / each.cpu for each in found),
            median(each.elements / each.wall for each in found),
            told,
        )


def _driven(driver: Driver, work: Workload, given: str, extent: Extent, expected: list[Row]) -> Line:
    try:
        found = [driver.run(work, extent.items, given) for _ in range(extent.rounds)]
    except subprocess.SubprocessError as error:
        return Line(work.name, driver.peer.name, given, 0.0, 0.0, f"not run: {type(error).__name__}")
    return Line(
        work.name,
        driver.peer.name,
        given,
        median(each.elements / each.cpu for each in found),
        median(each.elements / each.wall for each in found),
        verdict(expected, found[0].rows),
    )


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer elements and rounds")
    parser.add_argument("--no-install", action="store_true", help="only peers that are installed already")
    options = parser.parse_args()
    extent = QUICK if options.quick else FULL
    absent = {}
    for peer in tools.PEERS:
        reason = None if peer.made.exists() else "not installed"
        if reason is not None and not options.no_install:
            reason = tools.install(peer)
        if reason is not None:
            absent[peer.name] = reason
            print(f"{peer.name} is not run: {reason}", flush=True)
    began = time.monotonic()
    fast = speed.loops_per_second()
    lines = []
    for line in in_process(extent, [each for each in DRIVERS if each.peer.name not in absent]):
        lines.append(line)
        print(f"{line.work:32}{line.engine:14}{line.given:20}{line.cpu_rate:12,.0f}/s"
              f"{line.wall_rate:12,.0f}/s  {line.rows}", flush=True)  # fmt: skip
    oxigraph = None if tools.OXIGRAPH.name in absent else str(tools.OXIGRAPH.made)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        requests = []
        for each in over_http.measure(oxigraph, Path(folder), extent.http_rounds, extent.http_elements):
            requests.append(each)
            print(
                f"{each.work:32}{each.clients:3} {each.server:26}{each.rate:10,.1f}/s  {each.rows}",
                flush=True,
            )
    took = time.monotonic() - began
    print(f"{took:.0f} s, {fast:.2f} million steps of Python a second")
    versions = {peer.name: peer.version for peer in tools.PEERS} | {"pyoxigraph": pyoxigraph.__version__}
    figures = {
        "versions": versions,
        "not_run": absent,
        "million_steps": round(fast, 2),
        "seconds": round(took),
        "real_time": os.sched_getscheduler(0) == os.SCHED_RR,
        "columns": Line._fields,
        "lines": [[*each[:3], round(each[3], 1), round(each[4], 1), each[5]] for each in lines],
        "http_columns": over_http.Line._fields,
        "http": [[*each[:3], round(each[3], 1), each[4]] for each in requests],
    }
    keep("peers", figures)
    report.main()


if __name__ == "__main__":
    main()
