"""A long steady run against a real server: memory, files and latency have to stay flat.

Run: ``make soak``, or ``python -m benchmarks.soak [--minutes 30] [--pushes 10] [--elements 20] [--seed N]
[--keep FILE]``. Needs the extra ``bench``. The load, all of it random from ``--seed``:

    pushes          so many a second to three streams, arrival-stamped, with new IRIs all the time
    probe           five pushes a second with the time of sending; a subscriber that stays tells their age
    commits         one update a second over a bounded set of subjects
    registrations   a query comes and the oldest goes, every five seconds; one is paused, resumed, replayed
    clients         an event stream is opened, resumed from its last id and left, twice a second

Every ten seconds one line: resident memory, threads, open files, files and bytes in the data folder, push to
event p50 and p99 of the interval, load of the machine. At the end the second half is compared with the
first, the points go to a file with ``--keep``, and the plot to ``docs/plots/soak.svg``. Fails when a request
got an answer it should not get, an id came twice or was skipped, or memory or files grew.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TEXT, JSON, TRIPLES = "text/plain", "application/json", "application/n-triples"
E = "http://example.org/"
STREAMS = ("a", "b", "c")
PROBE = f"SELECT ?sent WHERE {{ STREAM <{E}probe> [NOW] {{ ?x <{E}sent> ?sent }} }}"
QUERIES = (
    f"SELECT ?x ?v WHERE {{ STREAM <{E}a> [RANGE 10s] {{ ?x <{E}value> ?v }} FILTER(?v > 90) }}",
    f"SELECT (COUNT(*) AS ?n) WHERE {{ STREAM <{E}b> [RANGE 30s SLIDE 5s] {{ ?x <{E}value> ?v }} }}",
    f"SELECT ?k (AVG(?v) AS ?m) WHERE {{ STREAM <{E}c> [RANGE 20s SLIDE 2s] {{ ?x <{E}value> ?v . "
    f"?x <{E}kind> ?k }} }} GROUP BY ?k",
    f"SELECT ?k ?n ?v WHERE {{ STREAM <{E}a> [RANGE 5s] {{ ?x <{E}kind> ?k . ?x <{E}value> ?v }} "
    f"?k <{E}name> ?n FILTER(?v > 95) }}",
    f"SELECT ?x ?y WHERE {{ STREAM <{E}a> [NOW] {{ ?x <{E}kind> ?k }} "
    f"STREAM <{E}b> [RANGE 2s] {{ ?y <{E}kind> ?k . ?y <{E}value> ?v }} FILTER(?v > 97) }}",
    f"SELECT ?x WHERE {{ STREAM <{E}c> [TRIPLES 50] {{ ?x <{E}value> ?v }} FILTER(?v < 3) }}",
)


# Bounds that are reached within minutes, so that what grows after them grows for ever.
BOUNDS = {"retention": "2m", "input_log_bytes": str(32 << 20), "feed_history": "500"}


class SoakError(Exception):
    """The server did something that it must not do."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at the server. Memory and bytes are MB, latencies ms over the interval."""

    minutes: float
    memory: float
    threads: int
    open_files: int
    files: int
    megabytes: float
    p50: float
    p99: float
    load: float


class Client:
    """One connection that is kept open."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._socket: socket.socket | None = None
        self._connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=60)

    def call(
        self, method: str, path: str, body: bytes = b"", media_type: str = JSON, allowed: Sequence[int] = ()
    ) -> bytes:
        """The answer's body.

        Raises:
            SoakError: its status is neither a success nor allowed.
        """
        self._connection.request(method, path, body, {"Content-Type": media_type})
        answer = self._connection.getresponse()
        data = answer.read()
        if not (200 <= answer.status < 300 or answer.status in allowed):
            raise SoakError(f"{method} {path}: {answer.status} {data[:300]!r}")
        return data

    def events(self, path: str, after: int | None) -> Iterator[tuple[str, int | None, str]]:
        """Kind, id and data of the events of a feed, until it ends or the connection is closed."""
        headers = {"Accept": "text/event-stream"}
        if after is not None:
            headers["Last-Event-ID"] = str(after)
        self._connection.request("GET", path, headers=headers)
        # The answer takes the socket over; leaving needs it still.
        self._socket = self._connection.sock
        answer = self._connection.getresponse()
        if answer.status in (204, 404):
            return
        if answer.status != 200:
            raise SoakError(f"GET {path}: {answer.status}")
        found: dict[str, str] = {}
        while line := answer.readline():
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                found[name] = value
            elif "event" in found:
                number = found.get("id")
                yield found["event"], None if number is None else int(number), found.get("data", "")
                found = {}

    def close(self) -> None:
        """Leave, also while another thread reads."""
        if self._socket is not None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._connection.close()


class Load:
    """What is done to the server; each method is a thread of its own until `stop`."""

    def __init__(self, url: str, options: argparse.Namespace) -> None:
        self.url, self.options = url, options
        self.stopping = threading.Event()
        self.failures: list[BaseException] = []
        self.done: Counter[str] = Counter()
        self.ages: deque[float] = deque()
        self.names: deque[str] = deque()
        self._seed = options.seed

    def start(self) -> list[threading.Thread]:
        """Begin."""
        client = Client(self.url)
        body = json.dumps({"query": PROBE, "name": "probe"}).encode()
        client.call("POST", "/queries", body)
        works = (self.listen, self.probe, self.commit, self.register, self.subscribe, self.push)
        threads = [threading.Thread(target=self._run, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        return threads

    def _run(self, work: Callable[[Client, random.Random], None]) -> None:
        self._seed += 1
        try:
            work(Client(self.url), random.Random(self._seed))
        except BaseException as failure:
            if not self.stopping.is_set():
                self.failures.append(failure)
                self.stopping.set()

    def _every(self, seconds: float) -> Iterator[int]:
        """Steady steps: what was late is caught up with."""
        began, number = time.monotonic(), 0
        while not self.stopping.wait(max(0.0, began + number * seconds - time.monotonic())):
            yield number
            number += 1

    def push(self, client: Client, chance: random.Random) -> None:
        """Elements with subjects that never come again."""
        for number in self._every(1 / self.options.pushes):
            lines = []
            for each in range(self.options.elements):
                subject = f"<{E}s{number}-{each}>"
                lines.append(f'{subject} <{E}value> "{chance.randrange(100)}"^^<{XSD_INTEGER}> .\n')
                lines.append(f"{subject} <{E}kind> <{E}k{chance.randrange(20)}> .\n")
            path = f"/streams?iri={E}{chance.choice(STREAMS)}"
            client.call("POST", path, "".join(lines).encode(), TRIPLES, allowed=(429,))
            self.done["subjects"] += self.options.elements

    def probe(self, client: Client, chance: random.Random) -> None:
        """One element with its time of sending."""
        for number in self._every(0.2):
            body = f'<{E}p{number}> <{E}sent> "{time.monotonic_ns()}" .\n'
            client.call("POST", f"/streams?iri={E}probe", body.encode(), TRIPLES, allowed=(429,))

    def listen(self, client: Client, chance: random.Random) -> None:
        """How old the probes are when they arrive; no id may be missing."""
        last = None
        for kind, number, data in client.events("/queries/probe/results", None):
            now = time.monotonic_ns()
            if self.stopping.is_set():
                return
            if number is not None:
                if last is not None and number != last + 1:
                    raise SoakError(f"the probe's feed gave {number} after {last}")
                last = number
            if kind == "insert":
                for row in json.loads(data)["results"]["bindings"]:
                    self.ages.append((now - int(row["sent"]["value"])) / 1e6)

    def commit(self, client: Client, chance: random.Random) -> None:
        """Names of a bounded set of things come and go."""
        for _ in self._every(1.0):
            kind, name = chance.randrange(20), chance.randrange(50)
            verb = chance.choice(("INSERT DATA", "INSERT DATA", "DELETE DATA"))
            text = f'{verb} {{ <{E}k{kind}> <{E}name> "name {name}" }}'
            client.call("POST", "/update", text.encode(), "application/sparql-update", allowed=(429,))
            self.done["commits"] += 1

    def register(self, client: Client, chance: random.Random) -> None:
        """Twelve queries at a time, each for a minute."""
        for number in self._every(5.0):
            name = f"q{number}"
            body = json.dumps({"query": chance.choice(QUERIES), "name": name}).encode()
            client.call("POST", "/queries", body)
            self.names.append(name)
            self.done["registrations"] += 1
            if len(self.names) > 12:
                client.call("DELETE", f"/queries/{self.names.popleft()}")
            chosen = chance.choice(list(self.names))
            if number % 6 == 1:
                client.call("PATCH", f"/queries/{chosen}", b'{"state": "paused"}')
                client.call("PATCH", f"/queries/{chosen}", b'{"state": "running"}')
            elif number % 12 == 3:
                start = int(time.time() * 1000) - 10_000
                client.call("POST", f"/queries/{chosen}/replay?from={start}")
                self.done["replays"] += 1

    def subscribe(self, client: Client, chance: random.Random) -> None:
        """Event streams that are opened, left and resumed; ids grow by one unless there is a reset."""
        last: dict[str, int] = {}
        for _ in self._every(0.5):
            names = list(self.names)
            if not names:
                continue
            name = chance.choice(names)
            last = {each: number for each, number in last.items() if each in names}
            visitor = Client(self.url)
            threading.Timer(chance.uniform(0.2, 2.0), visitor.close).start()
            try:
                for kind, number, _ in visitor.events(f"/queries/{name}/results", last.get(name)):
                    if kind == "reset":
                        last.pop(name, None)
                    elif number is not None:
                        if name in last and number != last[name] + 1:
                            raise SoakError(f"the feed of {name} gave {number} after {last[name]}")
                        last[name] = number
            except (OSError, ValueError, AttributeError, http.client.HTTPException):
                pass  # closed by the timer in the middle of something
            self.done["event streams"] += 1


_AS_WRITTEN = argparse.RawDescriptionHelpFormatter
XSD_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"


def look(process: int, folder: Path, ages: deque[float], began: float) -> Sample:
    """The server of this moment with its processes, and the latencies since the last look."""
    family = [process, *_children(process)]
    status = [Path(f"/proc/{each}/status").read_text(encoding="ascii") for each in family]
    figures = [dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line) for text in status]
    found = [ages.popleft() for _ in range(len(ages))]
    files = [path for path in folder.rglob("*") if path.is_file()]
    return Sample(
        minutes=round((time.monotonic() - began) / 60, 3),
        memory=round(sum(int(each["VmRSS"].split()[0]) for each in figures) / 1024, 1),
        threads=sum(int(each["Threads"]) for each in figures),
        open_files=sum(len(os.listdir(f"/proc/{each}/fd")) for each in family),
        files=len(files),
        megabytes=round(sum(_size(path) for path in files) / 1e6, 2),
        p50=round(statistics.median(found), 2) if found else float("nan"),
        p99=round(sorted(found)[int(len(found) * 0.99)], 2) if found else float("nan"),
        load=round(os.getloadavg()[0], 2),
    )


def _children(process: int) -> list[int]:
    """The processes that the server has started: the writer of event streams, workers."""
    tasks = Path(f"/proc/{process}/task").glob("*/children")
    return [int(each) for task in tasks for each in task.read_text(encoding="ascii").split()]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:  # forgotten in the meantime
        return 0


@contextmanager
def server(folder: Path, bounds: Mapping[str, str] = BOUNDS) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A server of its own process over a data folder: its address and the process."""
    command = [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", str(folder), "--port", "0"]
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in bounds.items()}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        if "ready at " not in line:
            raise SoakError(f"the server did not start: {line!r}")
        yield line.split("ready at ")[1].strip(), process
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(60)


def run(options: argparse.Namespace) -> tuple[list[Sample], Load]:
    """Load a server for so long and look at it every ten seconds."""
    folder = Path(tempfile.mkdtemp(prefix="quadrill-soak-"))
    samples: list[Sample] = []
    try:
        with server(folder / "data") as (url, process):
            load = Load(url, options)
            began = time.monotonic()
            threads = load.start()
            print("  ".join(f"{name:>10}" for name in Sample.__dataclass_fields__), flush=True)
            while not load.stopping.wait(options.every):
                samples.append(look(process.pid, folder, load.ages, began))
                print("  ".join(f"{value:>10}" for value in asdict(samples[-1]).values()), flush=True)
                if time.monotonic() - began >= options.minutes * 60:
                    load.stopping.set()
            for thread in threads:
                thread.join(5)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return samples, load


def grown(samples: Sequence[Sample], warm_minutes: float) -> list[str]:
    """What the last third has more of than the middle one, without the time before ``warm_minutes``."""
    steady = [sample for sample in samples if sample.minutes >= warm_minutes]
    third = len(steady) // 3
    if third < 3:
        return []
    found = []
    for name, allowed in (("memory", 1.10), ("open_files", 1.25), ("files", 1.25), ("threads", 1.25)):
        middle = statistics.median(getattr(sample, name) for sample in steady[third : 2 * third])
        end = statistics.median(getattr(sample, name) for sample in steady[2 * third :])
        print(f"{name}: {middle:g} in the middle third, {end:g} in the last")
        if end > middle * allowed:
            found.append(f"{name} grew from {middle:g} to {end:g}")
    return found


def plot(samples: Sequence[Sample], minutes: float) -> Path:
    """The plot of the documentation."""
    from .plots import line_plot

    lines: dict[str, Callable[[Sample], float]] = {
        "resident memory (MB)": lambda sample: sample.memory,
        "data folder (MB)": lambda sample: sample.megabytes,
        "open files": lambda sample: sample.open_files,
        "files in the data folder": lambda sample: sample.files,
        "push to event, p99 (ms)": lambda sample: sample.p99,
        "push to event, p50 (ms)": lambda sample: sample.p50,
    }
    series = {
        label: [(sample.minutes, value) for sample in samples if (value := figure(sample)) > 0]
        for label, figure in lines.items()
    }
    title = f"A server under steady load for {minutes:g} minutes"
    return line_plot("soak", series, title=title, x="minutes", y="", log_y=True)


def main(arguments: list[str] | None = None) -> int:
    """Soak, tell, draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_AS_WRITTEN)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--pushes", type=float, default=10.0, help="a second")
    parser.add_argument("--elements", type=int, default=20, help="subjects in a push, each with two triples")
    parser.add_argument("--every", type=float, default=10.0, help="seconds between two looks")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep", type=Path, help="write the points there as JSON")
    parser.add_argument("--no-plot", action="store_true")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}; {os.cpu_count()} cores", flush=True)
    samples, load = run(options)
    print(", ".join(f"{number} {name}" for name, number in sorted(load.done.items())))
    if options.keep is not None:
        document: dict[str, Any] = {"done": dict(load.done), "samples": [asdict(each) for each in samples]}
        options.keep.write_text(json.dumps(document), encoding="utf-8")
    problems = [f"{type(failure).__name__}: {failure}" for failure in load.failures]
    problems += grown(samples, min(5.0, options.minutes / 6))
    for problem in problems:
        print(f"FAILED: {problem}")
    if not problems and not options.no_plot:
        print(f"drawn: {plot(samples, options.minutes)}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
