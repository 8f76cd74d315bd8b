"""CONSTRUCT beside SELECT: what a commit and a push of one quad cost with small and with large answers.

Run: ``python -m benchmarks.construct [--rows 2000 200000] [--times N]``. The output of all is `changes`. Each
has an engine and a store in memory; they take turns quad by quad. A commit adds a quad that is a row of a
query without windows, a push adds one to a window that holds as many as the answer has rows. Times are
medians of CPU time, from the quad to the event in the feed. *view* is the same CONSTRUCT with ``INTO GRAPH``,
whose own commit is timed as well; a server makes that commit in another thread.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Sequence
from statistics import median
from typing import Literal as OneOf

from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.continuous.clock import ManualClock
from quadrill.continuous.engine import Engine, EngineSettings, Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.quads.options import StoreOptions
from quadrill.store.quads.quad_store import QuadStore

from .results import keep

Work = OneOf["commit", "push"]
E = "http://example.org/"
FIRST = 1_000
"""Quads of one push while a window is filled."""
HEADS = {
    "SELECT": "SELECT ?x ?y",
    "CONSTRUCT": "CONSTRUCT { ?x :to ?y }",
    "view": "CONSTRUCT { ?x :to ?y } INTO GRAPH :view",
}


def triple(number: int) -> tuple[str, str, str]:
    """The terms of one row; a thousand objects come again and again."""
    return f"{E}x{number}", f"{E}from", f"{E}y{number % 1_000}"


class Subject:
    """One query in an engine of its own, whose answer has ``rows`` rows."""

    def __init__(self, head: str, work: Work, rows: int) -> None:
        clock = ManualClock(0)
        self._work, self._next, self._at = work, rows, 0
        self.store = QuadStore.open(None, StoreOptions(clock_ms=clock.now_ms))
        self.engine = Engine(self.store, None, clock=clock, settings=EngineSettings(threaded=False))
        self.engine.start()
        if work == "commit":
            self.store.writer.apply(add=[self._quad(each) for each in range(rows)])
        pattern = "?x :from ?y" if work == "commit" else "STREAM :s [RANGE 1d] { ?x :from ?y }"
        text = f"PREFIX : <{E}> {head} WHERE {{ {pattern} }}"
        members = {"query": text, "dialect": "cqels", "output": "changes"}
        self.engine.queries.register(Registration.from_json(members, name="q"))
        if work == "push":
            for first in range(0, rows, FIRST):
                self._push(range(first, min(first + FIRST, rows)))
        self.engine.sync()

    def one(self) -> float:
        """Give it one more quad; microseconds of CPU until the feed has the event."""
        number, self._next = self._next, self._next + 1
        quad = self._quad(number)
        before = time.process_time()
        if self._work == "commit":
            self.store.writer.apply(add=[quad])
            self.engine.sync()
        else:
            self._push([number])
        return (time.process_time() - before) * 1e6

    def close(self) -> None:
        """Stop the engine and its store."""
        told = self.engine.queries.feed("q").history.last_id
        assert told >= self._at, "each quad is an event"
        self.engine.stop()
        self.store.close()

    def _push(self, numbers: Sequence[int]) -> None:
        self._at += 1
        body = "".join("<{}> <{}> <{}> .\n".format(*triple(each)) for each in numbers)
        self.engine.streams.push(PushCall(f"{E}s", "application/n-triples", at=self._at), body.encode())

    @staticmethod
    def _quad(number: int) -> Quad:
        subject, predicate, value = map(NamedNode, triple(number))
        return Quad(subject, predicate, value, DefaultGraph())


def measure(work: Work, rows: int, times: int) -> dict[str, float]:
    """Microseconds of each kind of query."""
    subjects = {name: Subject(head, work, rows) for name, head in HEADS.items()}
    spent: dict[str, list[float]] = {name: [] for name in subjects}
    gc.collect()
    gc.freeze()
    for _ in range(times):
        for name, subject in subjects.items():
            spent[name].append(subject.one())
    for subject in subjects.values():
        subject.close()
    gc.unfreeze()
    return {name: median(each[times // 10 :]) for name, each in spent.items()}


def main() -> None:
    """Print a line for each size and kind of work, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000, 200_000], help="rows of the answers")
    parser.add_argument("--times", type=int, default=400, help="timed quads")
    options = parser.parse_args()
    print(f"{'':8}{'rows':>9}{'SELECT':>12}{'CONSTRUCT':>12}{'ratio':>7}{'view':>12}{'ratio':>7}")
    works: tuple[Work, ...] = ("commit", "push")
    lines = []
    for rows in options.rows:
        for work in works:
            found = measure(work, rows, options.times)
            select, construct, view = found.values()
            lines.append((work, rows, *(round(each, 1) for each in found.values())))
            print(
                f"{work:8}{rows:9,}{select:9.0f} µs{construct:9.0f} µs{construct / select:7.2f}"
                f"{view:9.0f} µs{view / select:7.2f}",
                flush=True,
            )
    keep("construct", {"lines": lines, "times": options.times})


if __name__ == "__main__":
    main()
