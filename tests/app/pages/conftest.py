"""A browser and a server for the tests of the page, and what these tests send to the server."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from quadrill.app import running
from quadrill.app.config import load_settings

from .browser import Page, chromium

PREFIX = "PREFIX ex: <http://example.org/>\n"


@contextlib.contextmanager
def served(**settings: object) -> Iterator[str]:
    """The address of a server with these settings; in memory on a free port by default."""
    values = {"data": ":memory:", "port": 0, **settings}
    with running.serve(load_settings(overrides=values, environment={})) as server:
        yield server.url.rstrip("/")


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    """The address of one server for the tests of a module, emptied after each by `client`."""
    with served() as url:
        yield url


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[object]:
    """One browser for all tests of the page; what it keeps belongs to the address of a module's server."""
    with chromium(tmp_path_factory.mktemp("profile")) as started:
        yield started


@pytest.fixture
def page(driver: object, base: str) -> Iterator[Page]:
    """The browser at the module's server; its console must stay silent."""
    shown = Page(driver, base)  # type: ignore[arg-type]
    shown.complaints()
    yield shown
    assert shown.complaints() == []


@pytest.fixture
def client(base: str) -> Iterator[httpx.Client]:
    """A client of the module's server, which is emptied afterwards."""
    with httpx.Client(base_url=base, timeout=30) as started:
        yield started
        for query in started.get("/queries").json()["queries"]:
            started.delete(f"/queries/{query['name']}").raise_for_status()
        for stream in started.get("/streams").json()["streams"]:
            started.delete("/streams", params={"iri": stream["iri"]}).raise_for_status()
        for shapes in reversed(started.get("/shapes").json()["shapes"]):
            started.delete(f"/shapes/{shapes['name']}").raise_for_status()
        for rules in reversed(started.get("/rules").json()["rules"]):
            started.delete(f"/rules/{rules['name']}").raise_for_status()
        update(started, "DROP ALL")


def update(client: httpx.Client, text: str) -> None:
    """Run a SPARQL update."""
    headers = {"Content-Type": "application/sparql-update"}
    client.post("/update", content=text, headers=headers).raise_for_status()


def register(client: httpx.Client, name: str, text: str, **options: object) -> None:
    """Register a continuous query."""
    client.post("/queries", json={"name": name, "query": text, **options}).raise_for_status()


def put_shapes(client: httpx.Client, name: str, turtle: str, **parameters: object) -> None:
    """Put shapes; the parameters are those of the request."""
    headers = {"Content-Type": "text/turtle"}
    wanted: dict[str, Any] = parameters
    client.put(f"/shapes/{name}", content=turtle, params=wanted, headers=headers).raise_for_status()


def push(client: httpx.Client, turtle: str, at: int, stream: str = "http://example.org/readings") -> None:
    """Push Turtle as one element and wait for its results."""
    client.post(
        "/streams",
        params={"iri": stream, "at": at, "wait": "true"},
        content=turtle,
        headers={"Content-Type": "text/turtle"},
    ).raise_for_status()
