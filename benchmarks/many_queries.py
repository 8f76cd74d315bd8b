"""Many registered queries: what one more costs, and how long a stop and a start take with all of them.

    python -m benchmarks.many_queries [--queries 5000] [--quads 1000000] [--kinds constants static shapes]
A server process each kind of queries, over a folder on disk, asked over HTTP by one client:

    constants   they differ in one constant of a window's pattern
    static      each reads a part of the store, and these differ in one constant
    shapes      no two have the same structure: predicates, windows, filters, aggregates and static parts vary

Printed are CPU milliseconds of the server a registration, by how many queries there are; seconds of wall
clock and of CPU from SIGTERM to the end of the process, while it is idle and while four clients register;
and those from the start of the process to its ready line, after a stop and after a kill.
"""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
from pyoxigraph import DefaultGraph, Literal, NamedNode, Quad

from quadrill.store.quads.quad_store import QuadStore

from .results import keep

E = "http://example.org/"
ROOMS = 1_000
STEPS = (100, 1_000, 5_000, 10_000)
QUADS_AT_ONCE = 100_000


def sensors(quads: int) -> Iterator[Quad]:
    """Four triples a sensor: its room, its kind, its floor and its name."""
    default = DefaultGraph()
    for number in range(quads // 4):
        sensor = NamedNode(f"{E}sensor{number}")
        yield Quad(sensor, NamedNode(E + "in"), NamedNode(f"{E}room{number % ROOMS}"), default)
        yield Quad(sensor, NamedNode(E + "kind"), NamedNode(f"{E}kind{number % 7}"), default)
        yield Quad(sensor, NamedNode(E + "floor"), NamedNode(f"{E}floor{number % 12}"), default)
        yield Quad(sensor, NamedNode(E + "name"), Literal(f"sensor {number}"), default)


def constants(number: int) -> str:
    """Queries that differ in a constant of the window's pattern."""
    pattern = f"?x :seen ?v ; :by :watcher{number}"
    return f"PREFIX : <{E}> SELECT ?x ?v WHERE {{ STREAM :s [RANGE 1m] {{ {pattern} }} }}"


def static(number: int) -> str:
    """Queries whose static parts differ in a constant."""
    return (
        f"PREFIX : <{E}> SELECT ?x ?v ?k WHERE {{ STREAM :s [RANGE 1m] {{ ?x :seen ?v }} "
        f"?x :in :room{number % ROOMS} ; :kind ?k . FILTER(?v > {number // ROOMS}) }}"
    )


_STATIC = (
    "",
    "?x :in ?r . ",
    "?x :kind :kind3 ; :floor ?r . ",
    "?x :name ?r ; :in :room7 . ",
    "OPTIONAL { ?x :floor ?r } ",
)
_FILTER = ("", "FILTER(?v > 3)", "FILTER(?v * 2 < 90)", "FILTER(STRLEN(STR(?x)) > 7)", "FILTER(?v != ?x)")
_HEAD = (
    "SELECT ?x ?v WHERE {{ {} }}",
    "SELECT ?x (COUNT(*) AS ?n) WHERE {{ {} }} GROUP BY ?x",
    "SELECT ?x (AVG(?v) AS ?n) (MAX(?v) AS ?m) WHERE {{ {} }} GROUP BY ?x",
    "SELECT DISTINCT ?v WHERE {{ {} }}",
    "CONSTRUCT {{ ?x :told ?v }} WHERE {{ {} }}",
)
_MORE = ("", "; :unit ?u", "; :unit ?u ; :by ?b", ". OPTIONAL { ?x :unit ?u }")
_SHAPES = list(itertools.product(_HEAD, _MORE, _STATIC, _FILTER))


def shapes(number: int) -> str:
    """Queries that differ in structure: when all shapes were there the predicates are others."""
    head, more, part, condition = _SHAPES[number * 37 % len(_SHAPES)]
    task = number // len(_SHAPES)
    body = f"STREAM :s{number % 20} [RANGE {1 + task}m] {{ ?x :seen{task} ?v {more} }} {part}{condition}"
    return f"PREFIX : <{E}> " + head.format(body)


KINDS: dict[str, Callable[[int], str]] = {"constants": constants, "static": static, "shapes": shapes}


def fill(folder: Path, quads: int) -> None:
    """A store with so many quads."""
    with QuadStore.open(folder) as store:
        found = sensors(quads)
        while batch := list(itertools.islice(found, QUADS_AT_ONCE)):
            store.writer.apply(add=batch)


class Server:
    """A server process over a folder; how long it took until it was ready."""

    def __init__(self, folder: Path) -> None:
        began = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", str(folder), "--port", "0"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.ready_s = time.monotonic() - began
        self.ready_cpu_s = self.cpu_s()
        self.url = line.split()[-1].rstrip("/")

    def cpu_s(self) -> float:
        """CPU seconds that the process has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self, number: signal.Signals = signal.SIGTERM) -> tuple[float, float]:
        """Seconds from the signal to the end, and of CPU in them."""
        before, began, used = self.cpu_s(), time.monotonic(), 0.0
        self._process.send_signal(number)
        while self._process.poll() is None:
            with suppress(OSError, IndexError):
                used = max(used, self.cpu_s() - before)
            time.sleep(0.01)
        return time.monotonic() - began, used


def register(client: httpx.Client, server: Server, name: str, text: str) -> int:
    """Register a query; the status."""
    plain = {"Content-Type": "text/plain"}
    return client.put(f"{server.url}/queries/{name}", content=text, headers=plain).status_code


@contextmanager
def registering(server: Server, text_of: Callable[[int], str], first: int) -> Iterator[None]:
    """Four clients that register until the server goes away."""

    def run(numbers: Iterator[int]) -> None:
        with httpx.Client(timeout=60) as client, suppress(httpx.HTTPError):
            for number in numbers:
                if register(client, server, f"late{number}", text_of(number)) >= 500:
                    break

    threads = [threading.Thread(target=run, args=(itertools.count(first + k, 4),)) for k in range(4)]
    for each in threads:
        each.start()
    time.sleep(1)
    yield
    for each in threads:
        each.join()


def measure(kind: str, queries: int, quads: int) -> dict[str, float]:
    """The figures of one kind of queries."""
    text_of, found = KINDS[kind], {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fill(folder, quads)
        server = Server(folder)
        found["ready, no queries (s)"], found["- CPU"] = server.ready_s, server.ready_cpu_s
        with httpx.Client(timeout=60) as client:
            before = server.cpu_s()
            last, done = before, 0
            for number in range(queries):
                status = register(client, server, f"q{number}", text_of(number))
                assert status == 201, (status, text_of(number))
                if number + 1 in STEPS or number + 1 == queries:
                    now = server.cpu_s()
                    each = (now - last) / (number + 1 - done)
                    found[f"registration, up to {number + 1} (CPU ms)"] = each * 1e3
                    last, done = now, number + 1
                    _show(found)
            before, began = server.cpu_s(), time.monotonic()
            count = len(client.get(f"{server.url}/queries").json()["queries"])
            assert count == queries
            found["GET /queries (s)"] = time.monotonic() - began
            before = server.cpu_s()
            client.get(f"{server.url}/metrics")
            found["GET /metrics (CPU s)"] = server.cpu_s() - before
        found["stop (s)"], found["stop, CPU"] = server.end()
        _show(found)
        server = Server(folder)
        found["ready (s)"], found["ready, CPU"] = server.ready_s, server.ready_cpu_s
        _show(found)
        server.end(signal.SIGKILL)
        server = Server(folder)
        found["ready after a kill (s)"], found["ready after a kill, CPU"] = server.ready_s, server.ready_cpu_s
        _show(found)
        with registering(server, text_of, queries):
            found["stop while registering (s)"], found["stop while registering, CPU"] = server.end()
        _show(found)
    return {name: round(value, 3) for name, value in found.items()}


def _show(found: dict[str, float]) -> None:
    name, value = list(found.items())[-2 if "CPU" in list(found)[-1] and "(" not in list(found)[-1] else -1]
    print(f"  {name:45} {value:9.3f}   CPU {list(found.values())[-1]:9.3f}", flush=True)


def main() -> None:
    """Measure, or profile."""
    shown = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=shown)
    parser.add_argument("--queries", type=int, default=5_000)
    parser.add_argument("--quads", type=int, default=1_000_000)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    options = parser.parse_args()
    figures = {}
    for kind in options.kinds:
        print(kind)
        figures[kind] = measure(kind, options.queries, options.quads)
    keep("many_queries", {"queries": options.queries, "quads": options.quads, "kinds": figures})


if __name__ == "__main__":
    main()
