"""Bodies: chunked ones in any pieces, large ones that a worker receives, and what follows them."""

from __future__ import annotations

import gzip
import random

import h11
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.app.http.errors import HttpError
from quadrill.app.server.body_stream import BodyStream
from quadrill.app.server.chunked import ChunkedBody
from quadrill.app.server.refused import RefusedError
from tests.app.conftest import LiveServer, Start, problem_of
from tests.app.test_server import connect, read_all

HEAD = b"POST /store?default HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/n-triples\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
LAST = b"GET /query?query=ASK%7B%3Curn:s1999%3E%20?p%20?o%7D HTTP/1.1\r\nHost: 127.0.0.1\r\n"
LAST += b"Connection: close\r\n\r\n"
TRIPLES = b"".join(b'<urn:s%d> <urn:p> "%d" .\n' % (number, number) * 3 for number in range(2000))


def in_chunks(data: bytes, chance: random.Random, most: int) -> bytes:
    found = b""
    while data:
        size = chance.randrange(1, most)
        piece, data = data[:size], data[size:]
        found += b"%x%b\r\n%b\r\n" % (len(piece), chance.choice((b"", b";a", b';a="b"')), piece)
    return found + b"0\r\n" + chance.choice((b"", b"X-Sum: 1\r\n")) + b"\r\n"


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=500), st.integers(0, 1 << 30))
def test_a_chunked_body_is_read_in_whatever_pieces_it_comes(data: bytes, number: int) -> None:
    chance = random.Random(number)
    coded = in_chunks(data, chance, 40) + b"GET"
    body = ChunkedBody()
    while coded:
        size = chance.randrange(1, 30)
        body.feed(coded[:size])
        coded = coded[size:]
    assert (body.ended, bytes(body.decoded), body.rest) == (True, data, b"GET")


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 30))
def test_what_is_decoded_from_broken_chunks_is_what_h11_decodes(number: int) -> None:
    chance = random.Random(number)
    coded = bytearray(in_chunks(b"some words that are sent", chance, 12))
    for _ in range(chance.randrange(1, 3)):
        at = chance.randrange(len(coded))
        coded[at : at + chance.randrange(2)] = chance.choice(
            (b"", b"\r", b"\n", b"1", b";", b" ", b"\x00", b"+")
        )
    body = ChunkedBody()
    try:
        body.feed(bytes(coded))
    except RefusedError:
        return
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(HEAD + CHUNKED + b"\r\n" + bytes(coded))
    theirs, event = b"", parser.next_event()
    while not isinstance(event, h11.EndOfMessage) and event is not h11.NEED_DATA:
        theirs += bytes(event.data) if isinstance(event, h11.Data) else b""
        event = parser.next_event()
    assert bytes(body.decoded) == theirs
    assert body.ended == isinstance(event, h11.EndOfMessage)


@pytest.mark.parametrize("chunk", [0, 100, 10_000, 300_000])
def test_a_large_body_is_received_and_the_request_behind_it_is_read(server: LiveServer, chunk: int) -> None:
    assert len(TRIPLES) > 150_000
    if chunk:
        request = HEAD + CHUNKED + b"\r\n" + in_chunks(TRIPLES, random.Random(1), chunk)
    else:
        request = HEAD + b"Content-Length: %d\r\n\r\n" % len(TRIPLES) + TRIPLES
    with connect(server) as client:
        client.sendall(request + LAST)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 20")
    assert b"HTTP/1.1 200 OK" in answer
    assert b"true" in answer
    assert server.services.store.reader.quad_count == 2000


@pytest.mark.parametrize(
    "rest", [b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello world\r\n0\r\n\r\n", b"0\r\nHost: x\r\n\r\n"]
)
def test_a_large_body_that_breaks_later_changes_nothing_and_ends_the_connection(
    server: LiveServer, rest: bytes
) -> None:
    first = TRIPLES[:100_000]
    request = HEAD + CHUNKED + b"\r\n" + b"%x\r\n" % len(first) + first + b"\r\n" + rest
    with connect(server) as client:
        client.sendall(request + LAST)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"Connection: close" in answer
    assert answer.count(b"HTTP/1.1") == 1
    assert server.services.store.reader.quad_count == 0


def test_a_body_that_ends_early_changes_nothing(server: LiveServer) -> None:
    for head in (b"Content-Length: 1000000\r\n\r\n", CHUNKED + b"\r\n20000\r\n"):
        with connect(server) as client:
            client.sendall(HEAD + head + TRIPLES[:100_000])
            client.shutdown(1)
            assert read_all(client).startswith(b"HTTP/1.1 400 ")
    assert server.services.store.reader.quad_count == 0


class Stalling:
    """A client that sends a piece, nothing for a while, and then the rest."""

    data = b""

    def __init__(self, *pieces: bytes | None) -> None:
        self._pieces = iter(pieces)

    def receive_more(self, most: int, seconds: float) -> bytes:
        piece = next(self._pieces)
        if piece is None:
            raise TimeoutError
        return piece

    def invite(self) -> None:
        raise AssertionError("the client sends its body already")


def test_a_body_of_which_a_piece_was_read_and_lost_is_not_read_on() -> None:
    body = BodyStream(Stalling(b"12345", None, b"67890"), 30.0, 10, None)
    with pytest.raises(HttpError, match="too slowly"):
        body.read()
    with pytest.raises(HttpError, match="too slowly"):
        body.read()


def test_the_whole_of_a_body_is_its_pieces() -> None:
    body = BodyStream(Stalling(b"12345", b"67890"), 30.0, 10, None)
    assert (body.read(), body.finished, body.received) == (b"1234567890", True, 10)


def test_a_client_of_http_1_0_gets_no_chunks(server: LiveServer) -> None:
    text = b"SELECT * { VALUES ?x { %b } VALUES ?y { %b } }" % ((b"1 " * 100,) * 2)
    head = b"POST /query HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Type: application/sparql-query\r\n"
    with connect(server) as client:
        client.sendall(head + b"Accept: text/csv\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        answer, _, body = read_all(client).partition(b"\r\n\r\n")
    assert b"ransfer-" not in answer
    assert body.startswith(b"x,y\r\n1,1\r\n")
    assert body.count(b"\r\n") == 10_001


def test_a_large_body_may_be_announced(server: LiveServer) -> None:
    with connect(server) as client:
        client.sendall(
            HEAD
            + b"Expect: 100-Continue\r\nConnection: close\r\n"
            + b"Content-Length: %d\r\n\r\n" % len(TRIPLES)
        )
        assert client.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(TRIPLES)
        assert read_all(client).startswith(b"HTTP/1.1 20")


@pytest.mark.parametrize(
    ("target", "length", "status"),
    [
        ("/store?default", b"Content-Length: 9000000", b"413"),
        ("/nowhere", b"Content-Length: 100000", b"404"),
        ("/store?nothing", b"Transfer-Encoding: chunked", b"400"),
    ],
)
def test_refused_body_is_not_invited(start_server: Start, target: str, length: bytes, status: bytes) -> None:
    server = start_server(max_body_bytes=1 << 20)
    with connect(server) as client:
        head = f"PUT {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: text/turtle\r\n".encode()
        client.sendall(head + b"Expect: 100-continue\r\n" + length + b"\r\n\r\n")
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 " + status), answer
    assert b"Connection: close" in answer


def test_every_member_of_a_packed_body_is_read(server: LiveServer) -> None:
    """As `cat a.gz b.gz` makes it; RFC 1952, 2.2."""
    lines = [f"<urn:a> <urn:b> <urn:c{number}> .\n".encode() for number in range(3)]
    headers = {"Content-Type": "application/n-triples", "Content-Encoding": "gzip"}
    body = b"".join(map(gzip.compress, lines))
    assert server.client.post("/store?default", content=body, headers=headers).status_code == 204
    assert server.services.store.reader.quad_count == 3
    cut = server.client.post("/store?default", content=body[:-4], headers=headers)
    assert "ends early" in problem_of(cut, 400)["detail"]
    bad = server.client.post("/store?default", content=body + b"rest", headers=headers)
    assert "cannot be unpacked" in problem_of(bad, 400)["detail"]


def test_what_a_packed_body_unpacks_to_is_limited(start_server: Start) -> None:
    server = start_server(max_push_bytes=1 << 20)
    headers = {"Content-Type": "application/n-triples", "Content-Encoding": "gzip"}
    members = gzip.compress(b" " * (1 << 18)) * 5
    problem_of(server.client.post("/streams?iri=urn:s", content=members, headers=headers), 413)
