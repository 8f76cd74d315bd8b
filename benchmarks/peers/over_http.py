"""The same over HTTP: small queries and updates beside ``oxigraph serve``, and events beside a polling loop.

Servers keep their data in folders; ours syncs every update and push to it, Oxigraph syncs nothing. Rates
are of wall clock. A client is a process with one connection that does as little HTTP as possible and waits
for each answer. An event of ours is pushed, and its row read by a subscriber in another process: the clock
stops when the last row has arrived. An event of the polling loop is an update, a query and its parsed answer.
"""

from __future__ import annotations

import json
import multiprocessing
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from benchmarks import http
from benchmarks.http import Client, Server

from .asking import Http, poll
from .rows import Row, of_json, verdict
from .workloads import ONE, STATIC_JOIN

OURS = "Quadrill"
PUSH = f"/streams?iri={quote(ONE, safe='')}"
SMALL = (
    ("look-up", http.lookup, 400),
    ("join of two patterns", http.join, 400),
    ("insert one quad", http.insert, 100),
    ("modify one quad", http.modify, 100),
)


class Line(NamedTuple):
    """Requests or events a second of one server, also of each turn, and whether the rows were right."""

    work: str
    clients: int
    server: str
    rate: float
    rows: str = ""
    tasks: tuple[float, ...] = ()


def small(servers: dict[str, Server], rounds: int, clients: tuple[int, ...] = (1, 8)) -> Iterator[Line]:
    """Small queries and updates: the best round of each, servers in turn, the first round not counted."""
    number = 0
    for many in clients:
        rates: dict[tuple[str, str], list[float]] = {}
        for task in range(rounds + 1):
            for name, work, requests in SMALL:
                for server, running in servers.items():
                    seconds = http.at_once(running.url, work, number, requests, many).seconds
                    if task:
                        rates.setdefault((name, server), []).append(requests * many / seconds)
                number += requests * many
        for (name, server), tasks in rates.items():
            yield Line(name, many, server, max(tasks), tasks=tuple(tasks))


def pushed(server: Server, clients: int, size: int, elements: int, rounds: int) -> Line:
    """Events of the join with static data through our server, every push durable: the median round."""
    lines = [_pushed(server, clients, size, elements) for _ in range(rounds)]
    found = sorted(lines, key=lambda each: each.rate)
    wrong = [each for each in found if each.rows != "equal"]
    return (wrong or found[(rounds - 1) // 2 :])[0]


def _pushed(server: Server, clients: int, size: int, elements: int) -> Line:
    lines = [each.line for each in STATIC_JOIN.elements(elements)]
    bodies = ["\n".join(lines[at : at + size]) for at in range(0, elements, size)]

    def push(client: Client, number: int) -> None:
        client.post(PUSH + "&each=triple", bodies[number % len(bodies)].encode(), "application/n-triples")

    with _subscriber(server, elements) as rows:
        began = http.at_once(server.url, push, 0, len(bodies) // clients, clients).began
        if not rows.poll(60):
            return Line("events", clients, f"{OURS}, {size:,} a push", 0.0, "wrong: rows are missing")
        ended, found = rows.recv()
    told = verdict(_expected(elements), [row for data in found for row in of_json(data)])
    return Line("events", clients, f"{OURS}, {size:,} a push", elements / (ended - began), told)


def _expected(elements: int) -> list[Row]:
    found: list[Row] = []
    for each in STATIC_JOIN.elements(elements):
        subject, _, value, _ = each.line.split(" ")
        sensor = subject[1:-1]
        room = f"http://example.org/room{int(sensor.rpartition('/s')[2]) % 100}"
        found.append((("r", room), ("s", sensor), ("v", value.split('"')[1])))
    return found


@contextmanager
def _subscriber(server: Server, wanted: int) -> Iterator[Connection]:
    """Another process that reads so many rows of the query; it tells when it had them all, and the events."""
    static = STATIC_JOIN.static_triples().encode()
    client = Client(server.url)
    client.post("/store?default", static, "application/n-triples")
    registration = json.dumps({"query": STATIC_JOIN.queries[0], "name": "events"})
    client.post("/queries", registration.encode(), "application/json")
    receiver, sender = multiprocessing.Pipe(duplex=False)
    fork = multiprocessing.get_context("fork")
    reading = fork.Event()
    process = fork.Process(target=_read, args=(server.url, wanted, sender, reading))
    process.start()
    reading.wait(30)
    try:
        yield receiver
    finally:
        process.terminate()
        process.join()
        Client(server.url).post("/queries/events", b"", "text/plain", method="DELETE")


def _read(url: str, wanted: int, sender: Connection, reading: multiprocessing.synchronize.Event) -> None:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = ("GET /queries/events/results HTTP/1.1", f"Host: {parts.netloc}", "Accept: text/event-stream")
        connection.sendall("\r\n".join([*head, "", ""]).encode())
        left, rows, events = b"", 0, []
        while rows < wanted and (piece := connection.recv(1 << 18)):
            reading.set()
            *frames, left = (left + piece).split(b"\n\n")
            for frame in frames:
                data = frame.rpartition(b"data: ")[2]
                if b'"results"' in data:
                    rows += data.count(b'"v":') or data.count(b'"v" :')
                    events.append(data)
    sender.send((time.perf_counter(), events))


def polled(name: str, server: Server, elements: int) -> Line:
    """Events of the same workload by a polling loop over a server, one client."""
    _, wall, rows = poll(STATIC_JOIN, Http(server.url), elements)
    begin = STATIC_JOIN.filling
    return Line(
        "events", 1, f"polling {name}", elements / wall, verdict(_expected(begin + elements)[begin:], rows)
    )


def measure(oxigraph: str | None, folder: Path, rounds: int, elements: int) -> Iterator[Line]:
    """All lines; without ``oxigraph``, the path of the program, only ours."""
    with ExitStack() as stack:
        servers = {OURS: stack.enter_context(http.quadrill(folder / "ours", None))}
        if oxigraph is not None:
            servers[http.BASE] = stack.enter_context(http.oxigraph(oxigraph, folder / "oxigraph"))
        for server in servers.values():
            Client(server.url).post(
                "/store?default", http.data(20_000), "application/n-triples", method="PUT"
            )
        yield from small(servers, rounds)
        for name, server in servers.items():
            yield polled(name, server, elements // 10)
        for clients, size in ((1, 1), (8, 1), (1, 1000), (8, 1000)):
            yield pushed(servers[OURS], clients, size, elements * (1 if size == 1 else 10), rounds)
