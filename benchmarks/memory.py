"""Memory over time: ever-new subject IRIs through a window of ten seconds, with journal, feed and dictionary.

Run: ``python -m benchmarks.memory [--elements N] [--large]`` (10 million by default: several minutes). A
whole server without its HTTP side, in a child process and on disk: each element is one triple with a subject
that never comes again, 1,000 elements a second of event time, so that the windows hold 10,000. Every
hundredth of the run one line: resident memory, entries of the term dictionary, elements retained, bytes on
disk.

``--large``: over HTTP to a server with the default settings, elements of 50 triples with new subjects through
GROUP BY over two seconds of arrival, with nobody at the feed; a line at each twentieth.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path

from quadrill.app.config import Settings
from quadrill.app.wiring import Services, open_services
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from .results import keep
from .soak import server
from .soak_load import TRIPLES, Client

STREAM = "http://localhost/passing"
QUERIES = {
    "high": """SELECT ?s ?v WHERE {
  STREAM <http://localhost/passing> [RANGE 10s] { ?s <urn:value> ?v FILTER(?v > 98) } }""",
    "average": """SELECT (COUNT(?s) AS ?n) (AVG(?v) AS ?mean) WHERE {
  STREAM <http://localhost/passing> [RANGE 10s] { ?s <urn:value> ?v } }""",
}
GROUPS = f"""SELECT ?s (AVG(?v) AS ?mean) WHERE {{
  STREAM <{STREAM}> [RANGE 2s] {{ ?s <urn:value> ?v }} }} GROUP BY ?s"""
LARGE = 50
BATCH = 200
PER_SECOND = 1000
START_MS = 1_700_000_000_000
COLUMNS = ("elements", "resident_mb", "dictionary", "retained", "disk_mb", "seconds")


def resident_mb(process: int | str = "self") -> float:
    """Resident memory of a process in megabytes."""
    pages = int(Path(f"/proc/{process}/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def body(first: int, triples: int = BATCH) -> bytes:
    """One push of so many triples with subjects that no other push has."""
    lines = [
        f'<http://localhost/things/{number}/{number * 2654435761 % 2**32:08x}> <urn:value> "{number % 100}"'
        "^^<http://www.w3.org/2001/XMLSchema#integer> .\n"
        for number in range(first, first + triples)
    ]
    return "".join(lines).encode("ascii")


def figures(services: Services, folder: Path, elements: int, begin: float) -> tuple[float, ...]:
    """One line of the table."""
    parts = services.engine.parts
    terms = parts.statics.terms.dictionary
    stream = parts.streams.find(STREAM)
    retained = stream.retained.elements if stream is not None else 0
    disk = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return (elements, round(resident_mb(), 1), len(terms), retained, round(disk / 1e6, 1),
            round(time.monotonic() - begin, 1))  # fmt: skip


def child(sender: Connection, elements: int) -> None:
    """Push everything and send a line at each hundredth."""
    with tempfile.TemporaryDirectory() as folder:
        services = open_services(Settings(data=folder, max_future="10000d"))
        services.engine.start()
        for name, text in QUERIES.items():
            services.engine.queries.register(Registration.from_json({"query": text, "name": name}))
        begin = time.monotonic()
        every = max(BATCH, elements // 100 // BATCH * BATCH)
        for first in range(0, elements, BATCH):
            at = START_MS + first * 1000 // PER_SECOND
            services.engine.streams.push(
                PushCall(STREAM, "application/n-triples", at=at, each="triple", wait=True), body(first)
            )
            if (first + BATCH) % every == 0:
                sender.send(figures(services, Path(folder), first + BATCH, begin))
        services.close()
    sender.send(None)


def lines(elements: int, *, print_them: bool = False) -> list[tuple[float, ...]]:
    """The lines of a run in a child process."""
    receiver, sender = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("spawn").Process(target=child, args=(sender, elements))
    process.start()
    sender.close()
    found: list[tuple[float, ...]] = []
    if print_them:
        print(("{:>12}" * len(COLUMNS)).format(*COLUMNS))
    while (line := receiver.recv()) is not None:
        found.append(line)
        if print_them:
            print(("{:>12}" * len(COLUMNS)).format(*line), flush=True)
    process.join()
    return found


def large(triples: int) -> list[tuple[float, ...]]:
    """So many triples in elements of `LARGE` over HTTP: triples, resident MB of the server, seconds."""
    found: list[tuple[float, ...]] = []
    with tempfile.TemporaryDirectory() as folder, server(Path(folder) / "data", {}) as (url, process):
        client, began = Client(url), time.monotonic()
        client.call("POST", "/queries", json.dumps({"query": GROUPS, "name": "groups"}).encode())
        for number, first in enumerate(range(0, triples, LARGE), 1):
            text = body(first, LARGE)
            while b"back-pressure" in client.call("POST", f"/streams?iri={STREAM}", text, TRIPLES, (429,)):
                time.sleep(0.05)
            if number % (triples // LARGE // 20 or 1) == 0:
                resident, seconds = resident_mb(process.pid), time.monotonic() - began
                found.append((number * LARGE, round(resident, 1), round(seconds, 1)))
                print(("{:>12}" * 3).format(*found[-1]), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=10_000_000)
    parser.add_argument("--large", action="store_true", help="elements of many triples, over HTTP")
    options = parser.parse_args()
    if options.large:
        keep("memory-large", {"lines": large(options.elements)})
        return
    found = lines(options.elements, print_them=True)
    keep("memory", {"columns": COLUMNS, "lines": found})


if __name__ == "__main__":
    main()
