"""Windows of different widths on one stream: what each further one costs.

Run: ``python -m benchmarks.windows [--most N] [--live N]``. One engine in memory, elements of three triples,
one pushed each event second. Query k of n counts the readings of ``[RANGE w]`` with w = k/n of ``--live``
seconds. Memory is Python's (`tracemalloc`) while the widest window is full, less an engine that got nothing;
the line of no windows is what the stream itself retains. Time is CPU time of one thread for an element on its
whole way, expiries included.
"""

from __future__ import annotations

import argparse
import json
import time
import tracemalloc

from quadrill.app.config import MEMORY, Settings
from quadrill.app.wiring import Services, open_services
from quadrill.continuous.clock import ManualClock
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.streams.push_call import PushCall

from .results import keep

STREAM = "http://localhost/readings"
QUERY = """PREFIX : <http://example.org/>
SELECT (COUNT(*) AS ?readings) WHERE {{ STREAM <{stream}> [RANGE {width}s] {{ ?reading :value ?value }} }}"""
INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
PUSHED_AT_ONCE = 100


def body(first: int) -> bytes:
    """A push of elements: reading number ``first`` and those behind it, as NDJSON."""
    lines = []
    for number in range(first, first + PUSHED_AT_ONCE):
        subject = f"<http://example.org/reading{number}>"
        data = (
            f"{subject} <http://example.org/sensor> <http://example.org/sensor{number % 50}> .\n"
            f'{subject} <http://example.org/value> "{number % 1000}"^^<{INTEGER}> .\n'
            f"{subject} <http://example.org/unit> <http://example.org/celsius> .\n"
        )
        lines.append(json.dumps({"at": number * 1000, "data": data}))
    return "\n".join(lines).encode()


def fed(queries: int, live: int, elements: int) -> tuple[Services, float]:
    """An engine with so many queries that has taken ``live`` + ``elements``; CPU seconds of the latter."""
    settings = Settings(data=MEMORY, feed_history=1)
    services = open_services(settings, clock=ManualClock(0), threaded=False)
    services.engine.start()
    for place in range(queries):
        text = QUERY.format(stream=STREAM, width=live * (place + 1) // queries)
        services.engine.queries.register(Registration.from_json({"query": text, "name": f"q{place}"}))
    spent = 0.0
    for first in range(0, live + elements, PUSHED_AT_ONCE):
        given = body(first)
        begin = time.thread_time()
        services.engine.streams.push(PushCall(STREAM, "application/x-ndjson", wait=True), given)
        if first >= live:
            spent += time.thread_time() - begin
    return services, spent


def memory(queries: int, live: int) -> int:
    """Bytes of Python objects of an engine with full windows."""
    tracemalloc.start()
    try:
        services, _ = fed(queries, live, 0)
        held = tracemalloc.get_traced_memory()[0]
        services.close()
        return held
    finally:
        tracemalloc.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, default=16, help="windows of the largest run")
    parser.add_argument("--live", type=int, default=10_000, help="elements in the widest window")
    options = parser.parse_args()
    fed(1, 200, 200)[0].close()  # imports and grammars are not what is measured
    empty = memory(0, 0)
    lines = []
    numbers = [0, 1]
    while numbers[-1] * 2 <= options.most:
        numbers.append(numbers[-1] * 2)
    for number in numbers:
        held = (memory(number, options.live) - empty) / 1e6
        services, spent = fed(number, options.live, options.live)
        services.close()
        lines.append((number, round(held, 2), round(spent / options.live * 1e6, 1)))
        print(f"{number:4} windows {held:10.2f} MB {lines[-1][2]:10.1f} us an element", flush=True)
    keep("windows", {"live": options.live, "lines": lines})


if __name__ == "__main__":
    main()
