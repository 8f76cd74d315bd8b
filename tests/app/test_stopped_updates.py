"""Updates that are stopped leave nothing behind."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_server import eventually

PRODUCT = "WHERE { ?a <http://e/p> ?x . ?b <http://e/p> ?y . ?c <http://e/p> ?z }"
LONG = f"INSERT {{ ?a <http://e/q> ?y }} {PRODUCT}"


@pytest.fixture
def filled(start_server: Start) -> LiveServer:
    server = start_server()
    rows = " ".join(f"<http://e/{n}> <http://e/p> {n} ." for n in range(500))
    assert server.update(f"INSERT DATA {{ {rows} }}").status_code == 204
    return server


def test_an_update_that_takes_too_long_is_stopped_and_leaves_nothing(filled: LiveServer) -> None:
    version = filled.services.store.reader.version
    first = "INSERT DATA { <http://e/first> <http://e/q> 1 }"
    document = problem_of(filled.update(LONG, timeout=0.5), 503)
    assert document["code"] == "query-timeout"
    assert "the update took longer than 0.5 s" in document["detail"]
    assert filled.services.store.reader.version == version
    assert not filled.boolean("ASK { ?s <http://e/q> ?o }")
    assert filled.update(first).status_code == 204
    assert filled.client.get("/processes").json()["processes"] == []


def test_an_update_is_stopped_by_request(filled: LiveServer) -> None:
    found: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: found.append(filled.update(LONG)))
    asking.start()

    def running() -> list[dict[str, str]]:
        with httpx.Client(base_url=filled.url) as other:
            listed: list[dict[str, str]] = other.get("/processes").json()["processes"]
            return [process for process in listed if process["kind"] == "update"]

    (process,) = eventually(running)
    with httpx.Client(base_url=filled.url) as other:
        assert other.delete(f"/processes/{process['id']}").status_code == 204
    asking.join(20)
    document = problem_of(found[0], 503)
    assert document["code"] == "cancelled"
    assert document["detail"] == "the update was stopped by request"
    assert not filled.boolean("ASK { ?s <http://e/q> ?o }")


def test_a_timeout_that_suffices_changes_nothing_about_an_update(filled: LiveServer) -> None:
    text = "INSERT { ?a <http://e/q> 1 } WHERE { ?a <http://e/p> 7 }"
    assert filled.update(text, timeout=60).status_code == 204
    assert filled.boolean("ASK { <http://e/7> <http://e/q> 1 }")
    assert problem_of(filled.update(text, timeout="soon"), 400)["code"] == "parameter"


@pytest.mark.parametrize(
    "text",
    [
        "INSERT DATA {" + "@" * 900_000 + "}",
        "INSERT DATA {" + ";" * 900_000 + "}",
        "INSERT { ?a ?b ?c } WHERE { BIND(CONCAT(?a, ?b) AS ?c) " + "@" * 900_000 + "}",
    ],
)
def test_dense_texts_of_updates_are_read_as_long_as_a_query_may_take(start_server: Start, text: str) -> None:
    server = start_server(query_timeout=0.3)
    began = time.process_time()
    document = problem_of(server.update(text), 503)
    assert document["code"] == "query-timeout"
    assert "reading the update's text took longer than 0.3 s" in document["detail"]
    assert time.process_time() - began < 3
    assert server.client.get("/processes").json()["processes"] == []
    assert server.update(LONG.replace("?a", "<http://e/a>").replace("?b", "<http://e/b>")).status_code == 204


def test_an_update_may_be_evaluated_for_longer_than_a_query(start_server: Start) -> None:
    server = start_server(query_timeout=0.3)
    rows = " ".join(f"<http://e/{n}> <http://e/p> {n} ." for n in range(45))
    assert server.update(f"INSERT DATA {{ {rows} }}").status_code == 204
    assert server.update(LONG).status_code == 204
