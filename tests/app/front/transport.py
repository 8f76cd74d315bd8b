"""Scenarios of how requests are sent: versions, pieces, chunks, packed bodies, faults of heads and bodies."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator

from .asking import FORM, JSON, LINES, QUADS, QUERY, TEXT, TURTLE, UPDATE, ask, in_chunks, message, setting_up
from .replay import Scenario, Step

_ASK, _INSERT = "ASK { ?s ?p 1 }", "INSERT DATA { <urn:n> <urn:p> 5 }"
_LINE = '{"at": 2000, "data": "<urn:s> <urn:v> <urn:o> ."}\n'
_TRIPLE = "<urn:s> <urn:p> <urn:o> ."
_BODIES = (
    ("POST", "/query", QUERY, _ASK),
    ("POST", "/update", UPDATE, _INSERT),
    ("POST", "/sparql", UPDATE, _INSERT),
    ("POST", "/streams/s", LINES, _LINE),
    ("POST", "/streams/s?at=3000", QUADS, _TRIPLE),
    ("POST", "/store?graph=urn:g", TURTLE, _TRIPLE),
    ("PUT", "/queries/q9", TEXT, "nonsense"),
    ("PUT", "/streams/s", JSON, "{"),
    ("POST", "/prefixes", FORM, "prefix=e&uri=urn:e"),
)

_QUERIES = """
query= query=ASK%7B%7D&query=ASK%7B%7D query=ASK%7B%7D&timeout=x query=ASK%7B%7D&timeout=-1
query=ASK%7B%7D&timeout=5 query=ASK%7B%7D&what=1 query=ASK%7B%7D&default-graph-uri=nonsense
query=ASK%7B%7D&default-graph-uri=urn:g&named-graph-uri=urn:g query=ASK%7B%7D&union-default-graph
query=ASK%7B%7D&format=json&output=json query=ASK%zz
query=SELECT%20*%20%7BSERVICE%20%3Chttp://h.example/%3E%20%7B%7D%7D query=DESCRIBE%20%3Curn:a%3E
query=INSERT%20DATA%20%7B%7D query=SELECT%20(1/0%20AS%20?x)%20%7B%7D update=CLEAR%20ALL
"""
_ADDRESSES = """
//query?query=ASK%7B%7D /query/?query=ASK%7B%7D /qu%65ry?query=ASK%7B%7D /query%3Fquery=ASK /streams//s
/streams/s/ /streams/%73 /streams/a%2Fb /streams/.. /streams/-bad /streams/ /queries/%00 /queries/a%20b
/store//x /store/a/../b /store/%2e%2e/b /store/a%2Fb /store?graph= /store?graph=nonsense
/store?graph=urn:none /store?default /store?default&graph=urn:g /store?graph=urn:g&graph=urn:g
/store?default=1 /store?what=1 /ui/none /ui/static/../cli.py /ui/static/none.css /ui/queries/none
/queries?limit=x /queries?limit=1&offset=1 /queries?state=failed /queries?contains=q /queries?what=1
/streams?iri=urn:none /streams?iri= /streams/s/elements?limit=0 /streams/s/elements?limit=2
/streams/s/elements?limit=x /prefixes?prefix=ex /prefixes?uri=http://example.org/ /prefixes?prefix=none
/changes?after=x /changes?after=-1 /queries/q/results?from=x /queries/q/results?format=csv
/queries/none/results /queries/none/explain /queries/q/explain?code=true /queries/q/explain?analyze=maybe
/stored-queries/none /stored-queries/none/results /jobs/none /sinks/none /sources/none/dead-letters /Query
/health /health/ /health/live/ /openapi.json/ /favicon.ico /robots.txt /; /? /#x
"""


def scenarios() -> Iterator[Scenario]:
    """All scenarios of transport."""
    yield Scenario("transport", {"workers": 0}, {}, [*setting_up(), *_sent()])
    yield Scenario("faults-of-heads", {}, {}, [*_wrong_heads()])
    yield Scenario(
        "faults-of-requests", {"workers": 0}, {}, [*setting_up(), *_wrong_requests(), *_addresses()]
    )
    small = {"max_body_bytes": 300, "max_query_bytes": 200, "max_push_bytes": 300, "max_header_bytes": 2000}
    small |= {
        "max_push_elements": 3,
        "max_request_quads": 5,
        "max_result_rows": 2,
        "max_nesting": 5,
        "workers": 0,
    }
    yield Scenario("limits", small, {}, [*setting_up()[1:4], *_too_large()])


def _sent() -> Iterator[Step]:
    for method, target, kind, body in _BODIES:
        plain = message(method, target, kind, body=body)
        head, half = plain.index("\r\n\r\n") + 4, len(plain) - len(body) // 2
        chunked = message(
            method, target, kind, "Transfer-Encoding: chunked", body=in_chunks(body[:5], body[5:])
        )
        expects = message(method, target, kind, "Expect: 100-continue", body=body)
        packed = gzip.compress(body.encode(), mtime=0).decode("latin-1")
        yield Step([plain[:9], plain[9:head], plain[head:half], plain[half:]])
        yield Step([chunked])
        yield Step([chunked[: len(chunked) - 4], chunked[len(chunked) - 4 :]])
        yield Step([expects[: expects.index("\r\n\r\n") + 4], body], waits=True)
        yield ask(method, target, kind, "Content-Encoding: gzip", body=packed)
        yield ask(method, target, kind, "Content-Encoding: GZIP, identity", body=packed)
        yield ask(
            method,
            target,
            kind,
            "Content-Encoding: deflate",
            body=zlib.compress(body.encode()).decode("latin-1"),
        )
        yield ask(method, target, kind, "Content-Encoding: gzip", body="no gzip")
        yield ask(method, target, kind, "Content-Encoding: gzip", body=packed[:-3])
        yield ask(method, target, kind, "Content-Encoding: br", body=body)
        yield Step(
            [
                message(
                    method,
                    target,
                    kind,
                    "Content-Encoding: gzip",
                    "Transfer-Encoding: chunked",
                    body=in_chunks(packed),
                )
            ]
        )
        yield ask(method, target, kind, body=body, version="1.0")
        yield ask(method, target, kind, "Connection: keep-alive", body=body, version="1.0")
        yield ask(method, target, kind, "Connection: close", body=body)
        yield ask(method, target, kind, "Expect: something", body=body, fresh=True)
        yield ask(method, target, kind, fresh=True)
        yield Step([plain + plain], [method, method])
        yield Step([plain + message("GET", "/health/live") + plain], [method, "GET", method])
        yield ask(method, target + ("&" if "?" in target else "?") + "surplus=1", kind, body=body)
    for target in ("/query?query=ASK%7B%7D", "/health/live", "/queries/q", "/", "/ui/static/quadrill.css"):
        yield ask("GET", target, version="1.0", fresh=True)
        yield ask("GET", target, "Connection: keep-alive", version="1.0", fresh=True)
        yield ask("HEAD", target, "Connection: close", fresh=True)
        yield ask("GET", target, body="a body that nobody reads")
        yield ask("GET", target, "Expect: 100-continue", "Content-Length: 0")
        twice = message("GET", target) + message("HEAD", target)
        yield Step([twice], ["GET", "HEAD"])
    yield ask("GET", "/query?query=SELECT%20*%7B%3Fs%20%3Fp%20%3Fo%7D", version="1.0", fresh=True)
    yield ask("GET", "http://$HOST/health/live")
    yield ask("GET", "/health/live", host="", version="1.0", fresh=True)


def _wrong_heads() -> Iterator[Step]:
    heads = (
        "GET /health/live HTTP/1.1\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: $HOST\r\nHost: $HOST\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost : $HOST\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: $HOST\r\n folded: 1\r\n\r\n",
        "GET /health/live HTTP/2.0\r\nHost: $HOST\r\n\r\n",
        "GET /health/live\r\nHost: $HOST\r\n\r\n",
        "GET  /health/live HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET /health/live HTTP/1.1\nHost: $HOST\n\n\r\n\r\n",
        "get /health/live HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "G@T /health/live HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET health/live HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET * HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "OPTIONS * HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "CONNECT example.org:443 HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET http://elsewhere.example/ HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET /health/live HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: evil.example\r\n\r\n",
        "GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: localhost\r\n\r\n",
        "GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: $HOST\r\nX-Forwarded-For: 10.0.0.1\r\n\r\n",
        "GET /query?query=ASK%7B%7D HTTP/1.1\r\nHost: $HOST\r\nVia: 1.1 proxy\r\n\r\n",
        "GET /queries HTTP/1.1\r\nHost: $HOST\r\nForwarded: for=10.0.0.1\r\n\r\n",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nContent-Length: 3\r\n"
        "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nContent-Length: +3\r\n\r\nabc",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nContent-Length: three\r\n\r\nabc",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nTransfer-Encoding: gzip\r\n\r\n",
        "POST /query HTTP/1.1\r\nHost: $HOST\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        "POST /streams/s HTTP/1.1\r\nHost: $HOST\r\nContent-Type: application/x-ndjson\r\n"
        "Transfer-Encoding: chunked\r\n\r\n-5\r\n",
        "GET /health/live HTTP/1.1\r\nHost: $HOST\r\nX-Zero: a\x00b\r\n\r\n",
        "GET /health/\x01live HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET /\xe9 HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET /$LARGE HTTP/1.1\r\nHost: $HOST\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: $HOST\r\n$MANY\r\n",
        "nonsense\r\n\r\n",
    )
    for head in heads:
        yield Step([head], fresh=True)


def _wrong_requests() -> Iterator[Step]:
    for kind in (
        TEXT,
        "Content-Type: application/pdf",
        "Content-Type: ",
        "Content-Type: text/turtle; charset=latin-1",
    ):
        for method, target, _kind, body in _BODIES[:7]:
            yield ask(method, target, kind, body=body)
    for method, target, kind, _body in _BODIES:
        yield ask(method, target, kind, body="")
        yield ask(method, target, kind, body="nonsense")
        yield ask(method, target, kind, body="\xff\xfe")
        yield ask(method, target, kind + "; charset=utf-8", body="[1")
        yield ask(method, target, kind + "; charset=klingon", body="{}")
        yield ask(method, target, body="{}")
    for target in ("/query", "/sparql", "/update", "/query:validate", "/update:validate"):
        for form in (
            "query=ASK%7B%7D",
            "update=CLEAR+ALL",
            "query=ASK%7B%7D&query=ASK%7B%7D",
            "",
            "query=%FF",
            "query=ASK%7B%7D&what=1",
        ):
            yield ask("POST", target, FORM, body=form)
    for query in _QUERIES.split():
        yield ask("GET", f"/query?{query}")
        yield ask("GET", f"/sparql?{query}")
    for body in (
        "LOAD <http://h.example/>",
        "INSERT DATA {",
        "CLEAR GRAPH <urn:none>",
        "DROP SILENT GRAPH <urn:none>",
        "CREATE GRAPH <urn:g>",
    ):
        yield ask("POST", "/update", UPDATE, body=body)
        yield ask("POST", "/update?using-graph-uri=urn:g", UPDATE, body=body)


def _addresses() -> Iterator[Step]:
    for target in (*_ADDRESSES.split(), "/streams/" + "x" * 129):
        yield ask("GET", target)
    for target in (
        "/streams/a%2Fb",
        "/streams/-bad",
        "/queries/" + "x" * 129,
        "/sources/a%20b",
        "/stored-queries/a%20b",
    ):
        yield ask("PUT", target, JSON, body="{}")
        yield ask("DELETE", target)
        yield ask("POST", target, LINES, body="")


def _too_large() -> Iterator[Step]:
    large = "# a comment that makes it large\n" * 10
    for method, target, kind, body in _BODIES:
        whole = f"{large}{body}" if kind in (QUERY, UPDATE, TURTLE, QUADS) else body + " " * 320
        announced = message(method, target, kind, "Expect: 100-continue", body=whole)
        packed = gzip.compress(whole.encode(), mtime=0).decode("latin-1")
        yield ask(method, target, kind, body=whole, fresh=True)
        yield Step(
            [
                message(
                    method, target, kind, "Transfer-Encoding: chunked", body=in_chunks(whole[:50], whole[50:])
                )
            ],
            fresh=True,
        )
        yield Step([announced[: announced.index("\r\n\r\n") + 4], whole], waits=True, fresh=True)
        yield ask(method, target, kind, "Content-Encoding: gzip", body=packed, fresh=True)
        yield ask(method, target, kind, "Content-Length: 99999999999", body="$LARGE", fresh=True)
    yield ask("GET", "/query?query=" + "x" * 210)
    yield ask("GET", "/queries", "X-Large: " + "x" * 2100, fresh=True)
    yield ask("POST", "/streams/s", LINES, body='{"at": 4000, "data": ""}\n' * 4)
    yield ask("POST", "/store?graph=urn:l", TURTLE, body="<urn:s> <urn:p> 1, 2, 3, 4, 5, 6 .")
    yield ask("POST", "/update", UPDATE, body="INSERT DATA { <urn:s> <urn:p> 1, 2, 3, 4, 5, 6 }")
    yield ask("GET", "/query?query=SELECT%20*%20%7B%20VALUES%20%3Fx%20%7B1%202%203%7D%20%7D")
    yield ask("POST", "/query", QUERY, body="ASK " + "{" * 9 + "}" * 9)
    yield ask("POST", "/login", FORM, body="token=" + "x" * 5000, fresh=True)
    yield ask("POST", "/logout", body="x" * 5000, fresh=True)
    yield ask("GET", "/health/live", body="x" * 5000, fresh=True)
