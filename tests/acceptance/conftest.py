"""One server for the whole folder; each test leaves it empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from .bench import Bench, Server


@pytest.fixture(scope="session")
def live() -> Iterator[Server]:
    server = Server("--data", ":memory:")
    yield server
    assert server.stop() == 0


@pytest.fixture
def bench(live: Server) -> Iterator[Bench]:
    """An empty store, no query, no stream."""
    made = Bench(live)
    made.update("DROP ALL")
    yield made
    made.close()
