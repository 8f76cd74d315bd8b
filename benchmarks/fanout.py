"""``python -m benchmarks.fanout [SUBSCRIBERS] [SECONDS]``: one feed, many subscribers, engine idle and busy.

A server process has a stream on which an element arrives every 20 ms, and a query whose feed all the
subscribers read. Busy means that a thread of the server computes without a pause, as the engine's does under
load: what is measured is what that does to event streams, not the wait for the engine. Another process holds
the subscribers' connections; every tenth notes when its events arrive. Printed are

    delivered   how many of the events have arrived
    event       from the beginning of the push to the arrival at a subscriber
    fan-out     from the result to its last byte in the last subscriber's socket: 99 % took no longer

once with the process that writes event streams, once with a thread of the server in its place. Server,
subscribers and pushers share the machine.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import subprocess
import sys
import tempfile
import time

from .latency import Pushers, ask, cpu_seconds, percentile, real_time, server, stages, within_ms
from .results import keep

QUERY = "PREFIX : <http://example.org/> SELECT ?x ?v WHERE { STREAM :s [NOW] { ?x :sent ?v } }"
RATE = 50
THREAD = "from quadrill.app.feeds import fanout; fanout.PROCESSES = False; "
BUSY = """
import threading
def compute():
    while True:
        sum(range(1000))
threading.Thread(target=compute, daemon=True).start()
"""
_VALUE = b'"v":{"type":"literal","value":"'


def subscribers(port: int, number: int) -> None:
    """Another process: connects, says so, reads until its input ends, prints counts and latencies."""
    selector = selectors.DefaultSelector()
    request = b"GET /queries/q/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n"
    for place in range(number):
        sock = socket.create_connection(("127.0.0.1", port))
        sock.sendall(request)
        while b"retry" not in sock.recv(4096):
            pass
        sock.setblocking(False)
        selector.register(sock, selectors.EVENT_READ, place % 10 == 0)
    print("ready", flush=True)
    latencies: list[float] = []
    received = 0
    selector.register(sys.stdin, selectors.EVENT_READ)
    reading = True
    while reading:
        for key, _ in selector.select():
            if not isinstance(key.fileobj, socket.socket):
                reading = False
                continue
            data = key.fileobj.recv(1 << 16)
            received += data.count(b"\n\n")
            if key.data:
                now = time.time()
                for part in data.split(_VALUE)[1:]:
                    latencies.append((now - float(part[: part.index(b'"')])) * 1000)
    print(json.dumps({"received": received, "ms": sorted(latencies)}))


def run(number: int, seconds: float, *, busy: bool, thread: bool) -> list[object]:
    """One line of the table, printed."""
    prelude = THREAD * thread + BUSY * busy
    with tempfile.TemporaryDirectory() as folder, server(folder, prelude=prelude) as (port, pid):
        ask(port, "PUT", "/streams/s", json.dumps({"iri": "http://example.org/s"}), "application/json")
        ask(port, "PUT", "/queries/q", json.dumps({"query": QUERY}), "application/json")
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.fanout", "subscribers", str(port), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert child.stdin is not None and child.stdout is not None
        child.stdout.readline()
        pushers = Pushers(port, 4)
        cpu, began = cpu_seconds(pid), time.monotonic()
        pushed = 0
        while (due := pushed / RATE) < seconds:
            if (left := began + due - time.monotonic()) > 0:
                time.sleep(left)
            pushers.waiting.put((f"x{pushed}", time.monotonic()))
            pushed += 1
        pushers.end()
        took = time.monotonic() - began
        used = (cpu_seconds(pid) - cpu) / took
        time.sleep(2.0)
        child.stdin.close()
        found = json.loads(child.stdout.read())
        child.wait()
        values = found["ms"]
        print(
            f"{'thread ' if thread else 'process'}, engine {'busy' if busy else 'idle'}: "
            f"{found['received'] / (pushed * number):6.1%} of {pushed * number} delivered, "
            f"event p50 {percentile(values, 0.5):.0f} p99 {percentile(values, 0.99):.0f} ms, "
            f"fan-out {within_ms(stages(port)['deliver']):g} ms, server CPU {used:.0%}",
            flush=True,
        )
        return [
            f"{'thread' if thread else 'process'}, {'busy' if busy else 'idle'}",
            f"{found['received'] / (pushed * number):.0%}",
            round(percentile(values, 0.5)),
            round(percentile(values, 0.99)),
            f"{used:.0%}",
        ]


def main(arguments: list[str]) -> None:
    """The table."""
    if arguments and arguments[0] == "subscribers":
        return subscribers(int(arguments[1]), int(arguments[2]))
    number = int(arguments[0]) if arguments else 1_000
    seconds = float(arguments[1]) if len(arguments) > 1 else 10.0
    print(f"{number} subscribers, {RATE} events a second, load {os.getloadavg()[0]:.1f}")
    lines = [
        run(number, seconds, busy=busy, thread=thread) for busy in (False, True) for thread in (False, True)
    ]
    figures = {"subscribers": number, "rate": RATE, "lines": lines, "real_time": real_time()}
    keep("fanout", figures)


if __name__ == "__main__":
    main(sys.argv[1:])
