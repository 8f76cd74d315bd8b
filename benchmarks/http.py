"""Requests a second through HTTP, beside ``oxigraph serve`` on the same data, in one run.

Run: ``python -m benchmarks.http [--oxigraph PATH] [--quads N] [--rounds N]``. The program ``oxigraph`` comes
with the package of that name. One client, one connection kept open per server, servers in turn; printed are
the medians over the rounds, and ratios to ``oxigraph serve``. The servers compared:

    quadrill          as delivered: on disk, every update synced to it
    not durable       without that sync; Oxigraph does not sync either
    no lanes          everything in the server process: what being able to kill queries costs small ones
"""

from __future__ import annotations

import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

BASE = "oxigraph serve"
SPARQL, UPDATE, JSON = (
    "application/sparql-query",
    "application/sparql-update",
    "application/sparql-results+json",
)
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


# name, work, requests per round
WORK: tuple[tuple[str, Work, int], ...] = (
    ("lookup", lookup, 400),
    ("join of two", join, 400),
    ("insert one", insert, 200),
    ("modify one", modify, 200),
    ("all quads as JSON", large, 1),
)


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


@contextmanager
def quadrill(folder: Path, **settings: str) -> Iterator[str]:
    environment = os.environ | {f"QUADRILL_{name.upper()}": value for name, value in settings.items()}
    command = [sys.executable, "-m", "quadrill.app.cli", "serve", "--data", str(folder), "--port", "0"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


@contextmanager
def oxigraph(program: str, folder: Path) -> Iterator[str]:
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
            yield f"http://127.0.0.1:{port}/"
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
    options = parser.parse_args()
    with ExitStack() as stack:
        root = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        servers = {
            "quadrill": stack.enter_context(quadrill(root / "a")),
            "not durable": stack.enter_context(quadrill(root / "b", durable="false")),
            "no lanes": stack.enter_context(quadrill(root / "c", workers="0")),
        }
        if options.oxigraph:
            servers[BASE] = stack.enter_context(oxigraph(options.oxigraph, root / "d"))
        clients = {name: Client(url) for name, url in servers.items()}
        body = data(options.quads)
        for client in clients.values():
            client.post("/store?default", body, "application/n-triples", method="PUT")
        table = measure(clients, options.rounds)
    show(table, list(clients))


def measure(clients: dict[str, Client], rounds: int) -> dict[str, dict[str, float]]:
    """Milliseconds of the median request, by work and server."""
    found: dict[str, dict[str, list[float]]] = {name: {each: [] for each in clients} for name, _w, _n in WORK}
    number = 0
    for turn in range(rounds + 1):
        for name, work, requests in WORK:
            for server, client in clients.items():
                began = time.perf_counter()
                for each in range(requests):
                    work(client, number + each)
                if turn:  # the first round warms up
                    found[name][server].append((time.perf_counter() - began) / requests * 1e3)
            number += requests
    return {
        name: {server: statistics.median(times) for server, times in by_server.items()}
        for name, by_server in found.items()
    }


def show(table: dict[str, dict[str, float]], servers: list[str]) -> None:
    print(f"{'':20}" + "".join(f"{server:>26}" for server in servers))
    for name, times in table.items():
        base = times.get(BASE)
        cells = [
            f"{1e3 / times[server]:10.1f}/s" + (f" {base / times[server]:6.2f} x" if base else "")
            for server in servers
        ]
        print(f"{name:20}" + "".join(f"{cell:>26}" for cell in cells))


if __name__ == "__main__":
    main()
