"""A real server killed with SIGKILL while it is pushed to, updated, registered at, and backed up."""

from __future__ import annotations

import http.client
import json
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.app.test_crashes import P, Server, storm

QUERY = P + "SELECT ?x WHERE { STREAM :s [RANGE 1m] { ?x :seen %d } }"


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(100, 112))
def test_pushes_and_updates_outlive_kills(tmp_path: Path, seed: int) -> None:
    """12 x 20 kills: no acknowledged element is lost, none enters twice, feeds are those of a calm server."""
    storm(tmp_path, rounds=20, seed=seed)


@pytest.mark.chaos
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(4))
def test_registrations_updates_and_declarations_outlive_kills(tmp_path: Path, seed: int) -> None:
    """4 x 20 kills, see `changes_outlive_kills`."""
    changes_outlive_kills(tmp_path, rounds=20, seed=seed)


@pytest.mark.timeout(300)
def test_registrations_updates_and_declarations_outlive_some_kills(tmp_path: Path) -> None:
    changes_outlive_kills(tmp_path, rounds=2, seed=random.randrange(1 << 30))


class Changer(threading.Thread):
    """Asks for one change after the other, and notes what was answered and what was not."""

    def __init__(self, server: Server, name: str, ask: Callable[[int], tuple[Any, ...]]) -> None:
        super().__init__(daemon=True)
        self.server, self.kind, self.ask = server, name, ask
        self.answered: dict[int, int] = {}
        self.open: set[int] = set()
        self.done = threading.Event()

    def run(self) -> None:
        number = 0
        while not self.done.is_set():
            number += 1
            self.open.add(number)
            try:
                status, _ = self.server.ask(*self.ask(number))
            except (OSError, http.client.HTTPException, ValueError):
                time.sleep(0.05)
                continue
            # 429 and 503 deny; everything else of the kind 4xx would be a fault of this test.
            if status in (200, 201, 204):
                self.answered[number] = status
                self.open.discard(number)
            elif status in (429, 503):
                self.open.discard(number)
            else:
                raise AssertionError((self.kind, number, status))


def register(number: int) -> tuple[Any, ...]:
    body = json.dumps({"query": QUERY % number})
    return "PUT", f"/queries/q{number}", body, {"Content-Type": "application/json"}


def insert(number: int) -> tuple[Any, ...]:
    body = f"INSERT DATA {{ GRAPH <urn:g> {{ <urn:n{number}> <urn:n> {number} }} }}"
    return "POST", "/update", body, {"Content-Type": "application/sparql-update"}


def declare(number: int) -> tuple[Any, ...]:
    body = json.dumps({"iri": f"http://example.org/stream{number}"})
    return "PUT", f"/streams/stream{number}", body, {"Content-Type": "application/json"}


def changes_outlive_kills(tmp_path: Path, rounds: int, seed: int) -> None:
    """After every start what was acknowledged is there; what was never answered may be there, once."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    server = Server(tmp_path / "data")
    assert server.start()
    changers = [
        Changer(server, "queries", register),
        Changer(server, "quads", insert),
        Changer(server, "streams", declare),
    ]
    for changer in changers:
        changer.start()
    backups = 0
    for _ in range(rounds):
        time.sleep(chance.uniform(0.05, 0.7))
        if chance.random() < 0.3:
            backups += 1
            threading.Thread(target=_back_up, args=(server,), daemon=True).start()
            time.sleep(chance.uniform(0, 0.2))
        server.kill()
        assert server.start()
        _compare(server, changers)
    for changer in changers:
        changer.done.set()
    for changer in changers:
        changer.join(60)
        assert not changer.is_alive()
        assert changer.answered, changer.kind
    _compare(server, changers)
    server.kill()


def _back_up(server: Server) -> None:
    """Ask for a backup; the server may be killed while it makes it."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    try:
        connection.request("POST", "/backups", "{}", {"Content-Type": "application/json"})
        connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        pass
    finally:
        connection.close()


def _compare(server: Server, changers: list[Changer]) -> None:
    """What was answered before is there now; nothing is there that was not asked for."""
    before = [set(changer.answered) for changer in changers]
    query = "SELECT ?n { GRAPH <urn:g> { ?s <urn:n> ?n } }"
    found = (
        {int(each["name"][1:]) for each in server.insist("GET", "/queries")["queries"]},
        _numbers(server, query),
        {
            int(each["iri"].removeprefix("http://example.org/stream"))
            for each in server.insist("GET", "/streams")["streams"]
            if each["iri"].startswith("http://example.org/stream")
        },
    )
    for changer, sure, there in zip(changers, before, found, strict=True):
        assert sure <= there, (changer.kind, "lost", sure - there)
        asked = set(changer.answered) | set(changer.open)
        assert there <= asked, (changer.kind, "never asked for", there - asked)


def _numbers(server: Server, query: str) -> set[int]:
    headers = {"Content-Type": "application/sparql-query", "Accept": "application/sparql-results+json"}
    rows = server.insist("POST", "/query", query, headers)["results"]["bindings"]
    numbers = [int(row["n"]["value"]) for row in rows]
    assert len(numbers) == len(set(numbers))
    return set(numbers)
