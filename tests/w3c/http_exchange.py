"""Plays the HTTP exchanges that the protocol manifests describe.

A case is a list of requests, each with what its response must be: allowed status codes or classes, a kind of
result, a boolean, a Location that later requests use, or an RDF body to be matched up to isomorphism.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import urljoin

import httpx
from pyoxigraph import Literal, NamedNode, RdfFormat, parse

from tests.w3c.compare import graphs_equal
from tests.w3c.manifests import MF, Case, Graph, Node

HT = "http://www.w3.org/2011/http#"
CNT = "http://www.w3.org/2011/content#"
STATUS = "http://www.w3.org/2011/http-statusCodes#"
NAMED_STATUS = {
    "OK": 200,
    "Created": 201,
    "NoContent": 204,
    "BadRequest": 400,
    "NotFound": 404,
    "UnsupportedMediaType": 415,
}
FORMATS = {
    "boolean": ("application/sparql-results+json", "application/sparql-results+xml"),
    "tabular": (
        "application/sparql-results+json",
        "application/sparql-results+xml",
        "text/csv",
        "text/tab-separated-values",
    ),
    "RDF": ("text/turtle", "application/rdf+xml", "application/n-triples", "application/n-quads"),
}


@dataclass(frozen=True)
class Exchange:
    """One request and the node that describes its response."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    body: bytes
    response: Node


def exchanges(case: Case) -> list[Exchange]:
    """The requests of a case, in order."""
    graph = case.graph
    action = graph.one(case.node, MF + "action")
    found = []
    for request in graph.members(graph.one(action, HT + "requests")):
        body = graph.one(request, HT + "body")
        encoding = _text(graph, body, CNT + "characterEncoding") or "UTF-8"
        response = graph.one(request, HT + "resp")
        assert response is not None
        found.append(
            Exchange(
                method=_text(graph, request, HT + "methodName"),
                path=_text(graph, request, HT + "absolutePath"),
                headers=_headers(graph, request),
                body=_text(graph, body, CNT + "chars").encode(encoding) if body is not None else b"",
                response=response,
            )
        )
    return found


def play(case: Case, client: httpx.Client, *, paths: dict[str, str]) -> None:
    """Sends every request of the case and checks every response; ``paths`` maps path prefixes to ours."""
    variables: dict[str, str] = {}
    origin = str(client.base_url).rstrip("/")
    for exchange in exchanges(case):
        target = _filled(exchange.path, variables)
        if not target.startswith(origin):
            prefix = next(p for p in paths if target.startswith(p))
            target = paths[prefix] + target.removeprefix(prefix)
        body = _filled(exchange.body.decode("utf-8"), variables).encode() if variables else exchange.body
        request = client.build_request(
            exchange.method,
            target.replace("$HOST$", origin),
            content=body,
            headers=_sendable(exchange.headers),
        )
        for name in ("Content-Type", "Accept"):
            if name.lower() not in {n.lower() for n, _ in exchange.headers}:
                request.headers.pop(name, None)
        _check(case.graph, exchange, client.send(request), variables)


def _check(graph: Graph, exchange: Exchange, answer: httpx.Response, variables: dict[str, str]) -> None:
    node = exchange.response
    what = f"{exchange.method} {exchange.path} -> {answer.status_code} {answer.text[:300]}"
    allowed = [
        s.value.removeprefix(STATUS)
        for s in graph.all(node, MF + "expectedStatus")
        if isinstance(s, NamedNode)
    ]
    assert not allowed or any(_fits(answer.status_code, name) for name in allowed), (
        f"{what}; allowed {allowed}"
    )
    media_type = answer.headers.get("Content-Type", "").split(";")[0]
    kind = _text(graph, node, MF + "expectedFormat")
    if kind:
        assert media_type in FORMATS[kind], f"{what}; {media_type} is not {kind}"
    boolean = graph.one(node, MF + "expectedBoolean")
    if isinstance(boolean, Literal):
        assert answer.json()["boolean"] is (boolean.value == "true"), what
    location = _text(graph, node, MF + "expectedLocation")
    if location:
        assert "Location" in answer.headers, what
        variables[location] = urljoin(str(answer.request.url), answer.headers["Location"])
    body = graph.one(node, HT + "body")
    if body is not None and graph.one(body, CNT + "chars") is not None:
        declared = dict((n.lower(), v) for n, v in _headers(graph, node)).get("content-type", "text/turtle")
        expected_form = RdfFormat.from_media_type(declared.split(";")[0])
        actual_form = RdfFormat.from_media_type(media_type)
        assert expected_form is not None and actual_form is not None, what
        base = str(answer.request.url)
        expected = set(parse(_text(graph, body, CNT + "chars").encode(), format=expected_form, base_iri=base))
        assert graphs_equal(set(parse(answer.content, format=actual_form, base_iri=base)), expected), what


def _fits(status: int, name: str) -> bool:
    classed = re.fullmatch(r"StatusCode(\d)xx", name)
    return status // 100 == int(classed[1]) if classed else status == NAMED_STATUS[name]


def _headers(graph: Graph, node: Node) -> tuple[tuple[str, str], ...]:
    listed = graph.members(graph.one(node, HT + "headers"))
    return tuple((_text(graph, h, HT + "fieldName"), _text(graph, h, HT + "fieldValue")) for h in listed)


def _sendable(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
    return [(n, v) for n, v in headers if n.lower() not in ("content-length", "host")]


def _text(graph: Graph, node: Node | None, predicate: str) -> str:
    found = graph.one(node, predicate)
    return found.value if isinstance(found, Literal) else ""


def _filled(text: str, variables: dict[str, str]) -> str:
    for name, value in variables.items():
        text = text.replace(name, value)
    return text
