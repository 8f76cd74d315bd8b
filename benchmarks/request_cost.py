"""CPU time of a server for one request, case by case; `benchmarks.ratios` compares two versions by it.

A server is the command of an environment in which a version is installed. The figure is the CPU time of the
server's processes divided by the number of answers, in microseconds.
"""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

LONGEST_START = 120.0
"""Seconds after which a server that is not ready counts as failed."""
_TICKS = os.sysconf("SC_CLK_TCK")
_QUERY = (
    "SELECT ?x ?v FROM NAMED WINDOW <w> ON <urn:s> [RANGE PT10S STEP PT10S] "
    "WHERE { WINDOW <w> { ?x <urn:v> ?v } }"
)


@dataclass(frozen=True)
class Case:
    """A request that is sent again and again. ``ends`` says that each needs a connection of its own."""

    name: str
    method: str
    target: str
    media_type: str = ""
    body: bytes = b""
    accept: str = ""
    ends: bool = False

    def message(self, number: int) -> bytes:
        """The bytes of one request; ``{n}`` in the body is its number."""
        body = self.body.replace(b"{n}", str(number).encode())
        lines = [f"{self.method} {self.target} HTTP/1.1", "Host: 127.0.0.1"]
        lines += [f"Content-Type: {self.media_type}"] if self.media_type else []
        lines += [f"Accept: {self.accept}"] if self.accept else []
        lines += [f"Content-Length: {len(body)}"] if body else []
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


CASES = (
    Case("GET /health/live", "GET", "/health/live"),
    Case("GET /jobs", "GET", "/jobs"),
    Case("GET /queries/{name}", "GET", "/queries/q"),
    Case("PUT /store?graph=", "PUT", "/store?graph=urn:g", "text/turtle", b"<urn:a> <urn:b> {n} ."),
    Case("start of a feed", "GET", "/queries/q/results", accept="text/event-stream", ends=True),
    Case("push", "POST", "/streams/s", "application/n-quads", b'<urn:x> <urn:v> "{n}" .'),
    Case("look-up", "POST", "/query", "application/sparql-query", b"SELECT ?o { <urn:l{n}> <urn:b> ?o }"),
    Case("query", "POST", "/query", "application/sparql-query", b"SELECT ?o { <urn:l> <urn:b>/<urn:c> ?o }"),
    Case("update", "POST", "/update", "application/sparql-update", b"INSERT DATA { <urn:u> <urn:b> {n} }"),
    Case("registration", "PUT", "/queries/r?replace=true", "text/plain", _QUERY.encode()),
)


class Server:
    """A running server of one version."""

    def __init__(self, command: str, folder: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen(
            [command, "serve", "--data", folder, "--port", str(self.port)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def prepare(self) -> None:
        """Wait until it is ready; declare the stream and the query of the cases."""
        until = time.monotonic() + LONGEST_START
        while True:
            try:
                urllib.request.urlopen(f"{self.url}/health/ready").read()
                break
            except OSError:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise
                time.sleep(0.1)
        self.put("/streams/s", "application/json", b'{"iri": "urn:s"}')
        self.put("/queries/q", "text/plain", _QUERY.encode())

    def cpu_seconds(self) -> float:
        """CPU time of the server and of its children so far."""
        return sum(_cpu_seconds(number) for number in (self.process.pid, *_children(self.process.pid)))

    def put(self, path: str, media_type: str, body: bytes) -> None:
        """Send a PUT request; raise HTTPError if the server refuses it."""
        request = urllib.request.Request(self.url + path, body, {"Content-Type": media_type}, method="PUT")
        urllib.request.urlopen(request).read()


def _children(pid: int) -> list[int]:
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(each) for each in text.split()]


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def measure(server: Server, case: Case, clients: int, seconds: float) -> float:
    """Microseconds of CPU time a request."""
    until = time.monotonic() + seconds
    counts = [0] * clients

    def ask(client: int) -> None:
        connection = socket.create_connection(("127.0.0.1", server.port))
        while time.monotonic() < until:
            connection.sendall(case.message(counts[client] * clients + client))
            _read_answer(connection, head_only=case.ends)
            counts[client] += 1
            if case.ends:
                connection.close()
                connection = socket.create_connection(("127.0.0.1", server.port))
        connection.close()

    before = server.cpu_seconds()
    threads = [threading.Thread(target=ask, args=(client,)) for client in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (server.cpu_seconds() - before) * 1e6 / max(1, sum(counts))


def _read_answer(connection: socket.socket, *, head_only: bool) -> None:
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(1 << 16)
        if not piece:
            raise ConnectionError(data)
        data += piece
    head, _, body = data.partition(b"\r\n\r\n")
    if int(head[9:12]) >= 400:
        raise ValueError(data)
    if head_only:
        return
    length = next(
        (
            int(line.split(b":")[1])
            for line in head.split(b"\r\n")
            if line.lower().startswith(b"content-length")
        ),
        0,
    )
    while len(body) < length:
        body += connection.recv(1 << 16)
