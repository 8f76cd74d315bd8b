"""A push, a look-up, an update and a registration pass few modules and calls of a running server."""

from __future__ import annotations

import http.client
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from quadrill.app import running
from quadrill.app.config import Settings
from tests.app.conftest import LiveServer
from tests.walk import ThreadsWalk, Walk, following_threads

QUERY = """PREFIX : <http://example.org/>
SELECT ?room ?celsius WHERE {
  STREAM :readings [RANGE 10s] { ?sensor :celsius ?celsius FILTER(?celsius > 20) }
  GRAPH :rooms { ?sensor :in ?room }
}"""
ROOMS, INSIDE = "<http://example.org/rooms>", "<http://example.org/s1> <http://example.org/in>"
ROOM = f"INSERT DATA {{ GRAPH {ROOMS} {{ {INSIDE} <urn:r> }} }}"
START = 1_767_268_800_000


@dataclass
class Followed:
    """A server whose threads are followed, and one connection to it."""

    server: LiveServer
    walks: ThreadsWalk
    connection: http.client.HTTPConnection

    def send(self, method: str, path: str, body: str, media_type: str) -> None:
        self.connection.request(method, path, body.encode(), {"Content-Type": media_type})
        answer = self.connection.getresponse()
        text = answer.read()
        assert answer.status < 300, text

    def walk(self, work: Callable[[int], None], is_over: Callable[[], bool] = lambda: True) -> Walk:
        """The shortest of some walks: work of other threads may run beside."""
        for number in range(5):
            work(number)
        found = [self.walks.follow(lambda number=number: work(number), is_over) for number in range(5, 15)]
        return min(found, key=lambda walk: walk.calls)


@pytest.fixture(scope="module")
def followed() -> Iterator[Followed]:
    with following_threads() as walks, running.serve(Settings(data=":memory:", port=0)) as running_server:
        server = LiveServer(running_server)
        host = server.url.removeprefix("http://").rstrip("/")
        connection = http.client.HTTPConnection(host, timeout=20)
        found = Followed(server, walks, connection)
        found.send("POST", "/update", ROOM, "application/sparql-update")
        found.send("PUT", "/queries/warm", QUERY, "text/plain")
        yield found
        connection.close()
        server.client.close()


def within(walk: Walk, *, modules: int, calls: int, depth: int) -> None:
    """No figure is over its limit; else the beginning of the walk is shown."""
    shown = "\n".join(walk.lines[:400])
    found = (len(walk.modules), walk.calls, walk.depth)
    assert all(map(operator.le, found, (modules, calls, depth))), f"modules, calls, depth: {found}\n{shown}"


def test_look_up_passes_few_modules(followed: Followed) -> None:
    def look_up(number: int) -> None:
        followed.send(
            "POST", "/query", f"SELECT ?o {{ <urn:a{number}> <urn:p> ?o }}", "application/sparql-query"
        )

    within(followed.walk(look_up), modules=30, calls=110, depth=15)


def test_update_passes_few_modules(followed: Followed) -> None:
    def update(number: int) -> None:
        followed.send(
            "POST", "/update", f"INSERT DATA {{ <urn:a> <urn:p> {number} }}", "application/sparql-update"
        )

    within(followed.walk(update), modules=62, calls=360, depth=24)


def test_push_passes_few_modules(followed: Followed) -> None:
    feed = followed.server.services.engine.queries.feed("warm")
    reached = [0]

    def push(number: int) -> None:
        reached[0] = feed.history.last_id + 1
        celsius = f'"{20 + number}.5"^^<http://www.w3.org/2001/XMLSchema#decimal>'
        line = f"<http://example.org/s1> <http://example.org/celsius> {celsius} .\n"
        followed.send("POST", f"/streams/readings?at={START + number * 1000}", line, "application/n-triples")
        while feed.history.last_id < reached[0]:
            pass

    within(followed.walk(push), modules=62, calls=280, depth=18)


def test_update_that_touches_a_static_part_passes_few_modules(followed: Followed) -> None:
    def move(number: int) -> None:
        text = f"INSERT DATA {{ GRAPH {ROOMS} {{ {INSIDE} <urn:room{number}> }} }}"
        followed.send("POST", "/update", text, "application/sparql-update")

    within(followed.walk(move), modules=105, calls=1_200, depth=36)


def test_registration_passes_few_modules(followed: Followed) -> None:
    def register(number: int) -> None:
        followed.send("PUT", f"/queries/warm{number}", QUERY.replace("20", str(number)), "text/plain")

    within(followed.walk(register), modules=140, calls=4_500, depth=32)
