"""Starts after kill -9, with servers as processes: alive and manageable while the journal is replayed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from quadrill.app.cli import main
from tests.app.test_cli import processes, start

__all__ = ["processes"]
pytestmark = pytest.mark.process
Found = TypeVar("Found")
STREAM = "<http://localhost/s>"
GOOD = f"SELECT ?a {{ STREAM {STREAM} [RANGE 1h] {{ ?a <urn:k> ?x }} }}"
PRODUCT = "?a <urn:k> ?x . ?b <urn:k> ?x . ?c <urn:k> ?x"
SLOW = f"SELECT (COUNT(*) AS ?n) {{ STREAM {STREAM} [RANGE 1h] {{ {PRODUCT} }} }}"
BAD = f"SELECT ?n WHERE {{ STREAM {STREAM} [RANGE 1000d SLIDE 1ms] {{ ?a <urn:k> ?n }} }}"
NUMBER, BATCH = 250, 10
"""Elements, pushed so many in a request, whose evaluation takes the slow query many seconds."""


class Server:
    """A server over a folder that may be asked before it is ready."""

    def __init__(self, started: list[subprocess.Popen[str]], folder: Path, *arguments: str) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.process = start("--data", str(folder), "--port", str(port), *arguments)
        started.append(self.process)
        self.url = f"http://127.0.0.1:{port}"

    def ask(self, method: str, path: str, **how: Any) -> httpx.Response:
        return httpx.request(method, self.url + path, timeout=60, **how)

    @property
    def cpu(self) -> float:
        """Seconds of CPU that it has used: other processes of the machine do not count."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def ready(self) -> float:
        """Wait for the ready line; the seconds of CPU since the start."""
        assert self.process.stdout is not None
        assert "ready" in self.process.stdout.readline()
        return self.cpu

    def alive(self) -> None:
        """Wait until it answers."""

        def lives() -> bool:
            try:
                return self.ask("GET", "/health/live").status_code == 200
            except httpx.TransportError:
                return False

        eventually(lives)

    def push(self, at: int, body: str) -> httpx.Response:
        headers = {"Content-Type": "application/n-triples"}
        return self.ask("POST", f"/streams/s?at={at}", content=body, headers=headers)

    def push_lines(self, at: int, numbers: range, value: str) -> None:
        """Push an element for each number in one request, one a millisecond from ``at``."""
        lines = [
            json.dumps({"at": at + place, "data": f"<urn:s{number}> <urn:k> {value} .\n"})
            for place, number in enumerate(numbers)
        ]
        headers = {"Content-Type": "application/x-ndjson"}
        assert self.ask("POST", "/streams/s", content="\n".join(lines), headers=headers).status_code == 200

    def ids(self, name: str) -> list[int]:
        """The ids of all events of a feed."""
        headers = {"Last-Event-ID": "0", "Accept": "text/event-stream"}
        path = f"/queries/{name}/results"
        with httpx.stream("GET", self.url + path, headers=headers, timeout=20) as answer:
            found: list[int] = []
            for line in answer.iter_lines():
                if line.startswith("id:"):
                    found.append(int(line[3:]))
                if len(found) == NUMBER:
                    return found
        return found

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def eventually(look: Callable[[], Found], seconds: float = 120) -> Found:
    until = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < until
        time.sleep(0.02)
    return found


@pytest.fixture(scope="module")
def killed_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a server that was killed with a backlog of a slow query."""
    folder = tmp_path_factory.mktemp("killed")
    started: list[subprocess.Popen[str]] = []
    server = Server(started, folder)
    server.ready()
    for name, query in (("good", {"query": GOOD}), ("slow", {"query": SLOW})):
        assert server.ask("POST", "/queries", json={"name": name, **query}).status_code == 201
    for first in range(0, NUMBER, BATCH):
        server.push_lines(1000 + first, range(first, first + BATCH), '"x"')
    server.kill()
    started[0].communicate()
    return folder


@pytest.fixture
def killed(tmp_path: Path, killed_once: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(killed_once, tmp_path / "data"))


def test_a_server_that_replays_lives_and_drops_a_query(
    killed: Path, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(processes, killed)
    server.alive()
    ready = server.ask("GET", "/health/ready")
    assert ready.status_code == 503
    assert set(ready.json()["replay"]) == {"records", "replayed", "seconds"}
    assert ready.json()["version"] == version("quadrill")
    listed = server.ask("GET", "/queries").json()["queries"]
    assert [(each["name"], each["state"]) for each in listed] == [("good", "running"), ("slow", "running")]
    assert listed[0]["waiting_for"][0]["reason"] == "starting"
    assert server.ask("GET", "/queries/slow").json()["query"] == SLOW
    assert server.ask("GET", "/").status_code == 200
    for method, path in (
        *(("POST", "/streams/s"), ("GET", "/queries/good/results"), ("POST", "/update"), ("GET", "/query")),
        *(("PUT", "/queries/other"), ("PATCH", "/queries/good"), ("GET", "/streams")),
    ):
        answer = server.ask(method, path, **({"json": {"refresh": "manual"}} if method == "PATCH" else {}))
        assert (answer.status_code, answer.json()["code"]) == (503, "starting"), (method, path)
        assert int(answer.headers["Retry-After"]) > 0
    assert main(["queries", "--server", server.url]) == 0
    assert "the server is starting" in capsys.readouterr().out
    assert server.process.poll() is None and server.ask("GET", "/health/ready").status_code == 503
    used = server.cpu
    assert main(["drop", "slow", "--server", server.url]) == 0
    assert "the server is starting" in capsys.readouterr().err
    assert server.cpu - used < 2
    assert server.ask("GET", "/queries/slow").status_code in (404, 410)
    assert server.ready() - used < 4
    assert [each["name"] for each in server.ask("GET", "/queries").json()["queries"]] == ["good"]
    assert len(server.ids("good")) == NUMBER
    server.kill()
    again = Server(processes, killed)
    assert again.ready() < 10
    assert again.ask("GET", "/queries/slow").status_code in (404, 410)
    assert len(again.ids("good")) == NUMBER


@pytest.mark.chaos
def test_a_query_that_is_paused_in_the_replay_ends_it(
    killed: Path, processes: list[subprocess.Popen[str]]
) -> None:
    server = Server(processes, killed)
    server.alive()
    used = server.cpu
    paused = server.ask("PATCH", "/queries/slow", json={"state": "paused"})
    assert paused.json()["state"] == "paused" and server.cpu - used < 2
    assert server.ready() - used < 4
    document = server.ask("GET", "/queries/slow").json()
    assert document["state"] == "paused" and "windows were not kept" in document["error"]
    assert len(server.ids("good")) == NUMBER
    server.kill()
    again = Server(processes, killed)
    assert again.ready() < 10
    assert again.ask("GET", "/queries/slow").json()["state"] == "paused"
    assert again.ask("PATCH", "/queries/slow", json={"state": "running"}).json()["state"] == "running"
    again.push(2000, '<urn:last> <urn:k> "x" .\n')
    eventually(lambda: again.ask("GET", "/queries/slow").json()["last_result"])


def test_folders_open_without_the_query_that_makes_a_start_long(
    killed: Path, processes: list[subprocess.Popen[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server(processes, killed, "--paused", "all")
    assert server.ready() < 10
    states = {each["name"]: each["state"] for each in server.ask("GET", "/queries").json()["queries"]}
    assert states == {"good": "paused", "slow": "paused"}
    server.kill()
    used = time.process_time()
    assert main(["drop", "slow", "--offline", "--data", str(killed)]) == 0
    # Also once more, as after a drop right before a kill.
    assert main(["drop", "slow", "--offline", "--data", str(killed)]) == 0
    assert time.process_time() - used < 10
    assert main(["drop", "never", "--offline", "--data", str(killed)]) == 1
    server = Server(processes, killed, "--paused", "slow")
    assert server.ready() < 10
    assert [each["name"] for each in server.ask("GET", "/queries").json()["queries"]] == ["good"]


def test_a_server_that_is_told_to_stop_in_its_replay_stops(
    killed: Path, processes: list[subprocess.Popen[str]]
) -> None:
    server = Server(processes, killed)
    server.alive()
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(60) == 0
    assert Server(processes, killed, "--paused", "slow").ready() < 10


def test_a_server_killed_in_forty_million_closes_becomes_ready(
    tmp_path: Path, processes: list[subprocess.Popen[str]]
) -> None:
    server = Server(processes, tmp_path)
    server.ready()
    for name, query in (("bad", BAD), ("good", GOOD)):
        assert server.ask("POST", "/queries", json={"name": name, "query": query}).status_code == 201
    for at in (30_000, 40_000_000):
        assert server.push(at, f'<urn:a> <urn:k> "{at}" .\n').status_code == 200
    server.kill()
    again = Server(processes, tmp_path)
    assert again.ready() < 10
    assert {each["state"] for each in again.ask("GET", "/queries").json()["queries"]} == {"running"}
