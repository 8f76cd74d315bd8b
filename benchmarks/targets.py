"""The targets of performance: what must be reached, what is aimed at, and what one run gives.

Run: ``python -m benchmarks.targets [--quick] [--only GROUP ...]``. Each group measures with the benchmark
that it names; with ``--only`` the lines of the others stay as they were kept. Rates are of CPU time in
process, and of wall clock over HTTP. Ratios are figures of this run alone. Where a run is made smaller than
its target says, its line tells the size. How fast the machine is for Python is measured and shown; no figure
is multiplied by it, and a target that is missed here is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from operator import truediv
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from quadrill.app.commands.challenge import MAX_BATCH
from quadrill.app.upkeep.garbage import CollectionSchedule

from . import debs, http, memory, pauses, report, speed, static_parts
from .peers import drivers, ours, over_http, tools
from .peers.workloads import SELECT_ALL, STATIC_JOIN, TUMBLING, TWO_STREAMS, Workload, answering, watchers
from .results import keep, kept


class Line(NamedTuple):
    """A target: at least ``reach`` (at most, where less is better), and what was measured."""

    name: str
    unit: str
    reach: float
    aim: str
    measured: float
    less_is_better: bool = False
    note: str = ""

    @property
    def reached(self) -> float:
        """How many times what must be reached; 1 and more is reached."""
        if not self.measured:
            return 0.0
        return self.reach / self.measured if self.less_is_better else self.measured / self.reach


class Extent(NamedTuple):
    """How much is measured."""

    items: int
    rounds: int
    reports: int
    http_rounds: int
    elements: int
    templates: int
    static: int
    passing: int
    pause_rows: int
    pause_s: float


FULL = Extent(6000, 3, 3000, 3, 4000, 10_000, 10_000_000, 1_000_000, 1_000_000, 10.0)
QUICK = Extent(2000, 1, 500, 1, 800, 1_000, 100_000, 100_000, 50_000, 1.0)


def in_process(extent: Extent) -> Iterator[Line]:
    """`benchmarks.peers.ours`."""
    for size, reach, aim in ((1, 30_000, "60,000"), (100, 80_000, "200,000")):
        for work in (SELECT_ALL, STATIC_JOIN, TWO_STREAMS):
            name = f"in process, {size} a push, {work.name}"
            waited, threaded = (1 / _seconds(work, size, extent, alone=each) for each in (True, False))
            if size == 1:
                rate, note = threaded, f"{waited:,.0f} where each push is waited for"
            else:  # large pushes gain nothing from a line
                rate, note = waited, f"in one thread; {threaded:,.0f} where the engine has its own"
            yield Line(name, "elements/s", reach, aim, rate, note=note)
    aim = "rsp-rs, 227,000"
    rate = 1 / _seconds(TUMBLING, 100, extent, alone=True)
    name = "tumbling 1000, select all, 100 a push"
    yield Line(name, "elements/s", 120_000, aim, rate, note=_rsp_rs(extent))


def _rsp_rs(extent: Extent) -> str:
    """What rsp-rs does with the same elements, as ready terms, here and now."""
    if (reason := tools.install(tools.RSP_RS)) is not None:
        return f"rsp-rs is not run: {reason}"
    (driver,) = (each for each in drivers.DRIVERS if each.peer is tools.RSP_RS)
    found = [driver.run(TUMBLING, extent.items, "terms") for _ in range(extent.rounds)]
    rate = median(each.elements / each.cpu for each in found)
    return f"rsp-rs in this run: {rate:,.0f} a CPU second"


def _seconds(work: Workload, size: int, extent: Extent, *, alone: bool = False) -> float:
    """CPU seconds of an element in the median round; ``alone``: the client waits for each push."""
    found = [ours.run(work, size, extent.items, alone=alone) for _ in range(extent.rounds)]
    return median(each.cpu / each.elements for each in found)


def challenge(extent: Extent) -> Iterator[Line]:
    """`benchmarks.debs`: windows of half an hour; the median round."""
    filling = 70 * 30 * 11 // 10
    reports = list(debs.read(filling + extent.reports, 70))
    for mode, reach in (("Q1", 20_000), ("Q2", 8_000)):
        line, alone = [
            median(debs.run(mode, 30, reports, filling, each)[1] for _ in range(extent.rounds))
            for each in (MAX_BATCH, 1)
        ]
        note = f"{1e6 / alone:,.0f} where each report is waited for"
        yield Line(f"DEBS {mode}", "reports/s", reach, "30,000, the paper's", 1e6 / line, note=note)


def requests(extent: Extent) -> Iterator[Line]:
    """`benchmarks.peers.over_http`: pushes, and small requests compared with ``oxigraph serve``."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        server = stack.enter_context(http.quadrill(folder / "ours", None))
        syncs = f"the disk syncs {http.syncs_a_second(folder):,.0f} times a second"
        for clients, size, least, aim, note in (
            (1, 1, 800, "the disk's own rate", syncs),
            (8, 1, 4000, "10,000", syncs),
            (1, 1000, 50_000, "100,000", ""),
            (8, 1000, 50_000, "100,000", ""),
        ):
            elements = extent.elements * (1 if size == 1 else 10)
            line = over_http.pushed(server, clients, size, elements, extent.http_rounds)
            name = f"HTTP, durable, {size:,} a push, clients: {clients}"
            yield Line(name, "elements/s", least, aim, line.rate, note=_wrong(line.rows) or note)
        if (reason := tools.install(tools.OXIGRAPH)) is not None:
            for name, _, reach, aim in _COMPARED:
                yield Line(name, "times its rate", reach, aim, 0.0, note=f"not run: {reason}")
            return
        servers = {
            over_http.OURS: server,
            http.BASE: stack.enter_context(http.oxigraph(str(tools.OXIGRAPH.made), folder / "oxigraph")),
        }
        for each in servers.values():
            body = http.data(20_000)
            http.Client(each.url).post("/store?default", body, "application/n-triples", method="PUT")
        yield from _compared(servers, extent.http_rounds)


_COMPARED = (
    ("small queries compared with oxigraph serve, clients: 1", 1, 0.6, "0.8"),
    ("small queries compared with oxigraph serve, clients: 8", 8, 0.3, "1"),
    ("small updates compared with oxigraph serve, clients: 1", 1, 0.25, "0.5"),
    ("small updates compared with oxigraph serve, clients: 8", 8, 0.25, "0.5"),
)


_TURNS = 4
"""Turns of small requests for each round: a server's rate differs by half from one to the next."""


def _wrong(verdict: str) -> str:
    return "" if verdict == "equal" else verdict


def _compared(servers: dict[str, http.Server], rounds: int) -> Iterator[Line]:
    """The smaller ratio of two kinds of queries, and of two kinds of updates: of each the median turn's."""
    found = over_http.small(servers, _TURNS * rounds)
    tasks = {(each.work, each.clients, each.server): each.tasks for each in found}
    queries, updates = [name for name, *_ in over_http.SMALL[:2]], [name for name, *_ in over_http.SMALL[2:]]
    for name, clients, reach, aim in _COMPARED:
        names = updates if "updates" in name else queries
        ratios = [
            median(map(truediv, tasks[each, clients, over_http.OURS], tasks[each, clients, http.BASE]))
            for each in names
        ]
        least = min(ratios)
        note = "the smaller of " + " and ".join(names)
        yield Line(name, "times its rate", reach, aim, least, note=note)


def templates(extent: Extent) -> Iterator[Line]:
    """`benchmarks.peers.ours`: many queries of one template compared with one query without the constant."""
    few = extent._replace(rounds=1)
    many = dataclasses.replace(watchers(extent.templates), filling=11_000)
    ratio = _seconds(many, 100, few) / _seconds(answering(), 100, few)
    name = f"{extent.templates:,} template queries, cost of an event compared with one query"
    yield Line(name, "times", 3, "2", ratio, less_is_better=True, note="100 a push")


def static(extent: Extent) -> Iterator[Line]:
    """`benchmarks.static_parts`: each size in a process of its own."""
    rounds = static_parts.probes((extent.static, 10_000))
    large, small = (median(each) for each in zip(*rounds, strict=True))
    ratio = median(one / other for one, other in rounds)
    note = f"in turns, {large:.1f} and {small:.1f} µs; {_target_size(extent.static, 10**7)}".rstrip("; ")
    name = f"one event over {extent.static:,} static triples, compared with 10,000"
    yield Line(name, "times", 1.3, "1.1", ratio, less_is_better=True, note=note)
    triples = min(extent.static, 1_000_000)
    sizes = (100_000,) if triples >= 200_000 else (10_000,)
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        changed = other.submit(static_parts.measured, triples, sizes, None).result()
    quads, *_, shown, _ = changed["changes"][-1]
    name = f"commit of {quads:,} quads shown, compared with evaluating the part of {changed['rows']:,} rows"
    note = _target_size(quads, 100_000)
    yield Line(name, "times", 1.5, "1", shown / changed["anew_ms"], less_is_better=True, note=note)


def _target_size(here: int, there: int) -> str:
    return "" if here >= there else f"the target's size is {there:,}"


def passing(extent: Extent) -> Iterator[Line]:
    """`benchmarks.memory`: resident memory at the end compared with that after half of the elements."""
    lines = memory.lines(extent.passing)
    middle, last = lines[len(lines) // 2], lines[-1]
    name = f"memory at the end of {extent.passing:,} elements, compared with half of them"
    note = f"{last[1]:,.0f} MB; " + _target_size(extent.passing, 10**7)
    yield Line(name, "times", 1.02, "1", last[1] / middle[1], less_is_better=True, note=note.rstrip("; "))


def longest(extent: Extent) -> Iterator[Line]:
    """`benchmarks.pauses`."""
    collections = CollectionSchedule()
    collections.start()
    _, middle, _, most, *_ = pauses.run(extent.pause_rows, extent.pause_s)
    collections.stop()
    note = f"median {middle:.2f} ms; " + _target_size(extent.pause_rows, 10**6)
    name = f"longest pause with {extent.pause_rows:,} static rows"
    yield Line(name, "ms", 20, "5", most, less_is_better=True, note=note.rstrip("; "))


GROUPS: dict[str, Callable[[Extent], Iterator[Line]]] = {
    "in-process": in_process,
    "debs": challenge,
    "http": requests,
    "templates": templates,
    "static": static,
    "memory": passing,
    "pauses": longest,
}


def main() -> None:
    """Measure, print, and keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller runs; their lines tell their sizes")
    parser.add_argument("--only", nargs="+", choices=list(GROUPS), default=list(GROUPS), metavar="GROUP")
    parser.add_argument(
        "--static", type=int, help="static triples of the large run; 10,000,000 take 8 GB and three minutes"
    )
    parser.add_argument("--passing", type=int, help="elements that pass; the target has 10,000,000")
    options = parser.parse_args()
    extent = QUICK if options.quick else FULL
    extent = extent._replace(
        static=options.static or extent.static, passing=options.passing or extent.passing
    )
    before = kept("targets")
    groups: dict[str, Any] = {} if before is None else before["figures"]["groups"]
    for name in options.only:
        fast, lines = speed.loops_per_second(), []
        for line in GROUPS[name](extent):
            lines.append([*line[:4], float(f"{line.measured:.3g}"), *line[5:], round(line.reached, 2)])
            print(f"{line.name:75}{line.reach:10,g}{line.measured:14,.3g} {line.unit:15}"
                  f"{line.reached:7.2f}  {line.note}", flush=True)  # fmt: skip
        groups[name] = {
            "million_steps": round(fast, 2),
            "quick": options.quick,
            "time": time.strftime("%Y-%m-%d %H:%M"),
            "load": round(os.getloadavg()[0], 1),
            "lines": lines,
        }
        columns = [*Line._fields, "reached"]
        keep(
            "targets",
            {"columns": columns, "groups": {each: groups[each] for each in GROUPS if each in groups}},
        )
    report.main()


if __name__ == "__main__":
    main()
