"""Static parts: what a commit costs against evaluating them anew, and how much a table takes.

    python -m benchmarks.static_parts [--triples 100000 1000000] [--plots docs/plots]
    python -m benchmarks.static_parts --restart --triples 200000 2000000

Data: people with a name and a city, cities with a country. The part is a person's name and the country of her
city, two joins. A commit moves people to other cities; it is taken into the table as deltas or, when it is
large, by reading the table anew in the background. Times are wall clock of a run with nothing else in the
process; the load of the machine is printed with them. ``--restart`` measures the start of an engine over a
folder on disk instead, with the rows of the part on disk and without.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.continuous.clock import SystemClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.journal import Journal
from quadrill.store.quads import QuadStore
from quadrill.store.registry import Registry, default_url

E = "http://example.org/"
DEFAULT = DefaultGraph()
CITIES = 1000
PART = "?x <http://example.org/name> ?n . ?x <http://example.org/city> ?c . ?c <http://example.org/in> ?l"
QUERY = f"SELECT ?x ?l WHERE {{ STREAM <http://example.org/s> [RANGE 1h] {{ ?x <{E}seen> ?v }} {PART} }}"
WHOLE = f"SELECT ?x ?n ?c ?l WHERE {{ {PART} }}"


def iri(name: str) -> NamedNode:
    """A name of the data."""
    return NamedNode(E + name)


def lives(person: int, city: int) -> Quad:
    """Where somebody lives."""
    return Quad(iri(f"p{person}"), iri("city"), iri(f"c{city}"), DEFAULT)


def data(people: int) -> Iterator[Quad]:
    """Two triples a person, one a city."""
    for city in range(CITIES):
        yield Quad(iri(f"c{city}"), iri("in"), iri(f"l{city % 50}"), DEFAULT)
    for person in range(people):
        yield Quad(iri(f"p{person}"), iri("name"), Literal(f"person number {person}"), DEFAULT)
        yield lives(person, person % CITIES)


class Run:
    """One store with one query whose window holds one person."""

    def __init__(self, triples: int) -> None:
        self.people = triples // 2
        self.store = QuadStore.open(None)
        self.store.bulk_extend(data(self.people))
        self.engine = Engine(self.store, None, clock=SystemClock(), settings=EngineSettings())
        self.engine.start()
        self.moves = 0

    def register(self) -> float:
        """Seconds from a registration until its tables are there; it may be answered before."""
        began = time.perf_counter()
        self.engine.register(Registration.from_json({"query": QUERY}, name="q"))
        while self.engine.parts.dispatcher.has_pending:
            time.sleep(0.005)
        return time.perf_counter() - began

    def probe(self, events: int) -> float:
        """Microseconds of an event that looks one row up, its way through the engine included."""
        lines = [f'{{"at": {at}, "data": "<{E}p{at * 7919 % self.people}> <{E}seen> \\"{at}\\" ."}}'
                 for at in range(self.probed, self.probed + events)]  # fmt: skip
        self.probed += events
        began = time.perf_counter()
        body = "\n".join(lines).encode()
        self.engine.push(E + "s", body, "application/x-ndjson", wait=True)
        return (time.perf_counter() - began) / events * 1e6

    probed = 1

    def change(self, quads: int) -> tuple[float, float]:
        """Seconds of a commit of so many quads, and from its begin until the query reflects it."""
        movers = max(1, quads // 2)
        begin = self.moves * 31 % self.people
        self.moves += 1
        added, removed = [], []
        for person in (each % self.people for each in range(begin, begin + movers)):
            here = next(iter(self.store.quads_for_pattern(iri(f"p{person}"), iri("city"))))
            removed.append(here)
            added.append(lives(person, (int(here.object.value.rpartition("/c")[2]) + 1) % CITIES))  # type: ignore[union-attr]
        began = time.perf_counter()
        version = self.store.apply(add=added, remove=removed if quads > 1 else ()).version
        committed = time.perf_counter() - began
        while True:
            self.engine.sync()
            running = self.engine.parts.catalogue.get("q").running
            assert running is not None
            if running.version >= version:
                return committed, time.perf_counter() - began
            time.sleep(0.001)

    def anew(self) -> float:
        """Seconds of evaluating the part and looking at every row."""
        began = time.perf_counter()
        with self.store.query(WHOLE) as result:
            for _ in result.rows():
                pass
        return time.perf_counter() - began

    def close(self) -> None:
        """Stop."""
        self.engine.stop()
        self.store.close()


def bytes_per_row(people: int = 20_000) -> float:
    """Python memory of a table's rows, the query's indexes and the terms, by tracemalloc."""
    run = Run(2 * people)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    run.register()
    gc.collect()
    taken = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    run.close()
    return taken / people


class Lives:
    """Starts of an engine over one folder on disk."""

    def __init__(self, folder: Path, people: int) -> None:
        self.folder = folder
        self.store = QuadStore.open(folder)
        self.store.apply(add=data(people))
        self.registry = Registry.open(default_url(folder))
        self.tables = folder / "engine" / "tables.sqlite"

    def started(self) -> tuple[Engine, float]:
        """An engine and the seconds until it worked."""
        journal = Journal.open(self.folder / "engine")
        engine = Engine(self.store, self.registry, clock=SystemClock(), journal=journal)
        began = time.perf_counter()
        engine.start()
        return engine, time.perf_counter() - began

    def close(self) -> None:
        """Close the store."""
        self.registry.close()
        self.store.close()


def restart(people: int) -> None:
    """Print how long a start takes with the rows on disk and without, and how long writing them."""
    with tempfile.TemporaryDirectory() as folder:
        lives = Lives(Path(folder), people)
        engine, _ = lives.started()
        engine.register(Registration.from_json({"query": QUERY}, name="q"))
        while engine.parts.dispatcher.has_pending:
            time.sleep(0.05)
        statics = engine.parts.statics
        assert statics.kept is not None
        began = time.perf_counter()
        engine.parts.loop.call(lambda: statics.keep({}))
        paused = time.perf_counter() - began
        statics.kept.wait()
        written = time.perf_counter() - began
        engine.stop()
        size = lives.tables.stat().st_size
        with_rows, without = [], []
        for _ in range(2):
            engine, seconds = lives.started()
            assert engine.parts.statics.kept is not None and engine.parts.statics.kept.taken == 1
            with_rows.append(seconds)
            engine.stop()
            lives.tables.unlink()
            engine, seconds = lives.started()
            without.append(seconds)
            engine.stop()
        lives.close()
    print(f"{people:,} rows: start {min(with_rows):.2f} s with the rows on disk, "
          f"{min(without):.2f} s without; written in {written:.2f} s, "
          f"{paused * 1e3:.0f} ms of it in the engine's thread, "
          f"{size / 1e6:.1f} MB")  # fmt: skip


def main() -> None:
    """Print a table, and draw it with ``--plots``."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--quads", type=int, nargs="+", default=[1, 10, 1_000, 100_000])
    parser.add_argument("--plots", type=Path, help="a folder for the plots")
    parser.add_argument("--restart", action="store_true", help="measure starts instead")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    if options.restart:
        for triples in options.triples:
            restart(triples // 2)
        return
    updates: dict[int, list[tuple[int, float]]] = {}
    probes: list[tuple[int, float]] = []
    for triples in options.triples:
        run = Run(triples)
        registered = run.register()
        run.probe(200)
        probe = median(run.probe(500) for _ in range(5))
        probes.append((triples, probe))
        anew = min(run.anew() for _ in range(2))
        print(f"{triples:,} triples: tables made in {registered * 1e3:,.0f} ms, probe {probe:.0f} us/event, "
              f"evaluated anew in {anew * 1e3:,.1f} ms")  # fmt: skip
        updates[triples] = []
        for quads in options.quads:
            if quads // 2 > run.people:
                continue
            times = [run.change(quads) for _ in range(20 if quads <= 10 else 3 if quads <= 1000 else 1)]
            committed, shown = median(each[0] for each in times), median(each[1] for each in times)
            updates[triples].append((quads, shown * 1e3))
            print(f"  {quads:>7,} quads: commit {committed * 1e3:9.2f} ms, in the table after "
                  f"{shown * 1e3:9.2f} ms, {anew / shown:8.1f} x faster than anew")  # fmt: skip
        run.close()
    print(f"memory: {bytes_per_row():.0f} bytes a row with its index and terms")
    if options.plots is not None:
        draw(options.plots, updates, probes)


def draw(folder: Path, updates: dict[int, list[tuple[int, float]]], probes: list[tuple[int, float]]) -> None:
    """The plots of docs/performance.md."""
    from .plots import line_plot

    line_plot(
        "static-updates",
        {f"{triples:,} triples": points for triples, points in updates.items()},
        title="From a commit to the updated table",
        x="quads in the commit",
        y="time (ms)",
        log_x=True,
        log_y=True,
        folder=folder,
    )
    line_plot(
        "static-probes",
        {"one look-up": probes},
        title="An event that looks one row of a static table up",
        x="triples in the store",
        y="time per event (us)",
        log_x=True,
        folder=folder,
    )


if __name__ == "__main__":
    main()
