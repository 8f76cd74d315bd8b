"""Short forms for the requests of scenarios."""

from __future__ import annotations

from typing import Any

from .replay import Step

ADMIN = "admin-token-0123456789"
TOKENS = {f"{role}-token-0123456789": role for role in ("read", "push", "write")} | {ADMIN: "admin"}
TURTLE, QUADS = "Content-Type: text/turtle", "Content-Type: application/n-quads"
JSON, LINES = "Content-Type: application/json", "Content-Type: application/x-ndjson"
TEXT, FORM = "Content-Type: text/plain", "Content-Type: application/x-www-form-urlencoded"
QUERY, UPDATE = "Content-Type: application/sparql-query", "Content-Type: application/sparql-update"
CONTINUOUS = "SELECT ?s ?o WHERE { STREAM <http://localhost/s> [NOW] { ?s <urn:v> ?o } }"
GRAPHS = (
    'INSERT DATA { <urn:a> <urn:p> 1 . <urn:b> <urn:p> "zwei"@de . '
    "GRAPH <urn:g> { <urn:a> <urn:p> <urn:c> } }"
)


def bearer(role: str) -> str:
    """The header of a token of this role."""
    return f"Authorization: Bearer {role}-token-0123456789"


def message(
    method: str,
    target: str,
    *headers: str,
    body: str | None = None,
    version: str = "1.1",
    host: str = "$HOST",
) -> str:
    """The text of a request; its length is announced unless a header says how the body comes."""
    lines = [f"{method} {target} HTTP/{version}"]
    if host:
        lines.append(f"Host: {host}")
    lines += headers
    names = {line.split(":")[0].lower() for line in headers}
    if body is not None and not names & {"content-length", "transfer-encoding"}:
        lines.append(f"Content-Length: {len(body.encode('latin-1'))}")
    return "\r\n".join((*lines, "", body or ""))


def ask(method: str, target: str, *headers: str, body: str | None = None, **more: Any) -> Step:
    """One request on the connection that is open."""
    given = {name: more.pop(name) for name in ("version", "host") if name in more}
    return Step([message(method, target, *headers, body=body, **given)], **more)


def in_chunks(*parts: str) -> str:
    """A chunked body."""
    return "".join(f"{len(part):x}\r\n{part}\r\n" for part in (*parts, ""))


def setting_up(*headers: str) -> list[Step]:
    """Requests that fill a server: graphs, a stream, queries, a source, a sink, a prefix."""
    line = '{"at": 1000, "data": "<urn:s> <urn:v> <urn:o> ."}\n'
    return [
        ask("POST", "/update", UPDATE, *headers, body=GRAPHS),
        ask("PUT", "/streams/s", JSON, *headers, body='{"iri": "http://localhost/s"}'),
        ask("PUT", "/queries/q", TEXT, *headers, body=CONTINUOUS),
        ask("POST", "/streams/s?wait=true", LINES, *headers, body=line),
        ask("PUT", "/stored-queries/all", QUERY, *headers, body="SELECT ?o { ?s ?p ?o } ORDER BY ?o"),
        ask("POST", "/prefixes", FORM, *headers, body="prefix=ex&uri=http://example.org/"),
        ask(
            "PUT", "/sources/hook", JSON, *headers, body='{"kind": "webhook", "stream": "http://localhost/s"}'
        ),
        ask("PUT", "/sinks/out", JSON, *headers, body='{"kind": "file", "query": "q", "path": "out.ndjson"}'),
    ]
