"""Queries that differ in one constant, by what kind of query they are: 1 to 10,000 of them.

Run: ``python -m benchmarks.families [--most N] [--events N] [--push N]``. CPU time of the thread that pushes,
in one engine in memory, from the bytes of a push to what feeds hold, beside one query without the constant
over the same events. An event is the reading of one of as many sensors as there are queries, 10 ms after the
one before it, so it touches about one query; with ``limit`` the queries ask for values above 0, 1, 2 ..., and
a value is 1 or 2. The first push after the registrations is timed apart: 500 events.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from quadrill.app.config import MEMORY, Settings
from quadrill.app.upkeep.garbage import CollectionSchedule
from quadrill.app.wiring import open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from .results import keep

NUMBERS = (1, 100, 1_000, 10_000)
FIRST = 500
"""Events of the first push."""
STREAM = "http://localhost/readings"
_HEAD = "PREFIX : <http://localhost/>\n"
_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


@dataclass(frozen=True, slots=True)
class Family:
    """A kind of query: its text for a number, or without the constant, and what its registration asks for."""

    text: Callable[[int | None], str]
    options: dict[str, Any]


def _sensor(number: int | None) -> str:
    return "?sensor :value ?v" if number is None else f":sensor{number} :value ?v"


def _stream(window: str) -> Family:
    return Family(
        lambda number: f"{_HEAD}SELECT ?v WHERE {{ STREAM :readings {window} {{ {_sensor(number)} }} }}", {}
    )


def _rspql(operator: str, **options: Any) -> Family:
    head = (
        f"REGISTER {operator} :answer AS SELECT ?v FROM NAMED WINDOW :w ON :readings [RANGE PT1S STEP PT1S]"
    )
    return Family(lambda number: f"{_HEAD}{head} WHERE {{ WINDOW :w {{ {_sensor(number)} }} }}", options)


def _limit(number: int | None) -> str:
    pattern = f"?s :value ?v FILTER(?v > {number or 0})"
    return f"{_HEAD}SELECT ?s ?v WHERE {{ STREAM :readings [NOW] {{ {pattern} }} }}"


FAMILIES = {
    "[NOW]": _stream("[NOW]"),
    "[RANGE 1s]": _stream("[RANGE 1s]"),
    "[RANGE 1s SLIDE 250ms]": _stream("[RANGE 1s SLIDE 250ms]"),
    "RSP-QL, new rows": _rspql("ISTREAM"),
    "RSP-QL, whole answers": _rspql("RSTREAM", non_empty=True),
    "limit, [NOW]": Family(_limit, {}),
}


def measure(family: Family, number: int, events: int, push: int, *, constant: bool) -> tuple[float, ...]:
    """Microseconds an event, feed events an event, ms a registration, ms of the first push."""
    settings = Settings(data=MEMORY, feed_history=100)
    services = open_services(settings, clock=ManualClock(0), threaded=False)
    garbage = CollectionSchedule()  # as in a server
    garbage.start()
    try:
        engine = services.engine
        engine.start()
        names = [f"q{place}" for place in range(number if constant else 1)]
        begin = time.thread_time()
        for place, name in enumerate(names):
            members = {"query": family.text(place if constant else None), "name": name, **family.options}
            engine.queries.register(Registration.from_json(members))
        registered = (time.thread_time() - begin) / len(names)
        chance, at = random.Random(2011), 10_000
        spent: list[float] = []
        for size in (FIRST, *[push] * (2 * events // push)):
            lines = []
            for _ in range(size):
                at += 10
                value = chance.choice((1, 2))
                subject = f"http://localhost/sensor{chance.randrange(number)}"
                data = f'<{subject}> <http://localhost/value> "{value}"^^<{_INTEGER}> .'
                lines.append(json.dumps({"at": at, "data": data}))
            begin = time.thread_time()
            engine.streams.push(
                PushCall(STREAM, "application/x-ndjson", wait=True), "\n".join(lines).encode()
            )
            spent.append(time.thread_time() - begin)
        told = sum(engine.queries.feed(name).history.last_id for name in names)
        timed = spent[1 + events // push :]
        each = sum(timed) / (len(timed) * push) * 1e6
        return each, told / (FIRST + push * (len(spent) - 1)), registered * 1e3, spent[0] * 1e3
    finally:
        garbage.stop()
        services.close()


def main() -> None:
    """Print a line for each family and number, and keep them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="queries of the largest run")
    parser.add_argument("--events", type=int, default=2000, help="timed events of each run")
    parser.add_argument("--push", type=int, default=1, help="events a push")
    options = parser.parse_args()
    print(f"{'':24}{'queries':>8}{'an event':>12}{'times one':>11}{'answers':>9}{'register':>11}  first push")
    lines = []
    for name, family in FAMILIES.items():
        for number in (each for each in NUMBERS if each <= options.most):
            one = measure(family, number, options.events, options.push, constant=False)
            many = measure(family, number, options.events, options.push, constant=True)
            line = (many[0], many[0] / one[0], many[1], many[2], many[3], many[3] / one[3])
            lines.append((name, number, *(round(each, 3) for each in line)))
            print(
                f"{name:24}{number:8}{line[0]:9.1f} µs{line[1]:11.2f}{line[2]:9.2f}{line[3]:8.2f} ms"
                f"{line[4]:9.0f} ms ({line[5]:.2f})",
                flush=True,
            )
    keep("families", {"lines": lines, "push": options.push})


if __name__ == "__main__":
    main()
