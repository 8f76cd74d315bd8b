"""Scenarios of all operations of ``/openapi.json``: by role, by method, read-only."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass

from quadrill.app import running
from quadrill.app.config import Settings

from .asking import ADMIN, CONTINUOUS, TOKENS, ask, bearer, setting_up
from .replay import Scenario, Step
from .wire import Connection

_NAMES = {
    "/store/{path}": "/store/made",
    "{name}/results": "{name}/results",
    "/jobs/{job_id}": "/jobs/none",
    "/processes/{process_id}": "/processes/none",
}
_BY_KIND = {
    "/streams": "s", "/queries": "q", "/stored-queries": "all", "/rules": "r",
    "/sources": "hook", "/sinks": "out",
}  # fmt: skip
_BODIES = {
    "application/sparql-query": "SELECT ?s { ?s ?p 1 }",
    "application/sparql-update": "INSERT DATA { <urn:n> <urn:p> 3 }",
    "application/json": "{}",
    "text/turtle": "<urn:t> <urn:p> 4 .",
    "application/x-www-form-urlencoded": "prefix=ey&uri=http://e/",
    "text/plain": CONTINUOUS,
}
_PARAMETERS = {
    "/why": "?quad=<urn:s>+<urn:p>+<urn:o>",
    "/streams get": "", "/streams": "?iri=http://localhost/s", "/streams/history": "?iri=http://localhost/s",
    "/streams:map": "?iri=http://localhost/s", "/streams:heartbeat": "?iri=http://localhost/s&at=9000",
    "/streams:reset-time": "?iri=http://localhost/s", "/streams/{name}:heartbeat": "?at=8000",
    "/streams/{name} post": "?at=7000", "/streams post": "?iri=http://localhost/s&at=6000",
    "/query get": "?query=ASK%7B%7D", "/sparql get": "?query=SELECT%20%3Fs%7B%3Fs%20%3Fp%201%7D",
    "/store": "?graph=urn:g", "/prefixes delete": "?prefix=ex", "/queries post": "?name=q2",
    "/queries:validate": "?name=q", "/queries:preview": "?last=1",
    "/queries/{name}/replay": "?from=0",
}  # fmt: skip
_ORDER = ("head", "get", "x-query", "query", "post", "patch", "put", "delete")


@dataclass(frozen=True)
class Operation:
    """One operation of the document: its method, its path, and a request that it takes."""

    method: str
    path: str
    target: str
    content_type: str
    body: str | None

    def request(self, *headers: str) -> Step:
        """A request for this operation."""
        given = (f"Content-Type: {self.content_type}",) if self.content_type else ()
        return ask(self.method, self.target, *given, *headers, body=self.body)


def operations() -> list[Operation]:
    """All operations, those that only read first, and deletions last."""
    with running.serve(Settings(data=":memory:", port=0)) as server:
        host = server.url.split("/")[2]
        connection = Connection((host.split(":")[0], int(host.split(":")[1])))
        connection.send([f"GET /openapi.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()])
        document = json.loads(connection.answer("GET").body)
        connection.close()
    found = []
    for method in _ORDER:
        for path, described in document["paths"].items():
            if method in described:
                content = [*described[method].get("requestBody", {}).get("content", {})]
                found.append(_operation(method.removeprefix("x-"), path, content))
    return found


def _operation(method: str, path: str, content: list[str]) -> Operation:
    target = _NAMES.get(path, path)
    for start, name in _BY_KIND.items():
        if path.startswith(start + "/"):
            target = target.replace("{name}", name)
    target = target.replace("/results/{id}/", "/results/1/")
    target += _PARAMETERS.get(f"{path} {method}", _PARAMETERS.get(path, ""))
    kind = content[0] if content else ""
    body = _BODIES[kind] if content else ("" if method in ("post", "put", "patch") else None)
    if path.startswith("/update:"):
        kind, body = "application/sparql-update", "DELETE WHERE { ?s ?p 9 }"
    elif path.endswith(":map"):
        body = "{}"
    elif path == "/rules/{name}" and method == "put":
        body = json.dumps({"rules": ["CONSTRUCT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }"], "into": "urn:r"})
    elif path == "/backups":
        body = '{"to": "b"}'
    elif path == "/login":
        kind, body = "application/json", json.dumps({"token": ADMIN})
    elif path in ("/sources/{name}", "/sinks/{name}") and method == "put":
        body = (
            '{"kind": "webhook", "stream": "http://localhost/s"}'
            if "sources" in path
            else '{"kind": "file", "query": "q"}'
        )
    elif path == "/queries/{name}" and method == "patch":
        body = '{"state": "paused"}'
    return Operation(method.upper(), path, target, kind, body)


def scenarios() -> Iterator[Scenario]:
    """All operations for each role and read-only; all paths with methods that they do not have."""
    found = operations()
    folder = {"sink_folder": "$FOLDER", "max_wrong_tokens": 0}
    for role in ("read", "push", "write", "admin"):
        steps = [*setting_up(bearer("admin")), *(each.request(bearer(role)) for each in found)]
        yield Scenario(f"operations-{role}", folder, TOKENS, steps)
    no_token = [each.request() for each in found]
    wrong = [each.request("Authorization: Bearer wrong-token-0123456789") for each in found]
    yield Scenario("operations-refused", {**folder, "max_wrong_tokens": 1000}, TOKENS, no_token + wrong)
    yield Scenario("operations-read-only", {"read_only": True}, {}, [each.request() for each in found])
    yield Scenario(
        "operations-open",
        {"sink_folder": "$FOLDER"},
        {},
        [*setting_up(), *(each.request() for each in found)],
    )
    yield from _methods(found)


def _methods(found: list[Operation]) -> Iterator[Scenario]:
    has: dict[str, set[str]] = {}
    targets: dict[str, str] = {}
    for each in found:
        has.setdefault(each.path, set()).add(each.method)
        targets.setdefault(each.path, each.target)
    origin = "Origin: https://app.example"
    for first in (True, False):
        steps = setting_up()
        for path, methods in has.items():
            if path.startswith(("/s", "/queries")) is first:
                target = targets[path]
                wrong = [m for m in ("DELETE", "PATCH", "PUT", "POST", "GET", "QUERY") if m not in methods]
                wrong += [] if "GET" in methods else ["HEAD"]
                steps += [ask(method, target) for method in wrong[:3]]
                steps += [ask("HEAD", target)] if "GET" in methods else []
                steps += [ask("OPTIONS", target), ask("OPTIONS", target, origin), ask("BREW", target)]
                steps.append(ask("OPTIONS", target, origin, "Access-Control-Request-Method: " + min(methods)))
        yield Scenario("methods-" + ("streams" if first else "others"), {"sink_folder": "$FOLDER"}, {}, steps)
