"""Requests that readers of HTTP understand differently are refused, and nothing in them is done.

A front server that reads such a request otherwise would let a client put a second one behind it (RFC 9112
section 11.2, request smuggling). Each line names the section that decides it.
"""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.app.conftest import LiveServer, Start
from tests.app.server.reading import read
from tests.app.test_server import connect, read_all

BODY = b"INSERT DATA { <urn:a> <urn:b> <urn:c> }"
SMUGGLED = b"POST /update HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/sparql-update\r\n"
SMUGGLED += b"Content-Length: 39\r\n\r\n" + BODY
TYPE = b"Content-Type: application/sparql-update\r\n"
SIZE = b"Content-Length: 39\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
IN_CHUNKS = b"27\r\n" + BODY + b"\r\n0\r\n\r\n"


def post(
    *headers: bytes, body: bytes = BODY, line: bytes = b"POST /update HTTP/1.1", host: bytes = b"127.0.0.1"
) -> bytes:
    return line + b"\r\nHost: " + host + b"\r\n" + TYPE + b"".join(headers) + b"\r\n" + body


class Case(NamedTuple):
    name: str
    request: bytes
    status: int = 400


CASES = [
    # where the body ends: RFC 9112 section 6
    Case("6.1 length and chunks", post(SIZE, CHUNKED, body=IN_CHUNKS)),
    Case("6.1 chunks and length", post(CHUNKED, SIZE, body=IN_CHUNKS)),
    Case("6.1 chunks in HTTP/1.0", post(CHUNKED, body=IN_CHUNKS, line=b"POST /update HTTP/1.0")),
    Case("6.3 two lengths", post(SIZE, b"Content-Length: 5\r\n")),
    Case("6.3 one length twice", post(SIZE, SIZE)),
    Case("6.3 a list of lengths", post(b"Content-Length: 39, 39\r\n")),
    Case("6.3 a list of unlike lengths", post(b"Content-Length: 39, 5\r\n")),
    Case("6.2 a length with a sign", post(b"Content-Length: +39\r\n")),
    Case("6.2 a length below zero", post(b"Content-Length: -39\r\n")),
    Case("6.2 a length with an underscore", post(b"Content-Length: 3_9\r\n")),
    Case("6.2 a length in hexadecimal", post(b"Content-Length: 0x27\r\n")),
    Case("6.2 a length with a fraction", post(b"Content-Length: 39.0\r\n")),
    Case("6.2 a length in other digits", post("Content-Length: ٣٩\r\n".encode())),
    Case("6.2 no length", post(b"Content-Length:\r\n")),
    Case("6.2 a length beyond all", post(b"Content-Length: 99999999999999999999\r\n")),
    Case("6.1 identity, chunked", post(b"Transfer-Encoding: identity, chunked\r\n", body=IN_CHUNKS), 501),
    Case("6.1 gzip, chunked", post(b"Transfer-Encoding: gzip, chunked\r\n", body=IN_CHUNKS), 501),
    Case("6.1 chunked, identity", post(b"Transfer-Encoding: chunked, identity\r\n", body=IN_CHUNKS), 501),
    Case("6.1 xchunked", post(b"Transfer-Encoding: xchunked\r\n", body=IN_CHUNKS), 501),
    Case("6.1 chunked with a quality", post(b"Transfer-Encoding: chunked;q=1\r\n", body=IN_CHUNKS), 501),
    Case("6.1 quoted", post(b'Transfer-Encoding: "chunked"\r\n', body=IN_CHUNKS), 501),
    Case("6.1 no coding", post(b"Transfer-Encoding:\r\n", body=IN_CHUNKS), 501),
    Case("6.3 chunked, chunked", post(b"Transfer-Encoding: chunked, chunked\r\n", body=IN_CHUNKS)),
    Case("6.3 chunked twice", post(CHUNKED, CHUNKED, body=IN_CHUNKS)),
    Case("6.1 a vertical tab", post(b"Transfer-Encoding: \x0bchunked\r\n", body=IN_CHUNKS), 501),
    # the header: section 5
    Case("5.1 space before the colon", post(b"Transfer-Encoding : chunked\r\n", body=IN_CHUNKS)),
    Case("5.1 tab before the colon", post(b"Content-Length\t: 39\r\n")),
    Case("5.1 no name", post(SIZE, b": x\r\n")),
    Case("5.1 no colon", post(SIZE, b"nothing\r\n")),
    Case("5.1 a name with a space", post(SIZE, b"X Y: z\r\n")),
    Case("5.2 a folded line", post(SIZE, b"X: a\r\n b\r\n")),
    Case("5.2 a folded coding", post(b"Transfer-Encoding:\r\n chunked\r\n", body=IN_CHUNKS)),
    Case("5.2 a first line that is folded", b"POST /update HTTP/1.1\r\n Host: x\r\n" + SIZE + b"\r\n" + BODY),
    Case("5.5 a zero byte", post(SIZE, b"X: a\x00b\r\n")),
    Case("5.5 a zero byte in a name", post(SIZE, b"X\x00: ab\r\n")),
    Case("5.5 a control character", post(SIZE, b"X: a\x0cb\r\n")),
    Case("2.2 a CR alone", post(SIZE, b"X: a\rTransfer-Encoding: chunked\r\n")),
    Case("2.2 an LF alone", post(SIZE, b"X: a\nTransfer-Encoding: chunked\r\n")),
    Case("2.2 lines that end with LF", post(SIZE).replace(b"\r\n", b"\n")),
    Case("2.2 the head ends with LF", post(SIZE, b"X: y\r\n\nX: y\r\n")),
    Case("2.2 CR CR LF", post(SIZE, b"X: y\r\r\n")),
    # the first line: sections 2.3 and 3
    Case("3 two spaces", post(SIZE, line=b"POST  /update HTTP/1.1")),
    Case("3 a tab", post(SIZE, line=b"POST\t/update HTTP/1.1")),
    Case("3 a space at its end", post(SIZE, line=b"POST /update HTTP/1.1 ")),
    Case("3 a space at its beginning", post(SIZE, line=b" POST /update HTTP/1.1")),
    Case("3 two empty lines", b"\r\n\r\n" + post(SIZE)),
    Case("3.1 a method in small letters", post(SIZE, line=b"post /update HTTP/1.1")),
    Case("3.1 a method that is no token", post(SIZE, line=b"PO:ST /update HTTP/1.1")),
    Case("3.2 a target without a slash", post(SIZE, line=b"POST update HTTP/1.1")),
    Case("3.2 a target with a fragment", post(SIZE, line=b"POST /update#x HTTP/1.1")),
    Case("3.2 a target that is not ASCII", post(SIZE, line="POST /updaté HTTP/1.1".encode())),
    Case("3.2.2 another server", post(SIZE, line=b"POST http://other.example/update HTTP/1.1")),
    Case("3.2.2 a user", post(SIZE, line=b"POST http://a@127.0.0.1/update HTTP/1.1")),
    Case("3.2.2 another scheme", post(SIZE, line=b"POST ftp://127.0.0.1/update HTTP/1.1")),
    Case("3.2.3 CONNECT", post(SIZE, line=b"CONNECT 127.0.0.1:80 HTTP/1.1")),
    Case("3.2.4 an asterisk", post(SIZE, line=b"POST * HTTP/1.1")),
    Case("2.3 HTTP/0.9", b"GET /\r\n"),
    Case("2.3 HTTP/0.9 and a header", b"GET /query\r\nHost: 127.0.0.1\r\n\r\n"),
    Case("2.3 the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
    Case("2.3 HTTP/2", post(SIZE, line=b"POST /update HTTP/2.0"), 505),
    Case("2.3 HTTP/1.2", post(SIZE, line=b"POST /update HTTP/1.2"), 505),
    Case("2.3 HTTP/1.10", post(SIZE, line=b"POST /update HTTP/1.10")),
    Case("2.3 http/1.1", post(SIZE, line=b"POST /update http/1.1")),
    Case("a TLS client", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(64))),
    # which server: section 3.2, RFC 9110 section 7.2
    Case("3.2 no Host", b"POST /update HTTP/1.1\r\n" + TYPE + SIZE + b"\r\n" + BODY),
    Case("3.2 two Hosts", post(b"Host: 127.0.0.1\r\n", SIZE)),
    Case("3.2 two unlike Hosts", post(b"host: other.example\r\n", SIZE)),
    Case("3.2 a list as Host", post(SIZE, host=b"127.0.0.1, other.example")),
    Case("3.2 a path in Host", post(SIZE, host=b"127.0.0.1/x")),
    Case("3.2 a user in Host", post(SIZE, host=b"other.example@127.0.0.1")),
    Case("3.2 a space in Host", post(SIZE, host=b"127.0.0.1 x")),
    # who, and what: RFC 9110 section 5.3
    Case("two types", post(SIZE, b"Content-Type: text/plain\r\n")),
    Case("two tokens", post(SIZE, b"Authorization: Bearer a\r\n", b"Authorization: Bearer b\r\n")),
    # chunks: section 7.1
    *(
        Case(f"7.1 {what}", post(CHUNKED, body=body))
        for what, body in [
            ("a size with 0x", b"0x27\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size with a plus", b"+27\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size below zero", b"-1\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size with an underscore", b"2_7\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size with a space before it", b" 27\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size with a space behind it", b"27 \r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("no size", b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("no size but an extension", b";x=y\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("a size beyond all", b"1" + b"0" * 16 + b"\r\n" + BODY),
            ("a size that ends with LF", b"27\n" + BODY + b"\r\n0\r\n\r\n"),
            ("an extension with a CR", b"27;a\rb\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("an extension with an LF", b"27;a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("an extension with a zero byte", b"27;a\x00b\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("an extension of 3 MB", b"27;" + b"x" * 3_000_000 + b"\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("extensions of 3 MB", (b"1;" + b"x" * 3000 + b"\r\nA\r\n") * 1000 + b"0\r\n\r\n"),
            ("data longer than its size", b"26\r\n" + BODY + b"\r\n0\r\n\r\n"),
            ("data that ends with LF", b"27\r\n" + BODY + b"\n0\r\n\r\n"),
            ("a trailer with a length", IN_CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n"),
            ("a trailer with a coding", IN_CHUNKS[:-2] + b"transfer-encoding: chunked\r\n\r\n"),
            ("a trailer with a host", IN_CHUNKS[:-2] + b"Host: other.example\r\n\r\n"),
            ("a trailer without a colon", IN_CHUNKS[:-2] + b"nothing\r\n\r\n"),
            ("a trailer that is folded", IN_CHUNKS[:-2] + b"X: y\r\n z\r\n\r\n"),
            ("a trailer that ends with LF", IN_CHUNKS[:-2] + b"X: y\n\r\n"),
            ("trailers of 1 MB", IN_CHUNKS[:-2] + b"X: y\r\n" * 200_000 + b"\r\n"),
        ]
    ),
]

TAKEN = [
    Case("plain", post(SIZE)),
    Case("a chunked body", post(CHUNKED, body=IN_CHUNKS)),
    Case("coding in capitals", post(b"TRANSFER-ENCODING: Chunked\r\n", body=IN_CHUNKS)),
    Case(
        "extensions, and a size in both cases", post(CHUNKED, body=b"027;a=b\r\n" + BODY + b"\r\n0;c\r\n\r\n")
    ),
    Case("a trailer", post(CHUNKED, body=IN_CHUNKS[:-2] + b"X-Sum: 1\r\n\r\n")),
    Case("an empty line before it", b"\r\n" + post(SIZE)),
    Case("HTTP/1.0", post(SIZE, line=b"POST /update HTTP/1.0")),
    Case("tabs around a value", post(b"Content-Length:\t39 \t\r\n")),
    Case("the whole address", post(SIZE, line=b"POST http://127.0.0.1/update HTTP/1.1")),
    Case("a name and a port", post(SIZE, host=b"localhost:7878")),
    Case("a number of six", post(SIZE, host=b"[::1]:7878")),
    Case("a value that is not ASCII", post(SIZE, "X: é\r\n".encode())),
    Case("a list in two fields", post(SIZE, b"Accept: a/b\r\n", b"Accept: c/d\r\n")),
    # RFC 9110 section 5.1 allows it, but it would become Content-Length in the WSGI environment.
    Case(
        "a name with an underscore", post(SIZE, b"Content_Length: 5\r\n", b"Transfer_Encoding: chunked\r\n")
    ),
]


def ids(cases: list[Case]) -> list[str]:
    return [case.name for case in cases]


@pytest.mark.parametrize("case", CASES, ids=ids(CASES))
def test_a_request_that_can_be_read_otherwise_is_refused(case: Case) -> None:
    found = read([case.request + SMUGGLED])
    assert (found.requests, found.status) == ([], case.status)


@pytest.mark.parametrize("case", [case for case in CASES if len(case.request) < 5000])
def test_it_is_refused_too_when_it_comes_byte_by_byte(case: Case) -> None:
    found = read([bytes([byte]) for byte in case.request + SMUGGLED])
    assert (found.requests, found.status) == ([], case.status)


@pytest.mark.parametrize("case", TAKEN, ids=ids(TAKEN))
def test_a_request_that_all_read_alike_is_taken(case: Case) -> None:
    for pieces in ([case.request + SMUGGLED], [bytes([byte]) for byte in case.request + SMUGGLED]):
        found = read(pieces)
        assert found.status == 0
        # The connection of an HTTP/1.0 client ends with its request.
        expected = [("POST", "/update", BODY)] * (1 if b"HTTP/1.0" in case.request else 2)
        assert found.requests == expected


def test_the_server_answers_with_a_problem_and_closes_and_does_nothing(server: LiveServer) -> None:
    for case in CASES:
        with connect(server) as client:
            answer = exchange(client, case.request + SMUGGLED)
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 %d " % case.status), (case.name, answer)
        assert b"Connection: close" in head
        assert b"application/problem+json" in head
        assert json.loads(body)["status"] == case.status, case.name
    assert not server.boolean("ASK { <urn:a> <urn:b> <urn:c> }")


def exchange(client: socket.socket, data: bytes) -> bytes:
    """All that comes back; a refusal may come, and the end, while this still sends."""
    try:
        client.sendall(data)
    except OSError:
        pass
    return read_all(client)


def test_the_server_does_what_all_read_alike(server: LiveServer) -> None:
    for case in TAKEN:
        with connect(server) as client:
            client.sendall(case.request)
            assert b" 204 " in client.recv(1000), case.name
    assert server.boolean("ASK { <urn:a> <urn:b> <urn:c> }")


def test_names_with_underscores_are_no_names_with_hyphens(server: LiveServer) -> None:
    request = (
        b"GET /health/live HTTP/1.1\r\nHost: 127.0.0.1\r\nContent_Length: 5\r\nConnection: close\r\n\r\n"
    )
    with connect(server) as client:
        assert exchange(client, request).startswith(b"HTTP/1.1 200 ")


def test_what_is_refused_is_counted_and_logged(start_server: Start, tmp_path: Path) -> None:
    access = tmp_path / "access.log"
    server = start_server(access_log=str(access))
    with connect(server) as client:
        exchange(client, post(SIZE, CHUNKED, body=IN_CHUNKS))
    counted = 'quadrill_http_requests_total{method="other",route="none",status="400"} 1.0'
    assert counted in server.client.get("/metrics").text
    assert (
        '127.0.0.1 "refused Transfer-Encoding and Content-Length do not go together" 400'
        in access.read_text()
    )


def test_what_a_client_sent_is_not_repeated(server: LiveServer) -> None:
    """A token may be in a line that is wrong; refusals are logged."""
    with connect(server) as client:
        answer = exchange(client, post(SIZE, b"Authorization : Bearer secret-token\r\n"))
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"secret" not in answer


@pytest.mark.parametrize("field", [b"X: y\r\n", b"X%d: y\r\n"])
def test_too_many_fields_are_refused(field: bytes) -> None:
    fields = b"".join(field % number if b"%" in field else field for number in range(300))
    found = read([post(SIZE, fields)])
    assert (found.requests, found.status) == ([], 431)


@pytest.mark.parametrize("target", ["/store/k\u00e4se", "/query?query=ASK{?s?p'\u00e9'}", "/\U0001d11e"])
def test_target_with_raw_utf_8_is_told_how_to_write_it(start_server: Start, target: str) -> None:
    with connect(start_server()) as client:
        client.sendall(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        answer = read_all(client).decode()
    assert answer.startswith("HTTP/1.1 400 ")
    assert "characters outside ASCII: percent-encode their UTF-8 bytes" in answer
