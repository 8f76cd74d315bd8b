"""The demo as a client of its own server: everything it does goes through HTTP, as a user would do it."""

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
TIMEOUT_SECONDS = 60.0
NOT_FOUND, QUEUES_FULL = 404, 429
T = TypeVar("T")
# The list of changes is what makes the trigger visible: rows go as well as come.
QUERY_OPTIONS: dict[str, dict[str, Any]] = {"watched-destinations": {"output": "changes"}}


class DemoError(ReportedError):
    """Error that the demo's server rejected a request of the demo."""

    code = "demo"


class DemoClient:
    """Sets the demo up on a server, and sends its elements and its change.

    Raises: DemoError when the server refuses a request.
    """

    def __init__(self, url: str, token: str | None) -> None:
        # No proxy of the environment stands between the demo and its own server.
        self._server = Client(url, token=token, timeout=TIMEOUT_SECONDS, trust_env=False)

    def set_up(self) -> None:
        """Load the graphs, declare the streams and register the queries, in place of an older run's."""
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
        """Send elements, one line of NDJSON each, as one push."""
        self._ask(self._server.push, stream, "\n".join(lines), media_type=NDJSON)

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Move the watermark of a stream."""
        self._ask(self._server.heartbeat, stream, at_ms)

    def update(self, text: str) -> None:
        """Run a SPARQL update."""
        self._ask(self._server.update, text)

    def declare_source(self, name: str, members: dict[str, Any]) -> None:
        """Declare a source, in place of an older run's."""
        self._ask(self._server.sources.declare, name, **members)

    def source(self, name: str) -> dict[str, Any]:
        """The description of a source."""
        return self._ask(self._server.sources.describe, name)

    def drop_source(self, name: str) -> None:
        """Drop a source of the server."""
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
        """Call a method of the client; what it drops may be missing."""
        try:
            self._ask(method, *given, **named)
        except DemoError as error:
            if getattr(error.__cause__, "status", None) != NOT_FOUND:
                raise

    def _ask(self, method: Callable[..., T], *given: Any, **named: Any) -> T:
        """Call a method of the client; repeat it for as long as the server's queues are full."""
        for left in range(TRIES - 1, -1, -1):
            try:
                return method(*given, **named)
            except RefusedError as error:
                full = error.status == QUEUES_FULL
                if not full or not left:
                    hint = "choose a lower --speed" if full else error.hint
                    raise DemoError(
                        f"the demo's server refused a request: {error.message}", hint=hint
                    ) from error
                time.sleep(error.retry_after or 1.0)
        raise AssertionError("the last try returns or raises")
