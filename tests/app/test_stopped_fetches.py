"""A query or update that is stopped ends its SERVICE and LOAD fetches too, with and without workers."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_feed_streams import until
from tests.hostile_peers import HEAD, Answer, Peer, peer, silent, slow_body

ROWS_HEAD = HEAD.replace(b"text/turtle", b"application/sparql-results+json")
QUERIES = [
    "SELECT * {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
    "SELECT * {{ SERVICE SILENT <{url}> {{ ?s ?p ?o }} }}",
    "ASK {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
    "CONSTRUCT {{ ?s ?p ?o }} WHERE {{ OPTIONAL {{ SERVICE <{url}> {{ ?s ?p ?o }} }} }}",
]
UPDATES = [
    "INSERT {{ ?s ?p ?o }} WHERE {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
    "INSERT {{ <urn:a> <urn:b> 1 }} WHERE {{ SERVICE SILENT <{url}> {{ ?s ?p ?o }} }}",
    "INSERT DATA {{ <urn:a> <urn:b> 1 }} ; INSERT {{ ?s ?p 2 }} WHERE {{ SERVICE <{url}> {{ ?s ?p ?o }} }}",
    "LOAD <{url}>",
    "LOAD SILENT <{url}>",
]


@pytest.fixture(scope="module")
def far() -> Iterator[Peer]:
    with peer(silent) as one:
        yield one


@pytest.fixture
def near(start_server: Start) -> LiveServer:
    return start_server(remote_hosts=("127.0.0.1",), remote_timeout="25s", workers=0)


@pytest.mark.parametrize("text", [*QUERIES, *UPDATES])
def test_a_stopped_process_ends_its_fetch(near: LiveServer, far: Peer, text: str) -> None:
    asked = len(far.asked)
    found: list[httpx.Response] = []
    send = near.query if text in QUERIES else near.update
    asking = threading.Thread(target=lambda: found.append(send(text.format(url=far.url))))
    asking.start()
    until(lambda: len(far.asked) > asked)
    with httpx.Client(base_url=near.url) as other:
        (process,) = other.get("/processes").json()["processes"]
        began = time.monotonic()
        assert other.delete(f"/processes/{process['id']}").status_code == 204
        asking.join(20)
        assert time.monotonic() - began < 5
        assert other.get("/processes").json()["processes"] == []
    assert problem_of(found[0], 503)["code"] == "cancelled"
    assert near.services.store.reader.quad_count == 0


@pytest.mark.parametrize("text", [QUERIES[0], QUERIES[1], UPDATES[0], UPDATES[3], UPDATES[4]])
def test_the_time_of_a_query_ends_its_fetch(near: LiveServer, far: Peer, text: str) -> None:
    send = near.query if text in QUERIES else near.update
    began = time.monotonic()
    answer = send(text.format(url=far.url), timeout=0.5)
    assert problem_of(answer, 503)["code"] == "query-timeout"
    assert time.monotonic() - began < 5
    assert near.services.store.reader.quad_count == 0


@pytest.mark.always("SELECT*-slow", "*LOAD*-silent", "INSERT*-silent")
@pytest.mark.parametrize("answer", [silent, slow_body(ROWS_HEAD)], ids=["silent", "slow"])
@pytest.mark.parametrize("text", [QUERIES[0], UPDATES[0], UPDATES[3]])
def test_a_client_that_leaves_ends_its_fetch(near: LiveServer, answer: Answer, text: str) -> None:
    path, media = ("query", "query") if text in QUERIES else ("update", "update")
    with peer(answer) as far, httpx.Client(base_url=near.url) as other:
        with pytest.raises(httpx.ReadTimeout):
            other.post(
                f"/{path}",
                content=text.format(url=far.url),
                headers={"Content-Type": f"application/sparql-{media}"},
                timeout=1.0,
            )
        until(lambda: near.client.get("/processes").json()["processes"] == [])
