"""Static parts: what a commit costs against evaluating them anew, and how much a table takes.

    python -m benchmarks.static_parts [--triples 100000 1000000] [--disk]
    python -m benchmarks.static_parts --restart --triples 200000 2000000

Data: people with a name and a city, cities with a country. The part is a person's name and the country of her
city, two joins. A commit moves people to other cities; it is taken into the table as deltas or, when it is
large, by reading the table anew in the background. Each size has a process of its own, with collections of
garbage and pages of memory as in a server; ``--disk`` keeps the store in a folder. Another query of the
engine gets an event every 20 ms while the tables are made: the longest time until such an event is through is
a pause that the registration makes for others. Milliseconds of wall clock and of CPU, the latter of all
threads together. ``--restart`` measures the start of an engine over a folder on disk instead, with the rows
of the part on disk and without.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import tempfile
import threading
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.upkeep.huge_pages import HugePages, available
from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.logs.journal import Journal
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry, default_url

from .results import keep, kept

E = "http://example.org/"
DEFAULT = DefaultGraph()
CITIES = 1000
PART = "?x <http://example.org/name> ?n . ?x <http://example.org/city> ?c . ?c <http://example.org/in> ?l"
QUERY = f"SELECT ?x ?l WHERE {{ STREAM <http://example.org/s> [RANGE 1h] {{ ?x <{E}seen> ?v }} {PART} }}"
OTHER = f"SELECT ?v WHERE {{ STREAM <{E}pulse> [RANGE 1s] {{ ?x <{E}beats> ?v }} }}"
WHOLE = f"SELECT ?x ?n ?c ?l WHERE {{ {PART} }}"


def iri(name: str) -> NamedNode:
    """A name of the data."""
    return NamedNode(E + name)


def lives(person: int, city: int) -> Quad:
    """Where somebody lives."""
    return Quad(iri(f"p{person}"), iri("city"), iri(f"c{city}"), DEFAULT)


def data(people: int) -> Iterator[Quad]:
    """Two triples a person, one a city."""
    cities, name, lives_in = [iri(f"c{city}") for city in range(CITIES)], iri("name"), iri("city")
    for number, city in enumerate(cities):
        yield Quad(city, iri("in"), iri(f"l{number % 50}"), DEFAULT)
    for number in range(people):
        person = iri(f"p{number}")
        yield Quad(person, name, Literal(f"person number {number}"), DEFAULT)
        yield Quad(person, lives_in, cities[number % CITIES], DEFAULT)


class Pulse:
    """Events for another query of the engine, and the longest time that one took to get through."""

    def __init__(self, engine: Engine) -> None:
        engine.queries.register(Registration.from_json({"query": OTHER}, name="other"))
        self.longest_s = 0.0
        self._engine = engine
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def end(self) -> float:
        """No more events; the longest time, in seconds."""
        self._ended.set()
        self._thread.join()
        return self.longest_s

    def _run(self) -> None:
        number = 0
        while not self._ended.wait(0.02):
            number += 1
            body = f'<{E}a> <{E}beats> "{number}" .'.encode()
            began = time.perf_counter()
            self._engine.streams.push(PushCall(E + "pulse", "application/n-triples", wait=True), body)
            self.longest_s = max(self.longest_s, time.perf_counter() - began)


@dataclass(frozen=True, slots=True)
class Registered:
    """Seconds until a registration was answered, until its query ran, of CPU, and of the longest pause."""

    answered_s: float
    running_s: float
    cpu_s: float
    pause_s: float


@dataclass(frozen=True, slots=True)
class Changed:
    """Seconds of a commit, of the writer's CPU, until the query reflects it, and of all CPU until then."""

    commit_s: float
    writer_s: float
    shown_s: float
    cpu_s: float


class Run:
    """One store with one query whose window holds one person."""

    def __init__(self, triples: int, folder: Path | None = None) -> None:
        self.people = triples // 2
        self.store = QuadStore.open(folder)
        self.store.writer.bulk_extend(data(self.people))
        if folder is not None:
            self.store.committer.store.optimize()
        self.engine = Engine(self.store, None, clock=Clock(), settings=EngineSettings())
        self.engine.start()
        self.moves = 0

    def register(self) -> Registered:
        """Register the query; it may be answered before its tables are there."""
        pulse = Pulse(self.engine)
        began, spent = time.perf_counter(), time.process_time()
        self.engine.queries.register(Registration.from_json({"query": QUERY}, name="q"))
        answered = time.perf_counter() - began
        while self.engine.parts.catalogue.get("q").pending is not None:
            time.sleep(0.005)
        running = time.perf_counter() - began
        cpu = time.process_time() - spent
        return Registered(answered, running, cpu, pulse.end())

    def probe(self, events: int) -> float:
        """Microseconds of CPU of an event that looks one row up, its way through the engine included."""
        lines = [f'{{"at": {at}, "data": "<{E}p{at * 7919 % self.people}> <{E}seen> \\"{at}\\" ."}}'
                 for at in range(self.probed, self.probed + events)]  # fmt: skip
        self.probed += events
        body = "\n".join(lines).encode()
        began = time.process_time()
        self.engine.streams.push(PushCall(E + "s", "application/x-ndjson", wait=True), body)
        return (time.process_time() - began) / events * 1e6

    probed = 1

    def change(self, quads: int) -> Changed:
        """A commit of so many quads."""
        movers = max(1, quads // 2)
        begin = self.moves * 31 % self.people
        self.moves += 1
        added, removed = [], []
        for person in (each % self.people for each in range(begin, begin + movers)):
            here = next(iter(self.store.reader.quads_for_pattern(iri(f"p{person}"), iri("city"))))
            removed.append(here)
            added.append(lives(person, (int(here.object.value.rpartition("/c")[2]) + 1) % CITIES))  # type: ignore[union-attr]
        began, spent, own = time.perf_counter(), time.process_time(), time.thread_time()
        version = self.store.writer.apply(add=added, remove=removed if quads > 1 else ()).version
        committed, writer = time.perf_counter() - began, time.thread_time() - own
        while True:
            self.engine.sync()
            running = self.engine.parts.catalogue.get("q").running
            assert running is not None and running.static.statics is not None
            if running.static.statics.version >= version:
                return Changed(committed, writer, time.perf_counter() - began, time.process_time() - spent)
            # Each look is a turn of the engine: one every millisecond took a tenth of the time.
            time.sleep(0.001 if quads <= 1000 else 0.02)

    def anew(self) -> float:
        """Seconds of evaluating the part and looking at every row."""
        began = time.perf_counter()
        with self.store.reader.query(WHOLE) as result:
            for _ in result.rows():
                pass
        return time.perf_counter() - began

    def close(self) -> None:
        """Stop."""
        self.engine.stop()
        self.store.close()


def bytes_per_row(people: int = 20_000) -> float:
    """Python memory of a table's rows, the query's indexes and the terms, by tracemalloc."""
    first = Run(2)  # what a first registration of a process leaves behind is no row's
    first.register()
    first.close()
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
        self.store.writer.apply(add=data(people))
        self.registry = Registry.open(default_url(folder))
        self.tables = folder / "engine" / "tables.sqlite"

    def started(self) -> tuple[Engine, float]:
        """An engine and the seconds until it worked."""
        journal = Journal.open(self.folder / "engine")
        engine = Engine(self.store, self.registry, clock=Clock(), journal=journal)
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
        engine.queries.register(Registration.from_json({"query": QUERY}, name="q"))
        while engine.parts.router.pending:
            time.sleep(0.05)
        statics = engine.parts.statics
        assert statics.kept is not None
        began = time.perf_counter()
        engine.parts.sequencer.call(lambda: statics.keep({}))
        paused = time.perf_counter() - began
        statics.kept.rows.wait()
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


def measured(triples: int, quads: Sequence[int], folder: Path | None) -> dict[str, Any]:
    """The figures of one size; called in a process of its own."""
    collections = CollectionSchedule()
    collections.start()
    run = Run(triples, folder)
    gc.collect()
    before = resident_mb()
    registered = run.register()
    gc.collect()
    held = resident_mb() - before
    print(f"{triples:,} triples: {registered}, {held:,.0f} MB", flush=True)
    huge = settle(run)
    probe = median(run.probe(500) for _ in range(5))
    print(f"  probe {probe:.1f} us, {huge / 1e6:,.0f} MB in huge pages", flush=True)
    lines = []
    for number in quads:
        if number // 2 > run.people:
            continue
        times = [run.change(number) for _ in range(20 if number <= 10 else 3 if number <= 1000 else 1)]
        figures = [median(getattr(each, name) for each in times) * 1e3 for name in Changed.__slots__]
        lines.append([number, *figures])
        print(f"  {number:>7,} quads: " + ", ".join(f"{each:,.2f} ms" for each in figures), flush=True)
    anew = run.anew()
    print(f"  anew {anew * 1e3:,.0f} ms", flush=True)
    run.close()
    return {
        "triples": triples,
        "rows": run.people,
        "registered": [getattr(registered, name) * 1e3 for name in Registered.__slots__],
        "held_mb": held,
        "probe_us": probe,
        "anew_ms": anew * 1e3,
        "changes": lines,
        "load": round(os.getloadavg()[0], 1),
    }


def settle(run: Run) -> int:
    """Do what a server's threads have done after a while; bytes in huge pages."""
    huge = HugePages(rests=0).combine() if available() else 0
    run.probe(200)
    return huge


def probes(sizes: Sequence[int], rounds: int = 40) -> list[tuple[float, ...]]:
    """Microseconds of an event over each size, round by round: all are there while they take turns."""
    with ExitStack() as stack:
        spawned = multiprocessing.get_context("spawn")
        others = [stack.enter_context(ProcessPoolExecutor(1, spawned)) for _ in sizes]
        for other, triples in zip(others, sizes, strict=True):
            other.submit(_stand, triples).result()
        return [tuple(other.submit(_probed).result() for other in others) for _ in range(rounds)]


_STANDING: list[Run] = []


def _stand(triples: int) -> None:
    """In a process of its own: have a run that `_probed` is about."""
    CollectionSchedule().start()
    run = Run(triples)
    run.register()
    settle(run)
    _STANDING.append(run)


def _probed() -> float:
    return _STANDING[-1].probe(500)


def resident_mb() -> float:
    """Memory of this process."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Print figures and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--triples", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--quads", type=int, nargs="+", default=[1, 10, 1_000, 100_000])
    parser.add_argument("--disk", action="store_true", help="the store is in a folder, not in memory")
    parser.add_argument("--add", action="store_true", help="sizes that were measured before stay")
    parser.add_argument("--restart", action="store_true", help="measure starts instead")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    if options.restart:
        for triples in options.triples:
            restart(triples // 2)
        return
    before = kept("static_parts") if options.add else None
    sizes = {} if before is None else {each["triples"]: each for each in before["figures"]["sizes"]}
    for triples in options.triples:
        with (
            tempfile.TemporaryDirectory() as folder,
            ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other,
        ):
            place = Path(folder) if options.disk else None
            sizes[triples] = other.submit(measured, triples, options.quads, place).result()
        keep(
            "static_parts",
            {"sizes": [sizes[each] for each in sorted(sizes)], "bytes_per_row": bytes_per_row()},
        )


if __name__ == "__main__":
    main()
