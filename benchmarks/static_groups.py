"""Static parts that differ in constants: a commit worked out once for all of them beside once for each.

    python -m benchmarks.static_groups 10 100 1000

So many instances of Q3 of 2011, each naming another author, over 100,000 triples of the conference; evaluated
together and alone. CPU time of a registration and of a commit of a paper, and resident memory.
"""

from __future__ import annotations

import argparse
import gc
import multiprocessing
import os
import time
from pathlib import Path
from statistics import median

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.static import table_registry
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.quads.quad_store import QuadStore

from . import conference

DEFAULT = DefaultGraph()


def members(number: int, *, together: bool, templates: bool) -> None:
    """Print what ``number`` instances of Q3 cost, with changes worked out for all together or for each."""
    if not together:
        table_registry.lifted = lambda form: None  # type: ignore[attr-defined]
    scene = conference.Conference(100_000, tags=max(900, number))
    store = QuadStore.open(None)
    store.writer.apply(add=scene.static)
    settings = EngineSettings(threaded=False, templates=templates)
    engine = Engine(store, None, clock=ManualClock(0), settings=settings)
    engine.start()
    held = _resident()
    began = time.thread_time()
    for place in range(number):
        document = {"query": conference.query("Q3"), "parameters": {"Name": scene.name_of(place)}}
        engine.queries.register(Registration.from_json(document, name=f"q{place}"))
    registered = time.thread_time() - began
    for element in scene.elements(20):
        body = b"".join(f"{quad.triple} .\n".encode() for quad in element.quads)
        engine.streams.push(
            PushCall(conference.STREAM, "application/n-triples", at=element.event_time, wait=True), body
        )
    gc.collect()
    held = _resident() - held
    commits = []
    for paper in range(10):
        subject = NamedNode(f"http://localhost/publications/new{paper}")
        creators = [NamedNode(scene.authors[(97 * paper + each) % len(scene.authors)]) for each in range(3)]
        quads = [Quad(subject, NamedNode(conference.DC + "creator"), each, DEFAULT) for each in creators]
        began = time.thread_time()
        store.writer.apply(add=quads)
        commits.append(time.thread_time() - began)
    tables = engine.parts.statics.tables()
    joined = sum(
        entry.running is not None and entry.running.group.plan_slot is not None
        for entry in engine.parts.catalogue.entries()
    )
    kind = "one delta" if together else "a delta for each"
    print(f"{number:,} members, {kind}, {joined:,} in a template: "
          f"registration {registered / number * 1e3:.1f} ms each, commit {median(commits) * 1e3:.2f} ms, "
          f"{held / number / 1e3:.0f} KB each, {len(tables)} tables of {engine.parts.statics.rows():,} rows",
          flush=True)  # fmt: skip
    engine.stop()
    store.close()


def _resident() -> int:
    """Bytes of memory of the process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def main() -> None:
    """Print a line for each number of instances and each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("numbers", type=int, nargs="+", help="of instances")
    options = parser.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    for number in options.numbers:
        for templates in (True, False):
            for together in (False, True):
                # Each in a process of its own: memory that one gives back another would not ask for.
                process = multiprocessing.Process(
                    target=members, args=(number,), kwargs={"together": together, "templates": templates}
                )
                process.start()
                process.join()


if __name__ == "__main__":
    main()
