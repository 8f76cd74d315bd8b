"""A query that makes too much of little, in servers as processes: the first does not stop the others."""

from __future__ import annotations

import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from quadrill.app.cli import main
from tests.app.test_cli import processes, start

__all__ = ["processes"]
BAD = (
    "SELECT ?a ?b ?c { STREAM <http://localhost/bad> [RANGE 1m] "
    "{ ?a <urn:k> ?x . ?b <urn:k> ?x . ?c <urn:k> ?x } }"
)
GOOD = "SELECT ?a { STREAM <http://localhost/bad> [RANGE 1m] { ?a <urn:k> ?x } }"
BODY = "".join(f'<urn:s{each}> <urn:k> "x" .\n' for each in range(400))
Processes = list[subprocess.Popen[str]]


class Server:
    """A server over a folder that is killed in the end."""

    def __init__(self, started: Processes, folder: Path, *arguments: str) -> None:
        self.process = start("--data", str(folder), "--port", "0", *arguments)
        started.append(self.process)
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().split()[-1].rstrip("/")

    def get(self, path: str) -> httpx.Response:
        return httpx.get(self.url + path, timeout=20)

    def post(self, path: str, **how: Any) -> httpx.Response:
        return httpx.post(self.url + path, timeout=20, **how)

    def query(self, name: str = "bad") -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/queries/{name}").json()
        return found

    def peak(self) -> int:
        """The most memory that it has had, in MB."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) // 1024 for line in lines if line.startswith("VmHWM"))

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def attacked(started: Processes, folder: Path, **options: Any) -> Server:
    server = Server(started, folder)
    for name, query in (("bad", {"query": BAD, **options}), ("good", {"query": GOOD})):
        assert server.post("/queries", json={"name": name, **query}).status_code == 201
    headers = {"Content-Type": "application/n-triples"}
    assert server.post("/streams/bad", content=BODY, headers=headers).status_code == 200
    return server


def test_one_small_push_does_not_freeze_a_server_nor_its_restart(
    tmp_path: Path, processes: Processes
) -> None:
    server = attacked(processes, tmp_path)
    began = time.monotonic()
    while server.query()["state"] != "failed":
        assert time.monotonic() - began < 10
        time.sleep(0.1)
    assert server.peak() < 300
    failed = server.query()["error"]
    assert "its limit (max_rows) is 1000000, in #4 join (scan ?a <urn:k> ?x; " in failed
    assert server.query("good")["last_result"]
    letters = server.get("/streams/bad/dead-letters").json()["letters"]
    assert {letter["reason"] for letter in letters} == {"budget"}
    server.kill()
    again = Server(processes, tmp_path)
    assert (again.query()["state"], again.query()["error"]) == ("failed", failed)
    assert again.get("/health/ready").status_code == 200


@pytest.mark.chaos
def test_a_query_that_stops_the_start_is_paused_or_dropped(
    tmp_path: Path, processes: Processes, capsys: pytest.CaptureFixture[str]
) -> None:
    server = attacked(processes, tmp_path, max_rows=1_000_000_000, max_time="1h")
    time.sleep(0.5)
    for path in ("/queries", "/queries/bad", "/metrics", "/health/ready", "/queries/good"):
        began = time.monotonic()
        assert server.get(path).status_code == 200
        assert time.monotonic() - began < 2, path
    server.kill()
    paused = Server(processes, tmp_path, "--paused", "bad")
    assert paused.query()["state"] == "paused" and paused.query("good")["state"] == "running"
    paused.kill()
    assert main(["drop", "bad", "--offline", "--data", str(tmp_path)]) == 0
    assert "bad is dropped" in capsys.readouterr().out
    last = Server(processes, tmp_path)
    assert [query["name"] for query in last.get("/queries").json()["queries"]] == ["good"]
    assert main(["drop", "bad", "--offline", "--data", str(tmp_path / "none")]) == 1
