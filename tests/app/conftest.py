"""Real servers on free loopback ports, in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import Settings


class LiveServer:
    """A running server and a client for it."""

    def __init__(self, server: running.RunningServer) -> None:
        self.url = server.url
        self.services = server.services
        self.client = httpx.Client(base_url=server.url, timeout=20)

    def query(
        self, text: str, accept: str = "application/sparql-results+json", **parameters: Any
    ) -> httpx.Response:
        headers = {"Accept": accept, "Content-Type": "application/sparql-query"}
        return self.client.post("/query", content=text, headers=headers, params=parameters)

    def update(self, text: str, **parameters: Any) -> httpx.Response:
        headers = {"Content-Type": "application/sparql-update"}
        return self.client.post("/update", content=text, headers=headers, params=parameters)

    def boolean(self, text: str) -> bool:
        answer = self.query(text)
        assert answer.status_code == 200, answer.text
        return bool(answer.json()["boolean"])


Start = Callable[..., LiveServer]


@pytest.fixture
def start_server() -> Iterator[Start]:
    """Starts servers with the settings given; in memory on a free port by default."""
    with ExitStack() as stack:

        def start(**settings: Any) -> LiveServer:
            given = Settings(**{"data": ":memory:", "port": 0, **settings})
            live = LiveServer(stack.enter_context(running.serve(given)))
            stack.callback(live.client.close)
            return live

        yield start


@pytest.fixture(scope="module")
def shared_server() -> Iterator[LiveServer]:
    """One server for the tests of a module, emptied before each by `server`."""
    with running.serve(Settings(data=":memory:", port=0)) as found:
        live = LiveServer(found)
        yield live
        live.client.close()


@pytest.fixture
def server(shared_server: LiveServer) -> LiveServer:
    """A running server with an empty store, without shapes and without rule sets."""
    for shapes in reversed(shared_server.client.get("/shapes").json()["shapes"]):
        shared_server.services.shapes.delete(shapes["name"])
    for name in reversed(shared_server.services.rules.names()):
        shared_server.services.rules.delete(name)
    shared_server.services.store.writer.replace_dataset(())
    return shared_server


def problem_of(answer: httpx.Response, status: int) -> dict[str, Any]:
    """The problem document of an answer, checked to have its one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail"} <= set(document)
    assert document["status"] == status
    assert document["type"].startswith("urn:quadrill:problem:")
    assert "Traceback" not in answer.text
    return document
