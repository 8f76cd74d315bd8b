"""A full disk as clients see it: read-only with a clear word, and by itself as before when there is space."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path
from typing import Any

import pytest

from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs import input_log
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.events import EventReader

TURTLE, TEXT = {"Content-Type": "text/turtle"}, {"Content-Type": "text/plain"}
QUERY = "SELECT ?s WHERE { STREAM <http://localhost/r> [RANGE 1h] { ?s <urn:v> ?o } }"


class Disk:
    """The module ``os`` over a disk that may be full."""

    full = False

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def write(self, file: int, data: Any) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return os.write(file, data)


def push(server: LiveServer, name: str, **headers: str) -> Any:
    body = f"<urn:{name}> <urn:v> <urn:o> ."
    return server.client.post("/streams/r?at=1000", content=body, headers={**TURTLE, **headers})


def ready(server: LiveServer) -> int:
    return server.client.get("/health/ready").status_code


def test_a_server_without_space_is_read_only_until_there_is_some(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk()
    monkeypatch.setattr(input_log, "os", disk)
    server = start_server(data=str(tmp_path / "d"))
    server.client.post("/queries?name=q", content=QUERY, headers=TEXT)
    assert push(server, "a").status_code == 200
    with EventReader(server, "/queries/q/results?from=0") as events:
        assert events.take(1)[0].id == "1"
        disk.full = True
        problem = problem_of(push(server, "b", **{"Idempotency-Key": "b"}), 507)
        assert problem["code"] == "store-unwritable" and "No space left" in problem["detail"]
        assert "space" in problem["hint"]
        problem_of(push(server, "c"), 507)
        problem_of(server.client.post("/queries?name=p", content=QUERY, headers=TEXT), 507)
        problem_of(server.client.delete("/queries/q"), 507)
        problem_of(server.client.patch("/queries/q", json={"state": "paused"}), 507)
        problem_of(server.client.post("/queries/q/replay"), 507)
        assert ready(server) == 503
        assert "quadrill_input_log_unwritable 1.0" in server.client.get("/metrics").text
        assert server.boolean("ASK {}") is True
        assert [row["name"] for row in server.client.get("/queries").json()["queries"]] == ["q"]
        disk.full = False
        deadline = time.monotonic() + 20
        while ready(server) != 200:
            assert time.monotonic() < deadline
        assert push(server, "b", **{"Idempotency-Key": "b"}).json()["first_seq"] == 2
        assert push(server, "d").json()["first_seq"] == 3
        assert [event.id for event in events.take(2)] == ["2", "3"], "nothing is missing, nothing comes twice"


def test_a_server_that_refuses_updates_alone_is_ready_for_all_else(
    start_server: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(data=str(tmp_path / "d"))

    def refuse(*_: object) -> None:
        raise StoreUnwritableError("the change log cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(server.services.store.log, "append", refuse)
        problem_of(server.update("INSERT DATA { <urn:a> <urn:p> 1 }"), 507)
        assert push(server, "a").status_code == 200
        assert ready(server) == 200
    assert server.update("INSERT DATA { <urn:a> <urn:p> 1 }").status_code == 204
