"""What a slow query does to another one: the time from a push to its event, alone and beside a slow query.

Run: ``python -m benchmarks.fairness [--seconds N] [--case NAME]``. A server process with a data folder
(default settings, but for limits that would end a slow query before it was measured) has a quick query. A
client pushes one element, waits for its event, and pushes the next 10 ms later, for ``--seconds``: first
alone, then while the query of the case works. Printed are p50, p99 and the longest time in ms, and the ratio
of both p99. The cases:

    closes       a window that slides by a millisecond, over 40,000 seconds of event time
    matches      SEQ of three steps without a shared key over 400 elements: 10 million matches
    same-stream  the same; the quick query reads the stream that the slow one reads
    evaluation   one evaluation that joins 300 elements three times without a key
    recomputed   a join of four, in a query that falls back to the recomputing engine
    replay       a query is registered over what its stream retains: a join of 300 elements at each of them
    derived      a slow query derives a stream that another one reads
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .latency import ask, percentile, server
from .results import keep

BAD, QUICK = "urn:bad", "urn:quick"
START = 2_000_000
STEPS = "?a <urn:k> 1", "?b <urn:k> 1", "?c <urn:k> 1"
MATCHES = "SEQ {{ {} }} WITHIN 1h".format(" ; ".join(f"STREAM <{BAD}> {{ {step} }}" for step in STEPS))
JOIN = f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{BAD}> [RANGE 1h] {{ {' . '.join(STEPS)} }} }}"
# RAND has no native form: the query falls back to recomputing.
RECOMPUTED = (
    f"SELECT ?n (RAND() AS ?r) WHERE {{ STREAM <{BAD}> [RANGE 1h] "
    f"{{ SELECT (COUNT(*) AS ?n) {{ {' . '.join(STEPS)} . ?d <urn:k> 1 }} }} }}"
)
LIMITS = {
    "max_evaluation_time": "10m",
    "max_evaluation_rows": "0",
    "max_rows_per_minute": "0",
    "max_cpu_per_minute": "1h",
    "max_bytes_per_minute": "0",
}
COLUMNS = "case", "p50_alone_ms", "p99_alone_ms", "p50_ms", "p99_ms", "longest_ms", "ratio_p99", "busy"


@dataclass(frozen=True, slots=True)
class Case:
    """A slow query and the elements that make it slow.

    Attributes:
        query: its text.
        at: event times of the elements, in milliseconds from `START`; ``together``: all are one push.
        stream: what the quick query reads.
        replayed: when it has done everything it is replayed.
    """

    query: str
    at: range
    together: bool = False
    stream: str = QUICK
    replayed: bool = False


CASES = {
    "closes": Case(
        f"SELECT ?n WHERE {{ STREAM <{BAD}> [RANGE 1000d SLIDE 1ms] {{ ?a <urn:k> ?n }} }}",
        range(0, 39_970_001, 39_970_000),
    ),
    "matches": Case(f"SELECT ?a ?b ?c WHERE {{ {MATCHES} }}", range(400)),
    "same-stream": Case(f"SELECT ?a ?b ?c WHERE {{ {MATCHES} }}", range(400), stream=BAD),
    "evaluation": Case(JOIN, range(300), together=True),
    "recomputed": Case(RECOMPUTED, range(300), together=True),
    "replay": Case(JOIN, range(300), replayed=True),
    "derived": Case(f"CONSTRUCT {{ ?a <urn:with> ?c }} WHERE {{ {MATCHES} }}", range(400)),
}


class Probe:
    """Pushes for the quick query and reads its events. Use as a context."""

    def __init__(self, port: int, stream: str) -> None:
        self._path = f"/streams?iri={stream}&at="
        self.at = 1_000_000
        self._pushes = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self._events = socket.create_connection(("127.0.0.1", port), timeout=120)
        self._events.sendall(
            b"GET /queries/quick/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
        )
        self._left = b""

    def close(self) -> None:
        """Close both connections."""
        self._pushes.close()
        self._events.close()

    def measure(self, seconds: float) -> list[float]:
        """Milliseconds from each push to its event, sorted."""
        # The server closes a connection that was silent for long.
        self._pushes.close()
        self._pushes.connect()
        self._pushes.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        found, until = [], time.monotonic() + seconds
        while time.monotonic() < until:
            self.at += 1
            name = f"urn:probe:{self.at}"
            began = time.monotonic()
            self._pushes.request(
                "POST", f"{self._path}{self.at}", f"<{name}> <urn:probe> 1 .", {"Content-Type": "text/turtle"}
            )
            answer = self._pushes.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(f"a push was answered {answer.status}")
            while name.encode() not in self._left:
                self._left += self._events.recv(1 << 16)
            self._left = b""
            found.append((time.monotonic() - began) * 1000)
            time.sleep(0.01)
        return sorted(found)


def slow(port: int, case: Case) -> None:
    """Register the slow query and push its elements."""
    register(port, "slow", case.query)
    if case.query.startswith("CONSTRUCT"):
        derived = json.loads(ask(port, "GET", "/queries/slow"))["result_stream"]
        text = f"SELECT ?a WHERE {{ STREAM <{derived}> [RANGE 1s] {{ ?a <urn:with> ?c }} }}"
        register(port, "reader", text)
    lines = [f"<urn:a{number}> <urn:k> 1 ." for number in range(len(case.at))]
    if case.together:
        lines = ["\n".join(lines)]
    for line, at in zip(lines, case.at, strict=False):
        ask(port, "POST", f"/streams?iri={BAD}&at={START + at}", line, "text/turtle")
    if case.replayed:
        while is_busy(port):
            time.sleep(0.1)
        # Answered when it is done, or given up.
        thread = threading.Thread(target=replay, args=(port,), daemon=True)
        thread.start()
        time.sleep(0.5)


def replay(port: int) -> None:
    """Replay the slow query; the server may be stopped before it has answered."""
    with contextlib.suppress(OSError, http.client.HTTPException):
        ask(port, "POST", f"/queries/slow/replay?from={START}")


def register(port: int, name: str, query: str) -> None:
    """Register a query."""
    body = json.dumps({"query": query})
    ask(port, "PUT", f"/queries/{name}", body, "application/json")


def is_busy(port: int) -> bool:
    """True while the slow query has not done everything."""
    described = json.loads(ask(port, "GET", "/queries/slow"))
    if described["state"] == "failed":
        raise OSError(described["error"])
    return described["backlog"] is not None


@contextlib.contextmanager
def probe_of(port: int, case: Case) -> Iterator[Probe]:
    """The quick query of a case, and what measures it."""
    register(port, "quick", f"SELECT ?a WHERE {{ STREAM <{case.stream}> [NOW] {{ ?a <urn:probe> ?n }} }}")
    probe = Probe(port, case.stream)
    try:
        yield probe
    finally:
        probe.close()


def measure(name: str, case: Case, seconds: float) -> list[object]:
    """The line of the table for a case, each with a server of its own."""
    with tempfile.TemporaryDirectory() as folder, server(folder, **LIMITS) as (port, _):
        with probe_of(port, case) as probe:
            probe.measure(1.0)
            alone = probe.measure(seconds)
            slow(port, case)
            probe.at = 3_000_000
            beside = probe.measure(seconds)
            busy = is_busy(port)
    return [
        name, round(percentile(alone, 0.5), 1), round(percentile(alone, 0.99), 1),
        round(percentile(beside, 0.5), 1), round(percentile(beside, 0.99), 1), round(beside[-1], 1),
        round(percentile(beside, 0.99) / percentile(alone, 0.99), 1), "yes" if busy else "no",
    ]  # fmt: skip


def main() -> None:
    """Measure all cases, or one."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--case", choices=CASES)
    given = parser.parse_args()
    table = []
    for name, case in CASES.items():
        if given.case in (None, name):
            line = measure(name, case, given.seconds)
            print(dict(zip(COLUMNS, line, strict=True)), flush=True)
            table.append(line)
    if given.case is None:
        keep("fairness", {"columns": COLUMNS, "lines": table})


if __name__ == "__main__":
    main()
