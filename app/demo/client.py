"""HTTP client of the demo's own server, which uses only the public HTTP API."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from quadrill.client import Client
from quadrill.client import QuadrillError as RefusedError
from quadrill.store.errors import ReportedError

from .data import QUERY_FILES, rdf, text_of

NDJSON = "application/x-ndjson"
TRIES = 60
"""Maximum attempts of a request of the demo while the server's queues are full."""
TIMEOUT_SECONDS = 60.0
"""Maximum seconds that a request of the demo waits for a response of the server."""
NOT_FOUND, QUEUES_FULL = 404, 429
T = TypeVar("T")
# With the output "changes", the feed shows inserted and deleted rows after the watch list changes.
QUERY_OPTIONS: dict[str, dict[str, Any]] = {"watched-destinations": {"output": "changes"}}


class DemoError(ReportedError):
    """Error that the demo's server rejected a request of the demo."""

    code = "demo"


class DemoClient:
    """Client that sets up the demo's streams and queries on a server, pushes elements and runs updates.

    Raises: DemoError when the server rejects a request.
    """

    def __init__(self, url: str, token: str | None) -> None:
        # The demo's server runs in this process, so proxies of the environment are ignored.
        self._server = Client(url, token=token, timeout=TIMEOUT_SECONDS, trust_env=False)

    def set_up(self) -> None:
        """Load the demo's graphs, streams and queries into the server; replace those of an earlier run."""
        server = self._server
        for graph, (media_type, triples) in rdf.static_graphs().items():
            headers = {"Content-Type": media_type}
            self._ask(
                server.request, "PUT", "store", headers=headers, params={"graph": graph}, content=triples
            )
        for name in QUERY_FILES:
            self._drop(server.drop, name)
        for stream in (rdf.DEPARTURES, rdf.WEATHER):
            self._drop(server.request, "DELETE", "streams", params={"iri": stream})
            self._ask(server.declare_stream, stream.rsplit("/", 1)[1], iri=stream)
        for name, file_name in QUERY_FILES.items():
            self._ask(server.register, text_of(file_name), name=name, **QUERY_OPTIONS.get(name, {}))

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Push elements, one NDJSON line each, to a stream in one request."""
        self._ask(self._server.push, stream, "\n".join(lines), media_type=NDJSON)

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Advance the watermark of a stream by a heartbeat."""
        self._ask(self._server.heartbeat, stream, at_ms)

    def update(self, text: str) -> None:
        """Run a SPARQL update on the demo's server."""
        self._ask(self._server.update, text)

    def declare_source(self, name: str, members: dict[str, Any]) -> None:
        """Declare a source; replace a source with the same name."""
        self._ask(self._server.sources.declare, name, **members)

    def source(self, name: str) -> dict[str, Any]:
        """Return the server's description of a source."""
        return self._ask(self._server.sources.describe, name)

    def drop_source(self, name: str) -> None:
        """Delete a source of the demo's server, if the source exists."""
        self._drop(self._server.sources.drop, name)

    def close(self) -> None:
        """Close the connections to the demo's server."""
        self._server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _drop(self, method: Callable[..., object], *given: Any, **named: Any) -> None:
        """Call a method that deletes an object of the server, and ignore the status 404."""
        try:
            self._ask(method, *given, **named)
        except DemoError as error:
            if getattr(error.__cause__, "status", None) != NOT_FOUND:
                raise

    def _ask(self, method: Callable[..., T], *given: Any, **named: Any) -> T:
        """Call a method of the HTTP client; retry at most 59 times while the server's queues are full."""
        for left in range(TRIES - 1, -1, -1):
            try:
                return method(*given, **named)
            except RefusedError as error:
                full = error.status == QUEUES_FULL
                if not full or not left:
                    hint = "choose a lower --speed" if full else error.hint
                    raise DemoError(
                        f"the demo's server rejected a request: {error.message}", hint=hint
                    ) from error
                time.sleep(error.retry_after or 1.0)
        raise AssertionError("the last try returns or raises")
