"""The whole engine by the size of a push: the challenge's queries and Q3 of 2011, stage by stage.

Run: ``python -m benchmarks.batches [--items N]``. CPU time of one thread, the engine in the calling thread
and in memory, with collections of garbage as in a server; windows are full before the clock is started. An
item is a report of the challenge (nine triples) or a detection (one triple). A push of one item is N-Triples,
of more NDJSON, an item and its time a line, so that items with different times are transactions of their
own; ``Q3, one time`` pushes detections that share their time as one N-Triples document, a single transaction.
``reading`` is decoding alone, ``accepting`` what an engine without queries adds to it, ``query`` the rest:
windows, evaluation and lines of JSON in the feed. Percentiles are those of pushes, divided by items.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from typing import NamedTuple

from pyoxigraph import Quad, RdfFormat, serialize

from quadrill.app.commands import challenge
from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall
from quadrill.store.pushes.decode import DecodeOptions, decode

from . import conference, debs, taxi
from .results import keep

SIZES = (1, 100, 1000)
COLUMNS = ("workload", "batch", "items_per_second", "cpu_us", "reading", "accepting", "query", "p50", "p99")


class Item(NamedTuple):
    """One element as N-Triples, and its time."""

    at: int
    triples: str


class Push(NamedTuple):
    """One body as `StreamService.push` takes it, with the number of its items."""

    body: bytes
    media_type: str
    at: int | None
    each: str | None
    items: int


class Workload(NamedTuple):
    """A query, its static data and what is pushed; the first ``filling`` items fill the windows."""

    name: str
    stream: str
    members: Mapping[str, object]
    static: list[Quad]
    items: list[Item]
    filling: int
    one_time: bool = False

    def pushes(self, items: list[Item], size: int) -> list[Push]:
        """The items in pushes of ``size``."""
        groups = [items[place : place + size] for place in range(0, len(items), size)]
        return [self._push(group) for group in groups]

    def _push(self, group: list[Item]) -> Push:
        if len(group) == 1:
            (item,) = group
            return Push(item.triples.encode(), "application/n-triples", item.at, None, 1)
        if self.one_time:
            body = "".join(item.triples for item in group).encode()
            return Push(body, "application/n-triples", group[-1].at, "triple", len(group))
        lines = [json.dumps({"at": item.at, "data": item.triples}) + "\n" for item in group]
        return Push("".join(lines).encode(), "application/x-ndjson", None, None, len(group))


def run(load: Workload, size: int, *, query: bool) -> list[tuple[float, int]]:
    """CPU seconds and items of each push, with the query or without any."""
    services = open_services(
        Settings(data=MEMORY, feed_history=100),
        clock=ManualClock(time.time_ns() // 1_000_000),
        threaded=False,
    )
    garbage = CollectionSchedule()  # as in a server
    garbage.start()
    try:
        engine = services.engine
        engine.start()
        services.store.writer.apply(add=load.static)
        if query:
            engine.queries.register(Registration.from_json({**load.members, "name": "q"}))
        else:
            engine.streams.declare(load.stream)
        spent = []
        filling = load.pushes(load.items[: load.filling], 1000)
        for number, push in enumerate([*filling, *load.pushes(load.items[load.filling :], size)]):
            begin = time.thread_time()
            engine.streams.push(
                PushCall(load.stream, push.media_type, at=push.at, each=push.each, wait=True), push.body
            )
            if number >= len(filling):
                spent.append((time.thread_time() - begin, push.items))
        return spent
    finally:
        garbage.stop()
        services.close()


def reading(load: Workload, size: int) -> float:
    """CPU seconds of decoding all timed pushes."""
    pushes = load.pushes(load.items[load.filling :], size)
    begin = time.thread_time()
    for push in pushes:
        decode(push.body, push.media_type, DecodeOptions(at=push.at, each_triple=push.each == "triple"))
    return time.thread_time() - begin


def measure(load: Workload, size: int) -> tuple[object, ...]:
    """The line of one workload and size; times in microseconds an item."""
    whole = run(load, size, query=True)
    items = sum(number for _, number in whole)
    total = sum(seconds for seconds, _ in whole) / items * 1e6
    empty = sum(seconds for seconds, _ in run(load, size, query=False)) / items * 1e6
    read = reading(load, size) / items * 1e6
    each = sorted(seconds / number * 1e6 for seconds, number in whole)
    middle, last = each[len(each) // 2], each[int(len(each) * 0.99)]
    figures = (total, read, max(0.0, empty - read), total - empty, middle, last)
    return (load.name, size, round(1e6 / total), *(round(figure, 1) for figure in figures))


def workloads(number: int) -> list[Workload]:
    """DEBS Q1 and Q2 over half an hour, and Q3 of 2011 over 100,000 static triples."""
    filling = 70 * 30 * 11 // 10
    reports = [Item(each.at, each.graph.decode()) for each in debs.read(filling + number, 70)]
    found = [
        Workload(
            f"DEBS {name.upper()}",
            taxi.STREAM,
            {"query": debs.text_of(name, 30)} | challenge.OPTIONS,
            [],
            reports,
            filling,
        )
        for name in ("q1", "q2")
    ]
    scene = conference.Conference(100_000)
    members: dict[str, object] = {
        "query": conference.query("Q3"),
        "parameters": {"Name": scene.busiest},
    }
    detections = []
    for element in scene.elements(6000 + number):
        text = serialize([quad.triple for quad in element.quads], format=RdfFormat.N_TRIPLES)
        assert text is not None
        detections.append(Item(element.event_time, text.decode()))
    for name, one_time in (("2011 Q3", False), ("2011 Q3, one time", True)):
        found.append(Workload(name, conference.STREAM, members, scene.static, detections, 6000, one_time))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=3000, help="timed items of each run")
    options = parser.parse_args()
    print(("{:>18}{:>6}" + "{:>18}" + "{:>11}" * 6).format(*COLUMNS) + "   (microseconds an item)")
    lines = []
    for load in workloads(options.items):
        for size in SIZES:
            if load.one_time and size == 1:
                continue
            line = measure(load, size)
            lines.append(line)
            print("{:>18}{:>6}{:>18}".format(*line) + "".join(f"{each:>11}" for each in line[3:]), flush=True)
    keep("batches", {"columns": COLUMNS, "lines": lines})


if __name__ == "__main__":
    main()
