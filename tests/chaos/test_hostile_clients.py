"""Hostile clients of a real server process: others are answered meanwhile, and its memory stays bounded.

A probe asks `/health/live` and a small query over and over. Each attack goes on for some seconds beside it.
The memory of an attack is the growth of the peak of the server's resident memory (VmHWM), reset before it.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.program import Program

HOST = "Host: 127.0.0.1\r\n"
ANSWERED_SECONDS = 1.0
PRODUCT = "SELECT ?a ?b ?c { STREAM <urn:bad> [RANGE 1m] { ?a <urn:k> ?x . ?b <urn:k> ?x . ?c <urn:k> ?x } }"
STATIC = "".join(f"<urn:s{n}> <urn:p> <urn:o{n % 97}> .\n" for n in range(20_000))


@dataclass
class Victim:
    """A running server and what to do with it."""

    url: str
    pid: int

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.url.removeprefix("http://").strip("/").split(":")
        return host, int(port)

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=10)

    def send(self, path: str, body: bytes, media_type: str, **headers: str) -> int | None:
        """The status of a POST; None when the server closed before it had everything."""
        try:
            answer = httpx.post(
                self.url + path, content=body, headers={"Content-Type": media_type, **headers}, timeout=60
            )
        except httpx.TransportError:
            return None
        return answer.status_code

    def reset_peak(self) -> int:
        """Begin a new peak of resident memory; the bytes resident now."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")
        return self.peak()

    def peak(self) -> int:
        """The greatest number of resident bytes since `reset_peak`."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmHWM")


@pytest.fixture(scope="module")
def victim(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Victim]:
    folder = tmp_path_factory.mktemp("hostile")
    arguments = ["serve", "--data", str(folder / "d"), "--port", "0"]
    with Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            found = Victim(server.stdout.readline().split()[-1], server.pid)
            assert found.send("store?default", STATIC.encode(), "application/n-triples") in (200, 201, 204)
            yield found
            assert server.poll() is None, "the server lives"
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait(60)


class Probe(threading.Thread):
    """Asks small things one after the other."""

    def __init__(self, victim: Victim) -> None:
        super().__init__(daemon=True)
        self.victim = victim
        self.done = threading.Event()
        self.times: list[float] = []
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.done.is_set():
            for path in ("health/live", "query?query=ASK%20%7B%3Curn:s1%3E%20?p%20?o%7D", "queries"):
                began = time.monotonic()
                try:
                    status = httpx.get(self.victim.url + path, timeout=30).status_code
                    if status != 200:
                        self.faults.append(f"{path}: {status}")
                except httpx.HTTPError as error:
                    self.faults.append(f"{path}: {error!r}")
                self.times.append(time.monotonic() - began)
            time.sleep(0.02)


@contextlib.contextmanager
def probed(victim: Victim, allowed: float) -> Iterator[None]:
    """Whatever happens inside, the probe is answered well within the time."""
    probe = Probe(victim)
    probe.start()
    try:
        yield
    finally:
        probe.done.set()
        probe.join(60)
    assert not probe.faults, probe.faults[:3]
    assert len(probe.times) >= 2
    assert max(probe.times) < allowed, (
        f"the longest of {len(probe.times)} answers took {max(probe.times):.2f} s"
    )


# --- attacks on connections


def half_heads(victim: Victim, seconds: float) -> None:
    """Heads that never end."""
    with ExitStack() as stack:
        for _ in range(64):
            stack.enter_context(victim.connect()).sendall(b"GET /health/live HTTP/1.1\r\nHost: 127")
        time.sleep(seconds)


def slow_bodies(victim: Victim, seconds: float) -> None:
    """A byte of a body now and then."""
    with ExitStack() as stack:
        slow = [stack.enter_context(victim.connect()) for _ in range(32)]
        for each in slow:
            each.sendall(f"POST /update HTTP/1.1\r\n{HOST}Content-Length: 10000\r\n\r\n".encode())
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for each in slow:
                with contextlib.suppress(OSError):
                    each.send(b"#")
            time.sleep(0.1)


def readers_that_do_not_read(victim: Victim, seconds: float) -> None:
    """Answers of megabytes that nobody takes."""
    with ExitStack() as stack:
        for _ in range(24):
            client = stack.enter_context(victim.connect())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.sendall(f"GET /store?default HTTP/1.1\r\n{HOST}\r\n".encode())
        time.sleep(seconds)


def half_sent_bodies(victim: Victim, seconds: float) -> None:
    """Large bodies of which only the first part comes: workers wait for the rest."""
    with ExitStack() as stack:
        for path in ("store?default", "update") * 100:
            fields = f"{HOST}Content-Type: text/turtle\r\nContent-Length: 10000000\r\n"
            head = f"POST /{path} HTTP/1.1\r\n{fields}\r\n"
            with contextlib.suppress(OSError):
                stack.enter_context(victim.connect()).sendall(head.encode() + b"#" * 70_000)
        time.sleep(seconds)


def many_slow_readers(victim: Victim, seconds: float) -> None:
    """More answers of megabytes than there are workers, and nobody takes them.

    What goes into the buffers of their sockets has to be computed: some seconds of CPU on a small machine,
    which small queries must not wait for.
    """
    everything = "query?query=SELECT%20*%20%7B?s%20?p%20?o%7D"
    with ExitStack() as stack:
        for path in ("store?default", everything) * 50:
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.settimeout(10)
            with contextlib.suppress(OSError):
                client.connect(victim.address)
                client.sendall(f"GET /{path} HTTP/1.1\r\n{HOST}\r\n".encode())
        time.sleep(seconds)


def silent_feeds(victim: Victim, seconds: float) -> None:
    """Event streams that nobody takes."""
    with ExitStack() as stack:
        for _ in range(100):
            client = stack.enter_context(victim.connect())
            client.sendall(f"GET /changes HTTP/1.1\r\n{HOST}Accept: text/event-stream\r\n\r\n".encode())
        time.sleep(seconds)


def many_connections(victim: Victim, seconds: float) -> None:
    """Connections that come and go."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        with ExitStack() as stack:
            for _ in range(40):
                with contextlib.suppress(OSError):
                    stack.enter_context(victim.connect()).sendall(b"\x16\x03\x01")
        time.sleep(0.01)


def heavy_queries(victim: Victim, seconds: float) -> None:
    """Products that would take hours, from several clients."""
    text = "SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"

    def ask() -> None:
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(
                f"{victim.url}query?timeout={seconds}",
                content=text,
                headers={"Content-Type": "application/sparql-query"},
                timeout=seconds + 20,
            )

    clients = [threading.Thread(target=ask, daemon=True) for _ in range(4)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(seconds + 30)


def a_continuous_product(victim: Victim, seconds: float) -> None:
    """A small push whose answer would have 64 million rows."""
    body = json.dumps({"query": PRODUCT}).encode()
    with httpx.Client(base_url=victim.url, timeout=30) as client:
        headers = {"Content-Type": "application/json"}
        assert client.put("queries/bad", content=body, headers=headers).status_code in (200, 201)
        triples = "".join(f"<urn:a{n}> <urn:k> <urn:one> .\n" for n in range(400))
        pushed = client.post(
            "streams?iri=urn:bad", content=triples, headers={"Content-Type": "application/n-triples"}
        )
        assert pushed.status_code == 200
        until = time.monotonic() + 20
        while client.get("queries/bad").json()["state"] != "failed":
            assert time.monotonic() < until
            time.sleep(0.05)
        assert client.delete("queries/bad").status_code == 204


ATTACKS: list[Callable[[Victim, float], None]] = [
    half_heads, slow_bodies, readers_that_do_not_read, half_sent_bodies, many_slow_readers, silent_feeds,
    many_connections, heavy_queries, a_continuous_product,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_others_are_answered_beside_an_attack(
    victim: Victim, attack: Callable[[Victim, float], None]
) -> None:
    """The short form, where other tests run beside it: nobody waits for seconds."""
    with probed(victim, allowed=5 * ANSWERED_SECONDS):
        attack(victim, 1.0)


@pytest.mark.chaos
@pytest.mark.timeout(600)
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_others_are_answered_within_a_second(victim: Victim, attack: Callable[[Victim, float], None]) -> None:
    with probed(victim, allowed=ANSWERED_SECONDS):
        attack(victim, 10.0)


# --- attacks on memory

SIZE = 2_000_000
SPARE = 128 << 20
"""What a server may take for anything: its caches, and some hundred bytes for each of many small quads."""
UPDATE, QUERY = "application/sparql-update", "application/sparql-query"


def turned(open_: str, close: str, middle: str = "") -> bytes:
    """Nested as deep as the size allows."""
    times = SIZE // (len(open_) + len(close))
    return (open_ * times + middle + close * times).encode()


def bodies() -> Iterator[tuple[str, str, bytes, str]]:
    """Name, path, body and media type of requests that are as dear as their size allows."""
    literal = b"INSERT DATA { <urn:a> <urn:b> '" + b"x" * SIZE + b"' }"
    quads = b"INSERT DATA {" + b"<urn:a> <urn:b> <urn:c> ." * (SIZE // 25) + b"}"
    yield "long literal", "update", literal, UPDATE
    yield "many escapes", "update", b"INSERT DATA { <urn:a> <urn:b> '" + b"\\'" * (SIZE // 2) + b"' }", UPDATE
    yield "open literal", "update", b"INSERT DATA { <urn:a> <urn:b> '" + b"x" * SIZE, UPDATE
    yield "many quads", "update", quads, UPDATE
    yield "deep braces", "query", b"SELECT * " + turned("{", "}"), QUERY
    yield "deep brackets", "query", b"SELECT * { ?a ?b ?c FILTER " + turned("(", ")", "1") + b"}", QUERY
    yield "deep lists", "store?default", b"<urn:a> <urn:b> " + turned("(", ")") + b" .", "text/turtle"
    yield "deep blank nodes", "store?default", turned("[<urn:p> ", "]"), "text/turtle"
    yield (
        "deep triple terms",
        "store?default",
        turned("<<( <urn:a> <urn:b> ", " )>>"),
        "application/n-triples",
    )
    yield "deep JSON", "store?default", turned("[", "]"), "application/ld+json"
    yield "deep XML", "store?default", turned("<a>", "</a>"), "application/rdf+xml"
    yield (
        "one line",
        "streams?iri=urn:lines",
        b"<urn:a> <urn:b> '" + b"x" * SIZE + b"' .",
        "application/n-triples",
    )
    yield (
        "many lines",
        "streams?iri=urn:lines",
        b'{"at":1,"data":""}\n' * (SIZE // 19),
        "application/x-ndjson",
    )
    yield (
        "deep line",
        "streams?iri=urn:lines",
        b'{"at":1,"jsonld":' + turned("[", "]") + b"}",
        "application/x-ndjson",
    )
    yield "deep document", "queries:validate", turned("[", "]"), "application/json"
    yield (
        "long query",
        "queries:validate",
        b"SELECT * { STREAM <urn:s> [NOW] {" + b"?a ?b ?c ." * (SIZE // 10),
        "text/plain",
    )
    yield "form", "query", b"query=" + b"%20" * (SIZE // 3), "application/x-www-form-urlencoded"


@pytest.mark.slow_cases("many lines", "deep JSON", "deep line")
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("path", "body", "media_type"), [pytest.param(*each, id=name) for name, *each in bodies()]
)
def test_a_dear_request_takes_a_few_times_its_size(
    victim: Victim, path: str, body: bytes, media_type: str
) -> None:
    """At most eight times the request's bytes, whatever is in it, and the server goes on."""
    before = victim.reset_peak()
    with probed(victim, allowed=10 * ANSWERED_SECONDS):
        status = victim.send(path, body, media_type)
        time.sleep(0.1)
    assert status is None or status < 500, status
    grown = victim.peak() - before
    assert grown <= 8 * len(body) + SPARE, f"{grown / 1e6:.0f} MB for {len(body) / 1e6:.1f} MB"


@pytest.mark.always("streams*", "update")
@pytest.mark.timeout(600)
@pytest.mark.parametrize("path", ["streams?iri=urn:lines", "store?default", "update"])
def test_a_packed_body_is_not_unpacked_without_end(victim: Victim, path: str) -> None:
    """A gzip of a gigabyte of blanks takes a megabyte: its end is the limit for bodies."""
    packed = gzip.compress(b" " * (1 << 20), 9) * 1024
    before = victim.reset_peak()
    with probed(victim, allowed=10 * ANSWERED_SECONDS):
        status = victim.send(path, packed, "application/n-triples", **{"Content-Encoding": "gzip"})
    assert status in (None, 400, 413, 415)
    # A body is one growing block, up to the largest that is allowed (256 MiB).
    assert victim.peak() - before < 3 * (256 << 20)
