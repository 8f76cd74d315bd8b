"""A server killed again and again under load: nothing is lost, nothing doubled, feeds resume."""

from __future__ import annotations

import contextlib
import http.client
import json
import multiprocessing
import random
import signal
import socket
import threading
import time
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from tests.app import crash_server

# Servers are copies of a process that has loaded the code, since so many are started.
COPIES = multiprocessing.get_context("forkserver")
COPIES.set_forkserver_preload([crash_server.__name__])
P = "PREFIX : <http://example.org/>\n"
QUERIES = {
    "each": "SELECT ?x WHERE { STREAM :s [NOW] { ?x :seen ?v } }",
    "counts": "SELECT (COUNT(*) AS ?n) (MIN(?v) AS ?least) WHERE { STREAM :s [RANGE 1s] { ?x :seen ?v } }",
    "closes": "REGISTER RSTREAM <http://example.org/closes> AS SELECT (COUNT(?x) AS ?n) "
    "FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 1s STEP 500ms] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } }",
    "made": "REGISTER STREAM <http://example.org/made> AS CONSTRUCT { ?x <http://example.org/again> ?v } "
    "FROM NAMED WINDOW <w> ON <http://example.org/s> [RANGE 500ms STEP 500ms] "
    "WHERE { WINDOW <w> { ?x <http://example.org/seen> ?v } }",
    "reads": "SELECT ?x WHERE { STREAM :made [RANGE 2s] { ?x :again ?v } }",
    # One table and one plan serve them all.
    **{
        f"kind{kind}": "SELECT ?x ?l WHERE { STREAM :s [RANGE 300ms] { ?x :seen ?v } "
        f"?x :kind :k{kind} ; :label ?l }}"
        for kind in range(4)
    },
}
KINDS = 2_000
"""So many things have a kind; later ones are in no answer of the queries that ask for it."""
STEP_MS = 100
START = 1_700_000_000_000
POINTS = {
    **dict.fromkeys(("before-write", "after-write", "after-sync"), 12),
    **dict.fromkeys(("before-apply", "before-results", "after-results"), 12),
    **dict.fromkeys(("during-checkpoint", "before-checkpoint", "after-checkpoint"), 3),
    **dict.fromkeys(("in-trim", "after-trim"), 2),
}
"""Where a server ends itself, and how often it may pass there before."""


class Server:
    """A child that is started again whenever it died."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.child: ForkServerProcess | None = None
        self.starts = 0

    def start(self, point: str = "-", passes: int = 0) -> bool:
        """Start; False when it died before it answered.

        Every other time, and where that is the point, checkpoints are written by a copy of the process.
        """
        self.starts += 1
        copy_from = 0 if self.starts % 2 or point == "during-checkpoint" else 1_000_000
        ours, theirs = COPIES.Pipe(duplex=False)
        arguments = (theirs, self.folder, self.port, point, passes, copy_from)
        self.child = COPIES.Process(target=crash_server.main, args=arguments, daemon=True)
        self.child.start()
        theirs.close()
        with ours:
            try:
                return bool(ours.recv())
            except EOFError:
                return False

    def kill(self) -> None:
        assert self.child is not None
        self.child.kill()
        self.wait()

    def wait(self) -> None:
        assert self.child is not None
        # Checkpoints come less often where they take long, as on a busy machine.
        self.child.join(300)
        assert self.child.exitcode == -signal.SIGKILL

    def ask(
        self, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def insist(self, *request: Any, good: tuple[int, ...] = (200, 201, 204)) -> Any:
        """Ask until there is an answer of a server that has replayed its journal."""
        deadline = time.monotonic() + 120
        while True:
            with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
                status, document = self.ask(*request)
                if (status, (document or {}).get("code")) != (503, "starting"):
                    assert status in good, (request, status, document)
                    return document
            assert time.monotonic() < deadline, request
            time.sleep(0.02)


class Listener(threading.Thread):
    """An SSE client that connects again with the last id it saw."""

    def __init__(self, server: Server, name: str) -> None:
        super().__init__(daemon=True)
        self.server, self.query = server, name
        self.events: list[tuple[int, str, dict[str, Any]]] = []
        self.resets = 0
        self.done = False

    def run(self) -> None:
        while not self.done:
            try:
                self._listen()
            except (OSError, http.client.HTTPException):
                time.sleep(0.02)

    def _listen(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=5)
        try:
            self._read(connection)
        finally:
            connection.close()

    def _read(self, connection: http.client.HTTPConnection) -> None:
        last = self.events[-1][0] if self.events else 0
        path = f"/queries/{self.query}/results" + ("" if last else "?from=0")
        headers = {"Accept": "text/event-stream"} | ({"Last-Event-ID": str(last)} if last else {})
        connection.request("GET", path, headers=headers)
        with connection.getresponse() as answer:
            if answer.status != 200:
                raise http.client.HTTPException(str(answer.status))
            self._take(answer)

    def _take(self, answer: http.client.HTTPResponse) -> None:
        fields: dict[str, str] = {}
        while not self.done:
            line = answer.fp.readline() if answer.fp is not None else b""
            if not line:
                raise OSError("cut off")
            text = line.decode().rstrip("\r\n")
            key, _, value = text.partition(": ")
            if text:
                fields[key] = value
            elif "data" in fields:
                if fields.get("event") == "reset":
                    self.resets += 1
                elif "id" in fields:
                    document = json.loads(fields["data"])
                    self.events.append((int(fields["id"]), fields["event"], document))
                fields = {}
            else:
                fields = {}


def push(server: Server, number: int) -> None:
    """One element, exactly once: the key makes trying again safe."""
    body = f"<http://example.org/x{number}> <http://example.org/seen> {number} ."
    headers = {"Content-Type": "text/turtle", "Idempotency-Key": f"k{number}"}
    at = START + number * STEP_MS
    receipt = server.insist("POST", f"/streams/s?at={at}", body, headers)
    assert (receipt["accepted"], receipt["durable"]) == (1, True)
    assert receipt["first_seq"] == number, "seqs neither repeat nor skip"


def prepare(server: Server) -> None:
    declared = json.dumps({"iri": "http://example.org/s"})
    server.insist("PUT", "/streams/s", declared, {"Content-Type": "application/json"})
    kinds = " ".join(f':x{n} :kind :k{n % 4} ; :label "l{n}" .' for n in range(KINDS))
    update = f"PREFIX : <http://example.org/> INSERT DATA {{ {kinds} }}"
    server.insist("POST", "/update", update, {"Content-Type": "application/sparql-update"})
    for name, text in QUERIES.items():
        document = json.dumps({"query": text if "REGISTER" in text else P + text})
        server.insist("PUT", f"/queries/{name}", document, {"Content-Type": "application/json"})


def storm(tmp_path: Path, rounds: int, seed: int) -> None:
    """Kill ``rounds`` times while pushing, then compare every feed with that of an undisturbed server."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    points = chance.sample(list(POINTS), len(POINTS))
    server = Server(tmp_path / "data")
    assert server.start()
    prepare(server)
    listeners = [Listener(server, name) for name in QUERIES]
    for listener in listeners:
        listener.start()
    pushed = [0]
    stop = threading.Event()
    failures: list[BaseException] = []

    def work() -> None:
        try:
            while not stop.is_set():
                push(server, pushed[0] + 1)
                pushed[0] += 1
                if pushed[0] % 5 == 0:
                    # What nobody pushes has a kind, too: the table of kinds changes, the answers do not.
                    data = f':x{pushed[0]} :name 1 . :y{pushed[0]} :kind :k{pushed[0] % 4} ; :label "new"'
                    update = f"PREFIX : <http://example.org/> INSERT DATA {{ {data} }}"
                    server.insist("POST", "/update", update, {"Content-Type": "application/sparql-update"})
        except BaseException as error:
            failures.append(error)

    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    for _ in range(rounds):
        if chance.random() < 0.5:
            time.sleep(chance.uniform(0.0, 0.6))
            server.kill()
            started = server.start(*chance.choice([("-", 0), ("in-replay", chance.randrange(5))]))
        else:
            # By itself at a named point, now that it is under load.
            server.kill()
            point = points.pop(0)
            points.append(point)
            started = server.start(point, chance.randrange(POINTS[point]))
            server.wait()
            started = server.start()
        while not started:
            server.wait()
            started = server.start()
        assert not failures, failures
    time.sleep(0.3)
    stop.set()
    worker.join(60)
    assert not failures, failures
    total = pushed[0]
    # A last element moves every window on.
    push(server, total + 1)
    found = server.ask("GET", "/query?query=SELECT%20(COUNT(*)%20AS%20%3Fn)%20%7B%3Fx%20%3Fp%201%7D",
                       headers={"Accept": "application/sparql-results+json"})[1]  # fmt: skip
    assert int(found["results"]["bindings"][0]["n"]["value"]) == total // 5
    described = server.insist("GET", "/streams/s")
    assert (described["accepted"], described["last_seq"]) == (total + 1, total + 1)
    expected = undisturbed(tmp_path / "calm", total + 1)
    deadline = time.monotonic() + 20
    for listener in listeners:
        wanted = expected[listener.query]
        while len(listener.events) < len(wanted) and time.monotonic() < deadline:
            time.sleep(0.05)
        listener.done = True
        assert listener.resets == 0
        ids = [number for number, _, _ in listener.events]
        assert ids == list(range(1, len(ids) + 1)), "each id exactly once"
        assert [short(event) for event in listener.events] == [short(event) for event in wanted]
    server.kill()


def undisturbed(folder: Path, total: int) -> dict[str, list[tuple[int, str, dict[str, Any]]]]:
    """What each feed tells of so many elements: up to its last event, once all of them are worked off."""
    server = Server(folder)
    assert server.start()
    prepare(server)
    for number in range(1, total + 1):
        push(server, number)
    ends = ends_of_feeds(server, total)
    found = {}
    for name in QUERIES:
        listener = Listener(server, name)
        listener.start()
        deadline = time.monotonic() + 120
        while len(listener.events) < ends[name]:
            assert time.monotonic() < deadline, (name, len(listener.events), ends)
            time.sleep(0.02)
        listener.done = True
        found[name] = listener.events
    server.kill()
    return found


def ends_of_feeds(server: Server, total: int) -> dict[str, int]:
    """The last id of each feed, once every query has taken all that there is for it."""
    deadline = time.monotonic() + 120
    before = None
    while True:
        described = {name: server.insist("GET", f"/queries/{name}") for name in QUERIES}
        taken = {name: each["counters"]["elements"] for name, each in described.items()}
        ends = {name: int(each["feed"]["last_id"]) for name, each in described.items()}
        wanted = dict.fromkeys(QUERIES, total) | {"reads": ends["made"]}
        if taken == wanted and ends["each"] == total and ends == before:
            return ends
        assert time.monotonic() < deadline, (taken, wanted, ends)
        before = ends
        time.sleep(0.2)


def short(event: tuple[int, str, dict[str, Any]]) -> tuple[Any, ...]:
    """An event without the version, which depends on when updates came."""
    number, kind, document = event
    rows = document.get("results", {}).get("bindings", [])
    quads = sorted(document.get("quads", "").splitlines())
    return number, kind, document["at"], sorted(json.dumps(row, sort_keys=True) for row in rows), quads


@pytest.mark.timeout(600)
def test_killed_at_random_moments_and_named_points(tmp_path: Path) -> None:
    storm(tmp_path, rounds=3, seed=random.randrange(1 << 30))


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("seed", range(10))
def test_killed_a_hundred_times(tmp_path: Path, seed: int) -> None:
    storm(tmp_path, rounds=20, seed=seed)
