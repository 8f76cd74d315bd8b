"""``python -m benchmarks.latency [SECONDS]``: from the beginning of a push to its event at a subscriber.

A server process with a data folder (`input_sync` interval, the default) has one stream and one query. Clients
in this process push one element per request over connections that stay open, at fixed rates that do not wait
for answers; another process is the subscriber and notes when each event has arrived. First the rate that the
server can take at most is measured, then latencies at parts of it. Server, clients and subscriber share the
machine.
"""

from __future__ import annotations

import http.client
import json
import os
import queue
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from .results import keep

QUERY = "PREFIX : <http://example.org/> SELECT ?x ?v WHERE { STREAM :s [NOW] { ?x :sent ?v } }"
CONNECTIONS = 8


@contextmanager
def server(folder: str, *, prelude: str = "", **settings: str) -> Iterator[tuple[int, int]]:
    """A server process; its port and number. ``prelude`` is what it does first, as Python."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-c", prelude + "\nfrom quadrill.app.cli import main; main()"]
    child = subprocess.Popen(
        [*command, "serve", "--data", folder, "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                ask(port, "GET", "/health/ready")
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
        yield port, child.pid
    finally:
        child.terminate()
        child.wait(30)


def ask(port: int, method: str, path: str, body: str | None = None, media_type: str = "") -> bytes:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body, {"Content-Type": media_type} if media_type else {})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise OSError(f"{method} {path}: {answer.status} {text!r}")
        return text
    finally:
        connection.close()


class Pushers:
    """Connections that push what is put in the queue: (name of the element, event to set, list for times)."""

    def __init__(self, port: int, number: int) -> None:
        self._port = port
        self.waiting: queue.Queue[tuple[str, float] | None] = queue.Queue()
        self.answered: list[float] = []
        self._threads = [threading.Thread(target=self._run) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    def _run(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        connection.connect()
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (item := self.waiting.get()) is not None:
            name, due = item
            body = f"<http://example.org/{name}> <http://example.org/sent> {time.time():.6f} ."
            connection.request("POST", "/streams/s", body, {"Content-Type": "text/turtle"})
            answer = connection.getresponse()
            answer.read()
            if answer.status != 200:
                raise OSError(answer.status)
            self.answered.append(time.monotonic() - due)
        connection.close()

    def end(self) -> None:
        """Wait until all is pushed."""
        for _ in self._threads:
            self.waiting.put(None)
        for thread in self._threads:
            thread.join()


def subscriber(port: int) -> None:
    """Another process: prints the milliseconds from the time in each event to its arrival."""
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(b"GET /queries/q/results HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
    arrived: list[tuple[float, bytes]] = []

    def read() -> None:
        left = b""
        while piece := sock.recv(1 << 16):
            now = time.time()
            *frames, left = (left + piece).split(b"\n\n")
            arrived.extend((now, frame) for frame in frames)

    threading.Thread(target=read, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        wanted = int(line)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            found = [
                (now - float(row["v"]["value"])) * 1000
                for now, frame in list(arrived)
                for data in frame.split(b"\n")
                if data.startswith(b"data: {") and b'"results"' in data
                for row in json.loads(data[6:])["results"]["bindings"]
            ]
            if len(found) >= wanted:
                break
            time.sleep(0.05)
        arrived.clear()
        print(json.dumps(sorted(found)), flush=True)


def percentile(values: list[float], part: float) -> float:
    """The value below which ``part`` of the sorted values are."""
    return values[min(len(values) - 1, int(len(values) * part))]


def most(port: int, seconds: float) -> float:
    """Pushes a second that the server answers when every connection pushes as fast as it can."""
    pushers = Pushers(port, CONNECTIONS)
    began = time.monotonic()
    for number in range(200_000):
        pushers.waiting.put((f"m{number}", began))
    time.sleep(seconds)
    rate = len(pushers.answered) / (time.monotonic() - began)
    while not pushers.waiting.empty():
        try:
            pushers.waiting.get_nowait()
        except queue.Empty:
            break
    pushers.end()
    return rate


def measure(port: int, pid: int, rate: float, seconds: float) -> tuple[list[object], dict[str, float]]:
    """Push at a rate and print what the subscriber saw; the line of the table, and stages."""
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.latency", "subscriber", str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdout.readline()
    time.sleep(0.5)
    before, earlier = cpu_seconds(pid), stages(port)
    pushers = Pushers(port, CONNECTIONS)
    began = time.monotonic()
    total = int(rate * seconds)
    for number in range(total):
        due = began + number / rate
        if (left := due - time.monotonic()) > 0:
            time.sleep(left)
        pushers.waiting.put((f"x{number}", time.monotonic()))
    pushers.end()
    child.stdin.write(f"{total}\n")
    child.stdin.flush()
    found = json.loads(child.stdout.readline())
    child.stdin.close()
    child.terminate()
    child.wait()
    cpu = cpu_seconds(pid) - before
    time.sleep(1.5)
    split = {name: within_ms(counts, earlier.get(name)) for name, counts in stages(port).items()}
    answers = sorted(value * 1000 for value in pushers.answered)
    line = [
        round(rate), round(percentile(found, 0.5), 1), round(percentile(found, 0.99), 1),
        round(percentile(answers, 0.5), 1), round(percentile(answers, 0.99), 1), f"{cpu / seconds:.0%}",
    ]  # fmt: skip
    print(
        f"{rate:7.0f}/s  {len(found):6d} of {total:6d}  push->event p50 {percentile(found, 0.5):6.1f} "
        f"p99 {percentile(found, 0.99):6.1f} max {found[-1]:6.1f} ms   push->answer p50 "
        f"{percentile(answers, 0.5):6.1f} p99 {percentile(answers, 0.99):6.1f} ms   "
        f"server CPU {cpu / seconds:.0%}\n"
        f"{'':10}99 % within ms: " + ", ".join(f"{name} {value:g}" for name, value in split.items()),
        flush=True,
    )
    return line, split


Buckets = dict[float, float]
"""How often something took at most so many seconds."""


def stages(port: int) -> dict[str, Buckets]:
    """The way of an input by stage, from the server's metrics."""
    begin = 'quadrill_stage_seconds_bucket{le="'
    found: dict[str, Buckets] = {}
    for line in ask(port, "GET", "/metrics").decode().splitlines():
        if line.startswith(begin):
            bound, _, rest = line[len(begin) :].partition('"')
            stage = rest.partition('stage="')[2].partition('"')[0]
            found.setdefault(stage, {})[float(bound)] = float(line.rpartition(" ")[2])
    return found


def within_ms(counts: Buckets, before: Buckets | None = None) -> float:
    """The least bound in milliseconds within which 99 % were, of those since ``before``."""
    since = {bound: count - (before or {}).get(bound, 0.0) for bound, count in counts.items()}
    return min(bound for bound, count in since.items() if count >= 0.99 * max(since.values())) * 1000


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def real_time() -> bool:
    """True when this was started in a real-time class (``chrt -r``): other work then hardly disturbs it."""
    return hasattr(os, "sched_getscheduler") and os.sched_getscheduler(0) != os.SCHED_OTHER


def main(arguments: list[str]) -> None:
    """The table."""
    if arguments and arguments[0] == "subscriber":
        return subscriber(int(arguments[1]))
    seconds = float(arguments[0]) if arguments else 10.0
    with tempfile.TemporaryDirectory() as folder, server(folder) as (port, pid):
        ask(port, "PUT", "/streams/s", json.dumps({"iri": "http://example.org/s"}), "application/json")
        ask(port, "PUT", "/queries/q", json.dumps({"query": QUERY}), "application/json")
        top = most(port, min(5.0, seconds))
        print(f"load {os.getloadavg()[0]:.1f}; at most {top:.0f} pushes/s over {CONNECTIONS} connections")
        found = [measure(port, pid, top * part, seconds) for part in (0.1, 0.25, 0.5, 0.75)]
    figures = {
        "most": round(top),
        "connections": CONNECTIONS,
        "lines": [line for line, _ in found],
        # At half load.
        "stages": found[2][1],
    }
    keep("latency", figures | {"real_time": real_time()})


if __name__ == "__main__":
    main(sys.argv[1:])
