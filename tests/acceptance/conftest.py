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


@pytest.fixture(scope="session")
def live_small() -> Iterator[Server]:
    """A server whose limits are small."""
    environment = {
        "QUADRILL_FEED_HISTORY": "5",
        "QUADRILL_SSE_HEARTBEAT": "1",
        "QUADRILL_MAX_PUSH_BYTES": "2000",
        "QUADRILL_MAX_QUERY_BYTES": "2000",
        "QUADRILL_MAX_BODY_BYTES": "2000",
        "QUADRILL_AUTO_DECLARE_STREAMS": "false",
        "QUADRILL_IDLE_TIMEOUT": "1h",
    }
    server = Server("--data", ":memory:", environment=environment)
    yield server
    assert server.stop() == 0
