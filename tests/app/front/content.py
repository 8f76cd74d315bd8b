"""Scenarios of content: formats, compression, preconditions, origins."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

from .asking import (
    CONTINUOUS,
    FORM,
    JSON,
    LINES,
    QUADS,
    QUERY,
    TOKENS,
    TURTLE,
    UPDATE,
    ask,
    bearer,
    setting_up,
)
from .replay import Scenario, Step

SELECT, ASK = "/query?query=" + quote("SELECT ?s ?o { ?s ?p ?o } ORDER BY ?s"), "/query?query=ASK%7B%7D"
CONSTRUCT = "/query?query=" + quote("CONSTRUCT { ?s <urn:q> ?o } WHERE { ?s ?p ?o FILTER(?o = 1) }")
LARGE = "/query?query=" + quote("SELECT * { VALUES ?v { " + "'a text that is long enough' " * 40 + "} }")
_RESULTS = (
    "application/sparql-results+json",
    "application/json",
    "application/sparql-results+xml",
    "text/csv",
    "text/tab-separated-values",
    "text/xml",
)
_GRAPHS = (
    "text/turtle",
    "application/n-triples",
    "application/rdf+xml",
    "application/ld+json",
    "application/n-quads",
    "application/trig",
    "application/trix",
    "application/hex+x-ndjson",
)
_CHOICES = (
    "*/*",
    "text/*",
    "application/*;q=0.5, text/csv",
    "text/csv;q=0, */*",
    "text/csv;q=0.2, application/sparql-results+xml;q=0.7, text/turtle;q=0.9",
    "image/png",
    "text/html",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/event-stream",
    "text/csv; charset=utf-8",
    "text/csv;q=nonsense",
    ",",
    "application/n-triples;q=0.9, text/turtle;q=0.9",
)


def scenarios() -> Iterator[Scenario]:
    """All scenarios of content."""
    yield Scenario("formats", {}, {}, [*setting_up(), *_formats()])
    for packed in (True, False):
        steps = [*setting_up(), *_compressed()]
        yield Scenario(
            "compression" if packed else "compression-off", {"gzip": packed, "workers": 0}, {}, steps
        )
    yield Scenario("workers", {"workers": 1}, {}, [*_heavy()])
    yield Scenario("inferred", {"workers": 0}, {}, [*setting_up(), *_inferred()])
    yield Scenario("preconditions", {}, {}, _preconditions())
    listed = {"cors_origins": ["https://app.example", "http://localhost:3000"]}
    yield Scenario("origins-none", {}, {}, _origins(few=True))
    yield Scenario("origins-listed", listed, {}, _origins())
    yield Scenario("origins-any", {"cors_origins": ["*"]}, {}, _origins(few=True))
    yield Scenario("origins-tokens", listed, TOKENS, _origins(bearer("write"), few=True))


def _inferred() -> Iterator[Step]:
    """Requests over a store with a rule set: queries, exports, registrations and writes."""
    rule = "CONSTRUCT { ?s <urn:q> ?o } WHERE { ?s <urn:p> ?o }"
    yield ask("PUT", "/rules/r?wait=true", JSON, body=json.dumps({"rules": [rule], "into": "urn:r"}))
    count = "SELECT (COUNT(*) AS ?n) { ?s ?p ?o }"
    for value in ("r", "none", "other", ""):
        yield ask("POST", f"/query?entailment={value}", QUERY, body=count)
        yield ask("POST", "/sparql", FORM, body=f"query={quote(count)}&entailment={value}")
        yield ask("GET", f"/stored-queries/all/results?entailment={value}")
        registration = json.dumps({"query": "SELECT * { ?s <urn:q> ?o }", "entailment": value})
        yield ask("PUT", f"/queries/entailed-{value}", JSON, body=registration)
    windows = json.dumps({"query": CONTINUOUS, "entailment": "r"})
    yield ask("POST", "/queries:validate", JSON, body=windows)
    for target in ("/store", "/store?inferred=true", "/store?inferred=maybe", "/store?graph=urn:r"):
        yield ask("GET", target, "Accept: application/trig, application/n-triples;q=0.5")
    yield ask("POST", "/update?entailment=r", UPDATE, body="INSERT DATA { <urn:n> <urn:p> 3 }")
    yield ask(
        "POST", "/update", UPDATE, "Prefer: return=representation", body="INSERT DATA { <urn:n> <urn:p> 3 }"
    )
    yield ask("DELETE", "/rules/r")
    yield ask("PUT", "/rules/none", JSON, body=json.dumps({"rules": [rule], "into": "urn:none"}))


def _formats() -> Iterator[Step]:
    for target, offers in (
        (SELECT, (*_RESULTS, *_CHOICES, "text/turtle")),
        (ASK, (*_RESULTS, "image/png")),
        (CONSTRUCT, (*_GRAPHS, *_CHOICES, "text/csv")),
        ("/store?graph=urn:g", (*_GRAPHS, *_CHOICES[:8])),
        ("/store", (*_GRAPHS[4:], "text/turtle", "*/*", "image/png")),
        ("/queries/q/results", (*_RESULTS, "text/html", "image/png", "text/turtle")),
        ("/stored-queries/all/results", ("text/csv", "image/png")),
        ("/queries/q/explain", ("text/plain", "application/json", "image/png")),
        ("/", ("text/html", "text/turtle", "application/ld+json", "*/*", "image/png")),
        ("/query", ("text/turtle", "application/rdf+xml", "text/html", "image/png")),
        ("/sparql", ("*/*", "application/n-triples")),
        ("/streams/s/dead-letters", ("application/json", "image/png")),
        ("/jobs", ("application/json", "image/png")),
        ("/nowhere", ("text/html", "application/json", "application/problem+json")),
        ("/query?query=nonsense", ("text/html", "text/csv", "image/png")),
    ):
        for accept in offers:
            yield ask("GET", target, f"Accept: {accept}")
    for accept in ("text/csv", "image/png", "application/sparql-results+xml"):
        yield ask("POST", "/query", QUERY, f"Accept: {accept}", body="SELECT ?s { ?s ?p 1 }")
        yield ask("POST", "/sparql", QUERY, f"Accept: {accept}", body="SELECT ?s { ?s ?p 1 }")
        yield ask("QUERY", "/query", QUERY, f"Accept: {accept}", body="ASK { ?s ?p 1 }")
    yield ask("GET", SELECT, "Accept: text/csv", "Accept: application/json")
    yield ask("GET", SELECT, "Accept:")
    yield ask("HEAD", SELECT, "Accept: text/csv")
    yield ask("HEAD", SELECT, "Accept: image/png")


def _compressed() -> Iterator[Step]:
    many = "".join(f"<urn:s{number}> <urn:p> <urn:o> <urn:many> .\n" for number in range(60))
    yield ask("POST", "/store", QUADS, body=many)
    codings = (
        "gzip",
        "gzip;q=0",
        "identity",
        "*",
        "deflate",
        "gzip;q=0.5, identity",
        "br, gzip",
        "x-gzip",
        "GZIP",
    )
    targets = (
        LARGE,
        "/store?graph=urn:many",
        "/queries/q",
        "/openapi.json",
        "/ui/static/quadrill.css",
        "/metrics",
    )
    for target in targets:
        for coding in codings if target in (LARGE, "/queries/q") else codings[:3]:
            yield ask("GET", target, f"Accept-Encoding: {coding}")
        yield ask("HEAD", target, "Accept-Encoding: gzip")
    for target in (SELECT, ASK, "/nowhere", "/query?query=" + "x" * 1500, "/", "/ui/streams", "/health/live"):
        yield ask("GET", target, "Accept-Encoding: gzip")
    yield ask(
        "POST", "/query", QUERY, "Accept-Encoding: gzip", body="SELECT * { GRAPH <urn:many> { ?s ?p ?o } }"
    )
    yield ask("GET", "/store?graph=urn:many", "Accept-Encoding: gzip", version="1.0")
    yield ask("GET", LARGE, "Accept-Encoding: gzip", version="1.0", fresh=True)
    yield ask("GET", "/changes", "Accept: text/event-stream", "Accept-Encoding: gzip", fresh=True)


def _heavy() -> Iterator[Step]:
    """Queries and updates that a worker process evaluates."""
    for headers in (
        (),
        ("Accept-Encoding: gzip",),
        ("Accept: text/csv",),
        ("Accept: image/png",),
        ("If-None-Match: *",),
    ):
        yield ask("GET", LARGE, *headers)
    yield ask("HEAD", LARGE)
    yield ask("GET", LARGE, version="1.0", fresh=True)
    yield ask(
        "POST", "/query?timeout=60", QUERY, body="SELECT (COUNT(*) AS ?n) { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i }"
    )


def _preconditions() -> list[Step]:
    steps = setting_up()
    one = "<urn:x> <urn:p> <urn:o> ."
    values = ("*", '"1"', 'W/"1"', '"0"', '"99"', '"0", "1"', "1", '"x"', "", '"1')
    for name in ("If-Match", "If-None-Match"):
        for value in values:
            given = f"{name}: {value}"
            steps += [
                ask("GET", "/store?graph=urn:g", given),
                ask("PUT", "/store?graph=urn:new", TURTLE, given, body=one),
                ask("DELETE", "/store?graph=urn:new", given),
            ]
        for value in values[:6]:
            given = f"{name}: {value}"
            steps += [
                ask("POST", "/store?graph=urn:g", TURTLE, given, body=one),
                ask("GET", SELECT, given),
                ask("POST", "/update", UPDATE, given, body="INSERT DATA { <urn:u> <urn:p> 1 }"),
                ask("HEAD", "/store", given),
                ask("GET", "/jobs", given),
                ask("GET", "/queries/q/results", given),
            ]
    for prefer in (
        "return=representation",
        "return=minimal",
        'return="representation"',
        "respond-async",
        "RETURN=representation, wait=1",
    ):
        given = f"Prefer: {prefer}"
        steps += [
            ask("POST", "/update", UPDATE, given, body="INSERT DATA { <urn:u> <urn:p> 1, 2 }"),
            ask("PUT", "/store?graph=urn:new", TURTLE, given, body=one),
            ask("POST", "/store?default", TURTLE, given, body=one),
            ask("DELETE", "/store?graph=urn:new", given),
        ]
    steps += [
        ask("POST", "/sparql", UPDATE, "Prefer: return=representation", body="CLEAR ALL"),
        ask("DELETE", "/store", "If-Match: *"),
        ask("PUT", "/store/some/path", TURTLE, "If-None-Match: *", body=one),
        ask("PUT", "/store/some/path", TURTLE, "If-None-Match: *", body=one),
    ]
    return steps


def _origins(*headers: str, few: bool = False) -> list[Step]:
    steps = []
    origins = (
        "https://app.example",
        "http://localhost:3000",
        "https://evil.example",
        "null",
        "http://$HOST",
        "",
    )
    for origin in origins[::2] if few else origins:
        given = f"Origin: {origin}"
        steps += [
            ask("GET", ASK, given, *headers),
            ask("POST", "/query", QUERY, given, *headers, body="ASK {}"),
            ask("POST", "/update", UPDATE, given, *headers, body="INSERT DATA { <urn:a> <urn:p> 1 }"),
            ask("POST", "/streams/s?at=1", QUADS, given, *headers, body="<urn:a> <urn:p> <urn:o> ."),
            ask(
                "POST",
                "/streams/s",
                LINES,
                given,
                *headers,
                body='{"at": 2, "data": "<urn:a> <urn:p> <urn:o> ."}\n',
            ),
            ask("PUT", "/streams/t", JSON, given, *headers, body="{}"),
            ask("GET", "/nowhere", given, *headers),
            ask("GET", "/streams/none", given, *headers),
            ask("PATCH", "/query", given, *headers),
            ask("GET", "/ui/static/quadrill.css", given),
            ask("GET", "/health/live", given),
            ask("POST", "/login", FORM, given, body="token=nonsense"),
        ]
        for target in ("/query", "/streams/s", "/nowhere", "/queries/q"):
            for method in ("POST", "DELETE"):
                asked = f"Access-Control-Request-Method: {method}"
                steps.append(
                    ask(
                        "OPTIONS",
                        target,
                        given,
                        asked,
                        "Access-Control-Request-Headers: authorization, x-own",
                    )
                )
    same = ("Sec-Fetch-Site: cross-site", "Sec-Fetch-Site: same-origin")
    steps += [ask("POST", "/update", UPDATE, site, *headers, body="CLEAR ALL") for site in same]
    return steps
