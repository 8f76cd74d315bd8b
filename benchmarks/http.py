"""Requests a second through HTTP, beside ``oxigraph serve`` on the same data, in one run.

Run: ``python -m benchmarks.http [--oxigraph PATH] [--quads N] [--rounds N] [--clients N] [--servers A,B]
[--work WORDS] [--before CHECKOUT]``.
The program ``oxigraph`` comes with the package of that name. Each client is a process with one connection per
server, kept open; servers in turn. Printed are requests a second in the best of the rounds, which other work
on the machine disturbs least, the ratio to ``oxigraph serve``, and the server's CPU time per request in µs,
over all rounds (worker processes are not counted). Pushes have one element or 1,000, each with its own time,
and a query reads them; they are shown beside the rate at which the disk syncs. The servers compared:

    quadrill          as delivered: on disk, every update and every push synced to it
    not durable       without that sync for updates; Oxigraph does not sync either
    no lanes          everything in the server process: what being able to kill queries costs small ones
    before            as delivered, by the code of another checkout
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

BASE = "oxigraph serve"
SPARQL, UPDATE, JSON = (
    "application/sparql-query",
    "application/sparql-update",
    "application/sparql-results+json",
)
NDJSON = "application/x-ndjson"
STREAM = "http://e/pushed"
PUSHES = f"/streams?iri={STREAM}"
QUERY = f"SELECT ?s ?v WHERE {{ STREAM <{STREAM}> [RANGE 1s] {{ ?s <http://e/value> ?v }} }}"
START_MS = 1_767_268_800_000
MANY = 1_000
Work = Callable[["Client", int], None]


class Client:
    """As little HTTP as possible, so that the client does not even the servers out."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._host = parts.netloc
        self._socket = socket.create_connection((parts.hostname, parts.port), timeout=300)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def post(self, path: str, body: bytes, media_type: str, accept: str = "*/*", method: str = "POST") -> int:
        """The size of the answer.

        Raises: RuntimeError when it is not a success.
        """
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Type: {media_type}\r\n"
            f"Accept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._socket.sendall(head.encode() + body)
        data = bytearray()
        while (end := data.find(b"\r\n\r\n")) < 0:
            data += self._more()
        header = bytes(data[:end]).lower()
        if not header.startswith(b"http/1.1 2"):
            raise RuntimeError(bytes(data[:500]).decode(errors="replace"))
        size = len(data) - end - 4
        if b"transfer-encoding: chunked" in header:
            tail = bytes(data[-5:])
            while tail != b"0\r\n\r\n":
                piece = self._more()
                size += len(piece)
                tail = (tail + piece)[-5:]
        elif b"content-length:" in header:
            length = int(header.split(b"content-length:")[1].split(b"\r\n")[0])
            while size < length:
                size += len(self._more())
        return size

    def _more(self) -> bytes:
        piece = self._socket.recv(1 << 18)
        if not piece:
            raise RuntimeError("the connection was closed")
        return piece

    def query(self, text: str) -> int:
        """Ask, and read the whole answer."""
        return self.post("/query", text.encode(), SPARQL, JSON)

    def update(self, text: str) -> int:
        """Update."""
        return self.post("/update", text.encode(), UPDATE)


def lookup(client: Client, number: int) -> None:
    client.query(f"SELECT ?o {{ <http://e/s{number % 5000}> <http://e/p> ?o }}")


def join(client: Client, number: int) -> None:
    client.query(f"SELECT ?a ?n {{ <http://e/s{number % 5000}> <http://e/next> ?a . ?a <http://e/name> ?n }}")


def insert(client: Client, number: int) -> None:
    client.update(f"INSERT DATA {{ <http://e/new{number}> <http://e/q> {number} }}")


def modify(client: Client, number: int) -> None:
    one = f"<http://e/s{number % 5000}> <http://e/value>"
    client.update(f"DELETE {{ {one} ?o }} INSERT {{ {one} ?n }} WHERE {{ {one} ?o BIND(?o + 1 AS ?n) }}")


def large(client: Client, number: int) -> None:
    assert client.query("SELECT ?s ?p ?o { ?s ?p ?o }") > 1_000_000


def push(client: Client, number: int) -> None:
    client.post(PUSHES, element(number), NDJSON)


def push_many(client: Client, number: int) -> None:
    client.post(PUSHES, b"".join(element(number * MANY + each) for each in range(MANY)), NDJSON)


def element(number: int) -> bytes:
    """A line of a push. Clients are not in step: half a minute of lateness keeps all elements in time."""
    at = START_MS + number
    return b'{"at":%d,"data":"<http://e/s%d> <http://e/value> \\"%d\\" ."}\n' % (
        at,
        number % 5000,
        number % 97,
    )


# name, work, requests per round; what is oxigraph's too
WORK: tuple[tuple[str, Work, int], ...] = (
    ("lookup", lookup, 1000),
    ("join of two", join, 1000),
    ("insert one", insert, 200),
    ("modify one", modify, 200),
    ("all quads as JSON", large, 1),
    ("push one", push, 400),
    ("push 1,000", push_many, 5),
)
OURS = ("push one", "push 1,000")


def data(quads: int) -> bytes:
    """Things with four properties each."""
    lines = []
    for n in range(quads // 4):
        thing = f"<http://e/s{n}>"
        lines += [
            f"{thing} <http://e/p> <http://e/o{n % 100}> .",
            f'{thing} <http://e/name> "thing number {n}" .',
            f"{thing} <http://e/next> <http://e/s{(n * 7 + 1) % (quads // 4)}> .",
            f'{thing} <http://e/value> "{n}"^^<http://www.w3.org/2001/XMLSchema#integer> .',
        ]
    return "\n".join(lines).encode() + b"\n"


@dataclass
class Server:
    """A server that runs: its address and its process."""

    url: str
    process: int

    def cpu_seconds(self) -> float:
        """Processor time so far, all threads."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def quadrill(folder: Path, checkout: str | None, **settings: str) -> Iterator[Server]:
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in settings.items()}
    if checkout is not None:
        environment["PYTHONPATH"] = f"{checkout}/.links:{checkout}"
    command = [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield Server(server.stdout.readline().split()[-1], server.pid)
        finally:
            server.terminate()


@contextmanager
def oxigraph(program: str, folder: Path) -> Iterator[Server]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [program, "serve", "--location", str(folder), "--bind", f"127.0.0.1:{port}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            for _ in range(200):
                with socket.socket() as probe:
                    if probe.connect_ex(("127.0.0.1", port)) == 0:
                        break
                time.sleep(0.05)
            yield Server(f"http://127.0.0.1:{port}/", server.pid)
        finally:
            server.terminate()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--oxigraph", default=shutil.which("oxigraph"), help="the program to compare with")
    parser.add_argument("--quads", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--servers", default="quadrill,not durable,no lanes", help="which of ours to compare")
    parser.add_argument("--work", default="", help="only work with one of these words in its name")
    parser.add_argument("--folder", help="where the data folders stand; by default that of temporary files")
    parser.add_argument("--before", help="another checkout, whose code serves as well")
    options = parser.parse_args()
    words = options.work.split(",")
    works = tuple(each for each in WORK if any(word in each[0] for word in words))
    ours: dict[str, dict[str, str]] = {
        "quadrill": {},
        "not durable": {"durable": "false"},
        "no lanes": {"workers": "0"},
    }
    with ExitStack() as stack:
        root = Path(
            stack.enter_context(tempfile.TemporaryDirectory(dir=options.folder, ignore_cleanup_errors=True))
        )
        servers = {
            name: stack.enter_context(quadrill(root / name.replace(" ", "-"), None, **ours[name]))
            for name in options.servers.split(",")
        }
        if options.before:
            servers["before"] = stack.enter_context(quadrill(root / "before", options.before))
        for server in servers.values():
            client = Client(server.url)
            client.post(f"/streams?iri={STREAM}", b'{"lateness": "30s"}', "application/json", method="PUT")
            client.post("/queries?name=pushed", QUERY.encode(), "text/plain")
        if options.oxigraph:
            servers[BASE] = stack.enter_context(oxigraph(options.oxigraph, root / "oxigraph"))
        body = data(options.quads)
        for server in servers.values():
            Client(server.url).post("/store?default", body, "application/n-triples", method="PUT")
        table = measure(servers, works, options.rounds, options.clients)
        syncs = syncs_a_second(root)
    show(table, list(servers))
    print(f"{'syncs of the disk':20}{syncs:18.1f}/s")


def syncs_a_second(folder: Path, seconds: float = 1.0) -> float:
    """How often 200 bytes can be written behind a file and synced."""
    with (folder / "synced").open("ab", buffering=0) as file:
        count, began = 0, time.perf_counter()
        while (passed := time.perf_counter() - began) < seconds:
            file.write(b"x" * 200)
            os.fdatasync(file.fileno())
            count += 1
    return count / passed


@dataclass
class Figures:
    """Of one kind of request on one server: seconds per request in the best round, and its CPU seconds."""

    best: float = float("inf")
    cpu: float = 0.0
    requests: int = 0


def measure(
    servers: dict[str, Server], works: tuple[tuple[str, Work, int], ...], rounds: int, clients: int
) -> dict[str, dict[str, Figures]]:
    """The figures by work and server; the first round warms up."""
    found = {name: {server: Figures() for server in servers} for name, _work, _requests in works}
    number = 0
    for task in range(rounds + 1):
        for name, work, requests in works:
            for server, running in servers.items():
                if server == BASE and name in OURS:
                    continue
                before = running.cpu_seconds()
                seconds = at_once(running.url, work, number, requests, clients).seconds
                figures = found[name][server]
                if task:
                    figures.best = min(figures.best, seconds / (requests * clients))
                    figures.cpu += running.cpu_seconds() - before
                    figures.requests += requests * clients
            number += requests * clients
    return found


class Asked(NamedTuple):
    """When clients began, by the performance counter, and how many seconds they took."""

    began: float
    seconds: float


def at_once(url: str, work: Work, number: int, requests: int, clients: int) -> Asked:
    """What so many clients take, each with its own requests and connection; they begin when all are there."""
    if clients == 1:
        return asked(Client(url), work, number, requests)
    fork = multiprocessing.get_context("fork")
    ready, gone = fork.Barrier(clients + 1), fork.Barrier(clients + 1)

    def one(first: int) -> None:
        client = Client(url)
        ready.wait()
        asked(client, work, first, requests)
        gone.wait()

    processes = [fork.Process(target=one, args=(number + each * requests,)) for each in range(clients)]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    gone.wait()
    seconds = time.perf_counter() - began
    for process in processes:
        process.join()
    return Asked(began, seconds)


def asked(client: Client, work: Work, number: int, requests: int) -> Asked:
    """What one client takes."""
    began = time.perf_counter()
    for each in range(requests):
        work(client, number + each)
    return Asked(began, time.perf_counter() - began)


def show(table: dict[str, dict[str, Figures]], servers: list[str]) -> None:
    print(f"{'':20}" + "".join(f"{server:>32}" for server in servers))
    for name, found in table.items():
        base = found.get(BASE)
        cells = []
        for server in servers:
            figures = found[server]
            if not figures.requests:
                cells.append("")
                continue
            ratio = f"{base.best / figures.best:6.2f} x" if base and base.requests else ""
            cells.append(f"{1 / figures.best:9.1f}/s{ratio} {figures.cpu / figures.requests * 1e6:9.0f} µs")
        print(f"{name:20}" + "".join(f"{cell:>32}" for cell in cells))


if __name__ == "__main__":
    main()
