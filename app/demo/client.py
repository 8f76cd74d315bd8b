"""The demo as a client of its own server: everything it does goes through HTTP, as a user would do it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from quadrill.store.errors import QuadrillError

from .data import QUERY_FILES, rdf, text_of

NDJSON = "application/x-ndjson"
TRIES = 60
TIMEOUT_SECONDS = 60.0
# The list of changes is what makes the trigger visible: rows go as well as come.
QUERY_OPTIONS: dict[str, dict[str, Any]] = {"watched-destinations": {"output": "changes"}}


class DemoError(QuadrillError):
    """The demo's server refused what the demo asked of it."""

    code = "demo"


class DemoClient:
    """Sets the demo up on a server, and sends its elements and its change.

    ``headers`` go with every request. Raises: DemoError when the server refuses one.
    """

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        # trust_env: no proxy of the environment stands between the demo and its own server.
        self._http = httpx.Client(base_url=url, headers=headers, timeout=TIMEOUT_SECONDS, trust_env=False)

    def set_up(self) -> None:
        """Load the graphs, declare the streams and register the queries, in place of an older run's."""
        for graph, (media_type, triples) in rdf.static_graphs().items():
            self._send("PUT", "store", media_type, params={"graph": graph}, content=triples)
        for name in QUERY_FILES:
            self._send("DELETE", f"queries/{name}", but=(404,))
        for stream in (rdf.DEPARTURES, rdf.WEATHER):
            self._send("DELETE", "streams", params={"iri": stream}, but=(404,))
            self._send("PUT", f"streams/{stream.rsplit('/', 1)[1]}", json={"iri": stream})
        for name, file_name in QUERY_FILES.items():
            registration = {"query": text_of(file_name)} | QUERY_OPTIONS.get(name, {})
            self._send("PUT", f"queries/{name}", json=registration)

    def push(self, stream: str, lines: Sequence[str]) -> None:
        """Send elements, one line of NDJSON each, as one push."""
        self._send("POST", "streams", NDJSON, params={"iri": stream}, content="\n".join(lines).encode())

    def heartbeat(self, stream: str, at_ms: int) -> None:
        """Move the watermark of a stream."""
        self._send("POST", "streams:heartbeat", params={"iri": stream, "at": str(at_ms)})

    def update(self, text: str) -> None:
        """Run a SPARQL update."""
        self._send("POST", "update", "application/sparql-update", content=text.encode())

    def declare_source(self, name: str, members: dict[str, Any]) -> None:
        """Declare a source, in place of an older run's."""
        self._send("PUT", f"sources/{name}", json=members)

    def source(self, name: str) -> dict[str, Any]:
        """The description of a source."""
        return dict(self._send("GET", f"sources/{name}").json())

    def drop_source(self, name: str) -> None:
        """Forget a source."""
        self._send("DELETE", f"sources/{name}", but=(404,))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _send(
        self,
        method: str,
        path: str,
        media_type: str | None = None,
        *,
        but: tuple[int, ...] = (),
        **request: Any,
    ) -> httpx.Response:
        """Send a request; wait and repeat it while the server's queues are full."""
        if media_type is not None:
            request["headers"] = {"Content-Type": media_type}
        for _ in range(TRIES):
            try:
                # With a slash in front, because `streams:` alone would read as the scheme of an address.
                answer = self._http.request(method, f"/{path}", **request)
            except httpx.HTTPError as error:
                raise DemoError(f"the demo's server does not answer {method} /{path}: {error}") from error
            if answer.status_code != 429:
                break
            time.sleep(float(answer.headers.get("Retry-After", "1")))
        if answer.is_error and answer.status_code not in but:
            raise DemoError(
                f"{method} /{path} was refused with {answer.status_code}: {_detail(answer)}",
                hint="choose a lower --speed" if answer.status_code == 429 else None,
            )
        return answer


def _detail(answer: httpx.Response) -> str:
    try:
        problem = answer.json()
        return str(problem.get("detail") or problem.get("title"))
    except (ValueError, AttributeError):
        return answer.text[:200]
