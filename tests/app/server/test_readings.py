"""One request, one reading: h11 is the second reader of requests that chance has changed."""

from __future__ import annotations

import random
from urllib.parse import urlsplit

import h11
from hypothesis import given, settings
from hypothesis import strategies as st

from quadrill.app.server import wire
from tests.app.server.reading import read
from tests.app.server.test_refused_requests import CASES, SMUGGLED, TAKEN

SEEDS = [case.request for case in (*TAKEN, *CASES) if len(case.request) < 1000]
PIECES = [
    *(b"\r\n", b"\n", b"\r", b" ", b"\t", b"\x00", b":", b",", b";", b"0", b"1", b"a", b"+", b"_", b"\xe9"),
    *(b"\r\n\r\n", b"\r\n ", b"chunked", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"),
    *(b"Host: b\r\n", b"Connection: close\r\n", b"HTTP/1.0", b"HTTP/1.1", b"0\r\n\r\n", b"5\r\nhello\r\n"),
    *(b"http://127.0.0.1", b"/", b"%0d%0a", b"Expect: 100-continue\r\n", b"X: y\r\n", b"GET / HTTP/1.1\r\n"),
]


def changed(chance: random.Random, data: bytes, times: int) -> bytes:
    """The bytes with something put in, taken out, doubled or exchanged."""
    for _ in range(times):
        at = chance.randrange(len(data) + 1)
        to = min(len(data), at + chance.choice((0, 1, 1, 2, 5, 20)))
        piece = chance.choice((b"", chance.choice(PIECES), bytes([chance.randrange(256)]), data[at:to] * 2))
        data = data[:at] + piece + data[to:]
    return data


def oracle(data: bytes) -> tuple[list[tuple[str, str, bytes]], bool]:
    """The whole requests that h11 reads, and whether it refuses what follows them."""
    found: list[tuple[str, str, bytes]] = []
    while data:
        parser = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
        parser.receive_data(data.removeprefix(b"\r\n"))
        body = b""
        request: h11.Request | None = None
        try:
            while not isinstance(event := parser.next_event(), h11.EndOfMessage):
                if isinstance(event, h11.Request):
                    request = event
                elif isinstance(event, h11.Data):
                    body += bytes(event.data)
                else:
                    return found, False
        except h11.RemoteProtocolError:
            return found, True
        assert request is not None
        target = request.target.decode("ascii")
        if not target.startswith(("/", "*")):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if "?" in target else "")
        found.append((request.method.decode("ascii"), target, body))
        data = parser.trailing_data[0]
    return found, False


@settings(max_examples=600, deadline=None)
@given(st.integers(0, 1 << 60))
def test_what_is_taken_is_what_h11_reads_and_what_it_refuses_is_refused(number: int) -> None:
    chance = random.Random(number)
    data = changed(chance, chance.choice(SEEDS), chance.randrange(4)) + SMUGGLED
    ours = read([data])
    requests, refused = oracle(data)
    assert ours.requests == requests[: len(ours.requests)]
    if refused:
        assert len(ours.requests) <= len(requests)
        ended = ours.whole and ours.whole[-1].fields.close
        assert ours.status or ours.unfinished or ended
    cuts = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(1, 6)))
    pieces = [data[start:end] for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True)]
    slowly = read(pieces)
    assert slowly.requests == ours.requests
    assert slowly.status == ours.status or not slowly.requests and 0 not in (slowly.status, ours.status)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 1 << 60))
def test_the_quick_reader_agrees_with_h11_on_every_head_that_it_takes(number: int) -> None:
    chance = random.Random(number)
    plain = SMUGGLED.partition(wire.END)[0] + b"\r\nAccept: */*\r\nUser-Agent: x\r\n\r\n"
    data = changed(chance, plain, chance.randrange(1, 4))
    found = wire.parse(data)
    if found is None:
        return
    parser = h11.Connection(h11.SERVER)
    parser.receive_data(data[: found.body_at])
    event = parser.next_event()
    assert isinstance(event, h11.Request)
    assert (found.method, found.target) == (event.method.decode(), event.target.decode())
    theirs = {name.decode().title(): value.decode("latin-1") for name, value in event.headers}
    assert found.headers == theirs
    assert found.fields.body_length == int(theirs.get("Content-Length", "0"))
