"""Scenarios of streams, queries and feeds."""

from __future__ import annotations

from collections.abc import Iterator

from .asking import (
    CONTINUOUS,
    JSON,
    LINES,
    QUADS,
    TEXT,
    TURTLE,
    ask,
    in_chunks,
    message,
    setting_up,
)
from .replay import Scenario, Step

TRIG, _CSV = "Content-Type: application/trig", "Content-Type: text/csv"
EVENTS, _ND = "Accept: text/event-stream", "Accept: application/x-ndjson"
_MAPPED = '{"iri": "urn:m", "mapping": {"subject": "urn:x:{id}", "time": "at"}}'
_UPGRADE = (
    "Upgrade: websocket",
    "Connection: Upgrade",
    "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def line(at: object, value: int, data: str = "") -> str:
    """One element of a push of lines."""
    return f'{{"at": {at}, "data": "{data or f"<urn:s{value}> <urn:v> <urn:o{value}> ."}"}}\n'


def scenarios() -> Iterator[Scenario]:
    """All scenarios of the engine."""
    yield Scenario("pushes", {}, {}, [*setting_up(), *_pushes()])
    yield Scenario("queries", {}, {}, [*setting_up(), *_queries()])
    yield Scenario("feeds", {}, {}, [*setting_up(), *_feeds(), *_sockets()])


def _pushes() -> Iterator[Step]:
    one = "<urn:a> <urn:p> <urn:o> ."
    bodies = (
        (QUADS, one),
        (TURTLE, one),
        (TRIG, "<urn:g1> { <urn:a> <urn:p> 1 } <urn:g2> { <urn:a> <urn:p> 2 }"),
        (LINES, line(1500, 1) + line(1600, 2)),
        (LINES, line('"1970-01-01T00:00:02Z"', 3)),
        (LINES, line(2500, 4) + "nonsense\n" + line(2600, 5)),
        (LINES, ""),
        (LINES, "\n\n"),
        (JSON, '{"@id": "urn:a", "urn:p": "x"}'),
        (LINES, line('"soon"', 5)),
        (LINES, '{"at": 5}\n'),
        (LINES, "[]\n"),
        (LINES, line(500, 6)),
        (_CSV, "a,b\n1,2\n"),
        ("Content-Type: application/ld+json", "[]"),
    )
    for kind, body in bodies:
        for query in (
            "",
            "?at=3000",
            "?partial=true",
            "?wait=true&at=3100",
            "?durable=false&at=3200",
            "?each=triple&at=3300",
        ):
            yield ask("POST", f"/streams/s{query}", kind, body=body)
    for query in (
        "at=x",
        "at=5000&at=6000",
        "each=quad",
        "partial=maybe",
        "wait=1",
        "what=1",
        "durable=no",
        "ack=true",
        "at=-1",
    ):
        yield ask("POST", f"/streams/s?{query}", LINES, body=line(4000, 7))
        yield ask("POST", f"/streams?iri=http://localhost/s&{query}", QUADS, body=one)
    key = "Idempotency-Key: k1"
    for value in (1, 1, 2):
        yield ask("POST", "/streams/s", LINES, key, body=line(4100, value))
    yield ask("POST", "/streams/fresh", LINES, body=line(1, 1))
    yield ask("POST", "/streams?iri=urn:fresh", LINES, body=line(1, 1))
    yield ask("POST", "/streams", LINES, body=line(1, 1))
    parts = (line(4200, 1), line(4300, 2)[:20], line(4300, 2)[20:])
    for query in ("", "?ack=true", "?partial=true", "?wait=true", "?ack=true&partial=true"):
        for last in ("", "nonsense\n"):
            for packed in ((), ("Accept-Encoding: gzip",)):
                yield Step(
                    [
                        message(
                            "POST",
                            f"/streams/s{query}",
                            LINES,
                            *packed,
                            "Transfer-Encoding: chunked",
                            body=in_chunks(*parts, *filter(None, (last,))),
                        )
                    ],
                    fresh=True,
                )
    head = message("POST", "/streams/s", LINES, "Transfer-Encoding: chunked")
    yield Step([head, f"{len(parts[0]):x}\r\n{parts[0]}\r\n", "0\r\n\r\n"], fresh=True)
    for query in ("at=9000", "at=x", "", "at=100", "at=9100&wait=true", "what=1"):
        yield ask("POST", f"/streams/s:heartbeat?{query}")
        yield ask("POST", f"/streams:heartbeat?iri=http://localhost/s&{query}")
    yield ask("POST", "/streams/none:heartbeat?at=1")
    for body in (
        _MAPPED,
        '{"iri": 5}',
        '{"lateness": "soon"}',
        '{"late": "never"}',
        '{"what": 1}',
        "[]",
        '{"iri": "urn:other"}',
        '{"name": "x"}',
    ):
        yield ask("PUT", "/streams/m", JSON, body=body)
        yield ask("PUT", "/streams/m?dry_run=true", JSON, body=body)
    for kind, body in (
        (JSON, '{"id": 1, "at": 5, "v": 2}'),
        (LINES, '{"id": 1, "at": 5}\n{"id": 2}\n'),
        (_CSV, "id,at,v\n1,5,2\n"),
        (JSON, "{"),
    ):
        yield ask("POST", "/streams/m:map", kind, body=body)
        yield ask("POST", "/streams/m", kind, body=body)
        yield ask("POST", "/streams:map", kind, body=body)
    letters = "/streams/s/dead-letters"
    yield from (
        ask("GET", letters),
        ask("DELETE", letters + "?reason=late"),
        ask("POST", letters + ":retry?reason=late"),
    )
    yield from (
        ask("DELETE", letters + "?id=99"),
        ask("POST", letters + ":retry?id=x"),
        ask("GET", "/streams/s/late"),
    )
    yield from (
        ask("GET", "/streams/s/elements"),
        ask("DELETE", "/streams/s"),
        ask("DELETE", "/streams/m"),
        ask("GET", "/streams"),
    )


def _queries() -> Iterator[Step]:
    texts = (
        CONTINUOUS,
        "nonsense",
        "SELECT * { ?s ?p ?o }",
        CONTINUOUS + " LIMIT 1",
        "CONSTRUCT { ?s <urn:seen> ?o } WHERE { STREAM <http://localhost/s> [NOW] { ?s <urn:v> ?o } }",
        "ASK { STREAM <http://localhost/s> [RANGE 1h] { ?s <urn:v> ?o } }",
        "INSERT DATA { <urn:a> <urn:p> 1 }",
        "",
    )
    for number, text in enumerate(texts):
        yield ask("POST", "/queries:validate", TEXT, body=text)
        yield ask("POST", "/queries:preview", TEXT, body=text)
        yield ask("POST", f"/queries?name=p{number}", TEXT, body=text)
        yield ask("PUT", f"/queries/r{number}", "Content-Type: application/sparql-query", body=text)
        yield ask("PUT", f"/queries/r{number}?replace=true", TEXT, body=text + " ")
        yield ask("PUT", f"/stored-queries/r{number}", TEXT, body=text)
    for body in (
        '{"query": 5}',
        "{}",
        '{"query": "nonsense"}',
        '{"query": "nonsense", "what": 1}',
        '{"output": "rstream"}',
        "[",
        '{"name": "other", "query": ""}',
    ):
        yield ask("PUT", "/queries/q", JSON, body=body)
        yield ask("POST", "/queries", JSON, body=body)
    for body in (
        '{"state": "paused"}',
        '{"state": "paused"}',
        '{"state": "running"}',
        '{"state": "x"}',
        "{}",
        '{"what": 1}',
        "[",
    ):
        yield ask("PATCH", "/queries/q", JSON, body=body)
    for target in (
        "/queries/q/refresh",
        "/queries/q/replay",
        "/queries/q/replay?from=0",
        "/queries/q/replay?from=x",
        "/queries/none/replay?from=0",
    ):
        yield ask("POST", target)
    for target in (
        "/queries/q",
        "/queries/q?code=true",
        "/queries/q/explain",
        "/queries/p4/explain",
        "/queries/none",
    ):
        yield ask("GET", target)
    yield ask("POST", "/streams/s?wait=true", LINES, body=line(2000, 1))
    for accept in (
        "text/turtle",
        "application/n-quads",
        "application/json",
        "text/csv",
        "application/rdf+xml",
    ):
        for name in ("q", "p4", "p5"):
            yield ask("GET", f"/queries/{name}/results", f"Accept: {accept}")
    for target in (
        "/queries/p4",
        "/queries/p5?drop_graph=true",
        "/queries/p5",
        "/queries/none",
        "/streams/s",
        "/queries/q?what=1",
    ):
        yield ask("DELETE", target)


def _feeds() -> Iterator[Step]:
    yield ask("POST", "/streams/s?wait=true", LINES, body=line(2000, 1) + line(3000, 2))
    results = "/queries/q/results"
    for headers in (
        (EVENTS,),
        (_ND,),
        (EVENTS, "Accept-Encoding: gzip"),
        (EVENTS, "Origin: https://app.example"),
    ):
        yield ask("GET", f"{results}?from=0", *headers, fresh=True, until="urn:o2")
        yield ask("GET", f"{results}?snapshot=true&from=0", *headers, fresh=True, until="urn:o2")
        yield ask("GET", f"{results}?from=1", *headers, fresh=True, until="urn:o2")
        yield ask("GET", "/changes?after=0", *headers, fresh=True, until='"added": 2')
        yield ask("GET", "/changes?after=0&patch=true", *headers, fresh=True, until="TC")
    yield ask("GET", results, EVENTS, "Last-Event-ID: 1", fresh=True, until="urn:o2")
    yield ask("GET", results, EVENTS, "Last-Event-ID: x", fresh=True, until="\n\n")
    yield ask("GET", f"{results}?from=99", EVENTS, fresh=True, until="event: reset")
    yield ask("GET", f"{results}?from=0", EVENTS, version="1.0", fresh=True, until="urn:o2")
    yield ask("GET", f"{results}?from=0&follow=true", "Accept: text/csv", fresh=True, until="urn:o2")
    yield ask("HEAD", results, EVENTS, fresh=True)
    yield ask("HEAD", "/changes", fresh=True)
    for target in (
        "/jobs",
        "/jobs/none",
        "/streams/s/dead-letters",
        "/queries/none/results",
        "/streams/s",
        "/streams/s/late",
    ):
        yield ask("GET", target, EVENTS, fresh=True)
    for target in (
        "/queries/q/results?from=0",
        "/changes?after=0&graph=urn:g",
        "/changes?after=99",
        "/changes?what=1",
    ):
        yield ask("GET", target, EVENTS, fresh=True)
    yield ask("GET", "/changes", "Accept: image/png", fresh=True)
    yield ask("GET", "/changes", "Accept: text/html", fresh=True)


def _sockets() -> Iterator[Step]:
    for target, mark in (
        ("/queries/q/results?from=0", "urn:o2"),
        ("/queries/q/results?last_event_id=1", "urn:o2"),
        ("/streams/s", None),
        ("/streams?iri=http://localhost/s", None),
    ):
        yield ask("GET", target, *_UPGRADE, fresh=True, until=mark or "")
        yield ask("GET", target, *_UPGRADE, "Origin: http://$HOST", fresh=True, until="")
        for number in range(4):
            yield ask(
                "GET",
                target,
                *(each for at, each in enumerate(_UPGRADE) if at != number),
                fresh=True,
                until="",
            )
        yield ask("GET", target, *_UPGRADE[:2], "Sec-WebSocket-Version: 8", _UPGRADE[3], fresh=True)
        yield ask("GET", target, *_UPGRADE[:3], "Sec-WebSocket-Key: short", fresh=True)
        yield ask("GET", target, *_UPGRADE, "Origin: https://evil.example", fresh=True)
        yield ask("POST", target, *_UPGRADE, LINES, body="", fresh=True)
        yield ask("GET", target, *_UPGRADE, version="1.0", fresh=True)
        yield ask("GET", target, *_UPGRADE, body="x", fresh=True)
    for target in ("/queries/none/results", "/streams/none", "/query", "/changes", "/nowhere"):
        yield ask("GET", target, *_UPGRADE, fresh=True, until="")
