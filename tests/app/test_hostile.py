"""Input that is meant to harm: the server stays up, answers clearly, and gives its memory back."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import httpx
import pytest

from tests.app.conftest import LiveServer, Start, problem_of
from tests.program import Program

SPARQL_DEPTH = 100_000


@pytest.mark.always("groups", "nots", "paths", "lists")
@pytest.mark.parametrize(
    "text",
    [
        "SELECT * " + "{" * SPARQL_DEPTH + "}" * SPARQL_DEPTH,
        "ASK { FILTER(" + "(" * SPARQL_DEPTH + "1" + ")" * SPARQL_DEPTH + ") }",
        "ASK { ?s ?p ?o " + "OPTIONAL { ?s ?p ?o } " * SPARQL_DEPTH + "}",
        "ASK { FILTER(" + "!" * SPARQL_DEPTH + "true) }",
        "ASK { ?s " + "(" * SPARQL_DEPTH + "<urn:p>" + ")" * SPARQL_DEPTH + " ?o }",
        "ASK { ?s ?p " + "<<( ?s ?p " * SPARQL_DEPTH + "1" + " )>>" * SPARQL_DEPTH + " }",
        "ASK { ?s ?p " + "[ ?p " * SPARQL_DEPTH + "1" + " ]" * SPARQL_DEPTH + " }",
        "ASK { ?s ?p " + "( " * SPARQL_DEPTH + "1" + " )" * SPARQL_DEPTH + " }",
    ],
    ids=["groups", "parentheses", "optionals", "nots", "paths", "triple terms", "blank nodes", "lists"],
)
def test_a_deep_sparql_text_is_refused_and_the_server_stays_up(start_server: Start, text: str) -> None:
    server = start_server(max_query_bytes=1 << 26)
    answer = server.query(text)
    assert 400 <= answer.status_code < 500, answer.text[:200]
    problem_of(answer, answer.status_code)
    update = server.update("INSERT { <urn:a> <urn:b> 1 } WHERE " + text[text.index("{") :])
    problem_of(update, update.status_code)
    assert server.client.get("/health/ready").status_code == 200


def bomb(kind: str) -> tuple[bytes, str]:
    """A document that nests or expands without end, and its media type."""
    n = 100_000
    match kind:
        case "json-ld":
            return b'{"urn:p":' * n + b"1" + b"}" * n, "application/ld+json"
        case "json-ld lists":
            return b'{"@id":"urn:a","urn:p":' + b"[" * n + b"1" + b"]" * n + b"}", "application/ld+json"
        case "n-triples":
            terms = b"<urn:a> <urn:b> " + b"<<( <urn:a> <urn:b> " * n + b"<urn:c>" + b" )>>" * n
            return terms + b" .\n", "application/n-triples"
        case "turtle reifiers":
            return b"<urn:a> <urn:b> " + b"<< <urn:a> <urn:b> " * n + b"1" + b" >>" * n + b" .", "text/turtle"
        case "rdf/xml entities":
            entities = b'<!ENTITY a0 "lol">' + b"".join(
                b'<!ENTITY a%d "%s">' % (i, b"&a%d;" % (i - 1) * 10) for i in range(1, 12)
            )
            return (
                b"<!DOCTYPE r ["
                + entities
                + b"]><rdf:RDF xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#'"
                b" xmlns:e='urn:e:'><rdf:Description rdf:about='urn:a'>"
                b"<e:p>&a11;</e:p></rdf:Description></rdf:RDF>"
            ), "application/rdf+xml"
        case _:
            return (
                b"<!DOCTYPE r [<!ENTITY x SYSTEM 'file:///etc/passwd'>]><rdf:RDF "
                b"xmlns:rdf='http://www.w3.org/1999/02/22-rdf-syntax-ns#' xmlns:e='urn:e:'>"
                b"<rdf:Description rdf:about='urn:a'><e:p>&x;</e:p></rdf:Description></rdf:RDF>"
            ), "application/rdf+xml"


@pytest.mark.parametrize(
    "kind",
    ["json-ld", "json-ld lists", "n-triples", "turtle reifiers", "rdf/xml entities", "rdf/xml external"],
)
@pytest.mark.parametrize("place", ["/store?default", "/streams/s"])
def test_a_document_that_nests_or_expands_without_end_is_refused(
    server: LiveServer, kind: str, place: str
) -> None:
    body, media_type = bomb(kind)
    before = memory_of_this_process()
    answer = server.client.post(place, content=body, headers={"Content-Type": media_type})
    assert 400 <= answer.status_code < 500, answer.text[:200]
    problem_of(answer, answer.status_code)
    assert server.services.store.reader.quad_count == 0
    assert server.client.get("/health/ready").status_code == 200
    assert memory_of_this_process() - before < 300 << 20


def test_a_deep_turtle_document_is_read_or_refused_but_never_fatal(server: LiveServer) -> None:
    n = 50_000
    body = "<urn:a> <urn:b> " + "[ <urn:p> " * n + "1" + " ]" * n + " ."
    answer = server.client.post("/store?default", content=body, headers={"Content-Type": "text/turtle"})
    assert answer.status_code in (204, 400, 413), answer.text[:200]
    assert server.client.get("/health/ready").status_code == 200


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/query", "application/sparql-query"),
        ("/update", "application/sparql-update"),
        ("/store?default", "text/turtle"),
        ("/store?default", "application/n-triples"),
        ("/streams/s", "application/x-ndjson"),
        ("/queries", "text/plain"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_refused_everywhere(server: LiveServer, path: str, media_type: str, encoding: str) -> None:
    body = "ASK { <urn:ä> ?p ?o }".encode(encoding)
    answer = server.client.post(path, content=body, headers={"Content-Type": media_type})
    problem_of(answer, 400)
    declared = {"Content-Type": f"{media_type}; charset={encoding}"}
    answer = server.client.post(path, content=body, headers=declared)
    problem_of(answer, answer.status_code)
    assert answer.status_code in (400, 415)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * { SERVICE <http://127.0.0.1:PORT/query> { ?s ?p ?o } }",
        "SELECT * { SERVICE SILENT <http://localhost:PORT/query> { ?s ?p ?o } }",
        "SELECT * { SERVICE <http://[::1]:PORT/query> { ?s ?p ?o } }",
        "SELECT * { SERVICE <http://2130706433:PORT/query> { ?s ?p ?o } }",
        "SELECT * { VALUES ?x { <http://127.0.0.1:PORT/query> } SERVICE ?x { ?s ?p ?o } }",
        "PREFIX s: <http://127.0.0.1:PORT/> SELECT * { SERVICE s:query { ?s ?p ?o } }",
    ],
)
def test_a_query_is_no_way_into_the_network(server: LiveServer, text: str) -> None:
    answer = server.query(text.replace("PORT", server.url.split(":")[-1].strip("/")))
    if "SILENT" in text:
        # Nothing is reached; a failed call that is SILENT has one empty solution.
        assert answer.json()["results"]["bindings"] == [{}]
        return
    problem_of(answer, answer.status_code)
    assert answer.status_code in (403, 501)


@pytest.mark.parametrize(
    "target", ["http://127.0.0.1:PORT/store", "file:///etc/passwd", "http://localhost:PORT/"]
)
@pytest.mark.parametrize("silent", ["", "SILENT "])
def test_an_update_is_no_way_into_the_network(server: LiveServer, target: str, silent: str) -> None:
    port = server.url.split(":")[-1].strip("/")
    answer = server.update(f"LOAD {silent}<{target.replace('PORT', port)}>")
    if silent:
        # SILENT turns every fault of LOAD into success; what matters is that nothing was fetched.
        assert answer.status_code == 204
        assert server.services.store.reader.quad_count == 0
    else:
        problem_of(answer, 403)


def test_many_clients_that_go_away_in_mid_stream_leave_nothing_behind(server: LiveServer) -> None:
    triples = "".join(f"<urn:s{n}> <urn:p> <urn:o{n}> .\n" for n in range(20_000))
    server.client.put("/store?default", content=triples, headers={"Content-Type": "text/turtle"})
    host, port = server.url.removeprefix("http://").strip("/").split(":")
    for _ in range(40):
        with socket.create_connection((host, int(port)), timeout=10) as client:
            client.sendall(b"GET /store?default HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert client.recv(1000)
    deadline = time.monotonic() + 20
    while server.services.endpoint.processes.list():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert server.boolean("ASK { <urn:s1> ?p ?o }")


@pytest.mark.slow
def test_the_memory_of_bodies_of_a_hundred_megabytes_comes_back(tmp_path: Path) -> None:
    arguments = ["serve", "--data", str(tmp_path / "d"), "--port", "0"]
    body = (b'<urn:s> <urn:p> "' + b"x" * 980 + b'" .\n') * (100 << 10)
    headers = {"Content-Type": "application/n-triples"}
    with Program(*arguments, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().split()[-1]
            before = memory_of(server.pid)
            for _ in range(2):
                sent = httpx.put(f"{url}store?default", content=body, headers=headers, timeout=200)
                assert sent.status_code == 204
                broken = httpx.put(f"{url}store?default", content=body + b"<", headers=headers, timeout=200)
                assert broken.status_code == 400
            time.sleep(0.5)
            assert memory_of(server.pid) - before < 60 << 20
        finally:
            server.terminate()


def memory_of(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


def memory_of_this_process() -> int:
    """Resident bytes."""
    return memory_of(os.getpid())
