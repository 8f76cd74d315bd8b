"""A server on the loopback interface that does as it is told: an endpoint, a document, or trouble."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs

from quadrill.store.quads.quad_store import QuadStore

E = "http://example.org/"
JSON_RESULTS = "application/sparql-results+json"
Answer = tuple[int, dict[str, str], bytes | None]
"""Status, headers, body; without a body it drips until the client leaves."""
Handle = Callable[["Asked"], Answer]


class Asked:
    """One request: its path, headers in lower case, and the query of a form."""

    def __init__(self, method: str, path: str, headers: dict[str, str], body: bytes) -> None:
        self.method, self.path, self.headers = method, path, headers
        self.query = parse_qs(body.decode()).get("query", [""])[0]


class Endpoint:
    """Answers by ``handle``, which tests exchange; ``asked`` holds every request."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.store = QuadStore.open(None)
        self.handle: Handle = self.sparql
        # Set when a request that hangs may go on.
        self.go_on = threading.Event()
        self.hanging = threading.Event()
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, self.path, headers, body)
                endpoint.asked.append(asked)
                status, given, answer = endpoint.handle(asked)
                try:
                    self.send_response(status)
                    for name, value in given.items():
                        self.send_header(name, value)
                    if answer is not None:
                        self.send_header("Content-Length", str(len(answer)))
                    self.end_headers()
                    while answer is None and not endpoint.go_on.wait(0.05):
                        self.wfile.write(b" ")
                    self.wfile.write(answer or b"")
                except (BrokenPipeError, ConnectionResetError):
                    return

            do_POST = do_GET

            def log_message(self, *args: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}/"

    def update(self, text: str) -> None:
        """Change what the endpoint holds."""
        self.store.writer.update(f"PREFIX : <{E}> {text}")

    def sparql(self, asked: Asked) -> Answer:
        """A SPARQL endpoint over the store."""
        names, rows = self.store.reader.solutions(asked.query)
        bindings = [
            {name: _json(term) for name, term in zip(names, row, strict=True) if term is not None}
            for row in rows
        ]
        document = {"head": {"vars": names}, "results": {"bindings": bindings}}
        return 200, {"Content-Type": JSON_RESULTS}, json.dumps(document).encode()

    def turtle(self, body: str, **headers: str) -> Handle:
        """A document."""
        given = {"Content-Type": "text/turtle", **headers}
        return lambda asked: (200, given, f"@prefix : <{E}> .\n{body}".encode())

    def always(self, status: int, body: bytes = b"", **headers: str) -> Handle:
        """The same answer to everything."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        return lambda asked: (status, given, body)

    def hang(self, asked: Asked) -> Answer:
        """No answer until the test allows it."""
        self.hanging.set()
        self.go_on.wait(20)
        return self.sparql(asked)

    def drip(self, asked: Asked) -> Answer:
        """A byte now and then, without an end."""
        return 200, {"Content-Type": JSON_RESULTS}, None

    def close(self) -> None:
        """End the server."""
        self.go_on.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
        self.store.close()


def _json(term: Any) -> dict[str, Any]:
    from quadrill.store.results import term_json

    return term_json(term)


@contextmanager
def endpoint() -> Iterator[Endpoint]:
    """A server that is closed at the end."""
    one = Endpoint()
    try:
        yield one
    finally:
        one.close()
