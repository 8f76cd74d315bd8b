"""The short soak's load: pushes, probes, updates, registrations and event streams, random from one seed."""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import random
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlsplit

TEXT, JSON, TRIPLES = "text/plain", "application/json", "application/n-triples"
XSD_INTEGER = "http://www.w3.org/2001/XMLSchema#integer"
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


class SoakError(Exception):
    """The server did something that it must not do."""


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
        return [self._thread(work) for work in self.works()]

    def works(self) -> list[Callable[[Client, random.Random], None]]:
        """What runs until `stop`, each in a thread of its own with a connection."""
        return [self.listen, self.probe, self.commit, self.register, self.subscribe, self.push]

    def _thread(self, work: Callable[[Client, random.Random], None]) -> threading.Thread:
        thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        thread.start()
        return thread

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
