"""The fast reader of heads takes plain ones alone."""

from __future__ import annotations

import pytest

from quadrill.app.server import wire


@pytest.mark.parametrize(
    "head",
    [
        b"GET /query HTTP/1.0\r\nHost: a",
        b"GET http://a/query HTTP/1.1\r\nHost: a",
        b"GET /query#x HTTP/1.1\r\nHost: a",
        b"GET /qu\xc3\xa9ry HTTP/1.1\r\nHost: a",
        b"GET  /query HTTP/1.1\r\nHost: a",
        b"get /query HTTP/1.1\r\nHost: a",
        b"GET /query HTTP/1.1",
        b"GET /query HTTP/1.1\r\nAccept: b",
        b"GET /query HTTP/1.1\r\nHost:",
        b"GET /query HTTP/1.1\r\nHost: a\r\nHost: a",
        b"GET /query HTTP/1.1\r\nHost: a\r\n folded",
        b"GET /query HTTP/1.1\r\nHost : a",
        b"GET /query HTTP/1.1\r\nHost: a\nX: b",
        b"GET /query HTTP/1.1\r\nHost: a\r\nConnection: close",
        b"POST /query HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\ncontent-length: 2",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: +1",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: -1",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-continue",
        b"POST /query HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Encoding: gzip",
    ],
)
def test_unusual_head_is_left_to_the_strict_reader(head: bytes) -> None:
    assert wire.parse(head + b"\r\n\r\n") is None


def test_a_plain_head_is_read() -> None:
    data = b"POST /sparql?a=%20b HTTP/1.1\r\nhost: a:1\r\nACCEPT:  x/y \r\nContent-Length: 2\r\n\r\n{}"
    found = wire.parse(data)
    assert found is not None
    assert (found.method, found.path, found.query_string) == ("POST", "/sparql", b"a=%20b")
    assert found.headers == {"Host": "a:1", "Accept": "x/y", "Content-Length": "2"}
    assert data[found.body_at :] == b"{}"
    assert found.fields.body_length == 2
