"""HTTP/1.1 on the wire, as far as the short cut reads and writes it.

What is read here is what all readers of HTTP agree on. A request that has anything unusual (RFC 9112: folded
lines, a header twice, transfer codings, other versions, a target in another form) is not ours to judge:
`parse` gives None, and the ordinary way reads the same bytes.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from itertools import chain
from socket import socket
from typing import TypeAlias

from werkzeug.http import parse_cookie

from .bodies import too_large

MAX_REQUEST_BYTES = 64 << 10
"""A request that is larger, head and body together, goes the ordinary way."""
_MAX_KEPT_HEAD = 2048
_END = b"\r\n\r\n"
_LINE = re.compile(rb"(GET|POST) (/[!\"$-~]*) HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?[ \t]*")
_UNUSUAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Te", "Trailer"})
_NUMBER = re.compile(r"[0-9]{1,9}")

Line: TypeAlias = tuple[str, str, bytes, str]
"""Of a request line: method, path, query string, and the target that holds both."""


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The header of a request: values by name, each word of it with one capital; and the body's length."""

    values: dict[str, str]
    body_length: int


class WireRequest:
    """One whole request. ``path`` and ``query_string`` are as they came, not decoded.

    Requests of one client with the same header share their ``fields``.
    """

    __slots__ = ("body", "body_at", "fields", "headers", "method", "path", "query_string", "target")

    def __init__(self, line: Line, fields: Fields, body_at: int, body: bytes = b"") -> None:
        self.method, self.path, self.query_string, self.target = line
        self.fields = fields
        self.headers = fields.values
        self.body_at = body_at
        self.body = body

    def read(self, limit: int, what: str) -> bytes:
        """The body of the request, read once.

        Raises: HttpError 413 when it has more than ``limit`` bytes.
        """
        if len(self.body) > limit:
            raise too_large(what, limit, len(self.body))
        return self.body

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies of the request by name."""
        return dict(parse_cookie(self.headers.get("Cookie")))


def parse(data: bytes) -> WireRequest | None:
    """The request that ``data`` begins with, without its body; None for a head not whole or not plain."""
    end = data.find(_END)
    if end < 0:
        return None
    # A client repeats its header with every request; a first line with a query in it differs.
    if data[:1] == b"P" and end <= _MAX_KEPT_HEAD:
        head = _kept_head(data[:end])
    else:
        head = _head(data[:end])
    return None if head is None else WireRequest(*head, end + len(_END))


def _head(data: bytes) -> tuple[Line, Fields] | None:
    line, _, lines = data.partition(b"\r\n")
    fields = _kept_fields(lines) if len(lines) <= _MAX_KEPT_HEAD else _fields(lines)
    target = _target(line)
    return None if fields is None or target is None else (target, fields)


def _target(line: bytes) -> Line | None:
    """Method, path, query string and target of a request line."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    target = found[2].decode("ascii")
    path, _, query = target.partition("?")
    return found[1].decode("ascii"), path, query.encode("ascii"), target


def _fields(lines: bytes) -> Fields | None:
    found: dict[str, str] = {}
    for line in lines.split(b"\r\n"):
        field = _FIELD.fullmatch(line)
        if field is None:
            return None
        name = field[1].decode("ascii").title()
        if name in found or name in _UNUSUAL:
            return None
        found[name] = (field[2] or b"").decode("ascii")
    length = found.get("Content-Length", "0")
    if not found.get("Host") or not _NUMBER.fullmatch(length):
        return None
    if found.get("Connection", "keep-alive").lower() != "keep-alive":
        return None
    return Fields(found, int(length))


_kept_fields = lru_cache(maxsize=1024)(_fields)
_kept_head = lru_cache(maxsize=1024)(_head)


class Reply:
    """One answer on a connection: of known length in one piece, or chunked."""

    __slots__ = ("_chunked", "_head", "_server", "_socket", "_timeout", "begun", "status")

    def __init__(self, sock: socket, server: str, timeout: float) -> None:
        """Begin an answer.

        Args:
            sock: the connection.
            server: the name of the server.
            timeout: seconds that the client may take to receive a block.
        """
        self._socket = sock
        self._server = server
        self._timeout = timeout
        self._head = b""
        self._chunked = True
        self.status = 0
        self.begun = False

    def start(self, status: str, headers: list[tuple[str, str]]) -> Callable[[bytes], None]:
        """Take status and headers; they go out with the first block."""
        self.status = int(status[:3])
        self._chunked = "Content-Length" not in dict(headers)
        form = _form(len(headers), self._chunked)
        values = chain.from_iterable(headers)
        self._head = (form % (status, *values, _date(int(time.time())), self._server)).encode("latin-1")
        return self.write

    def write(self, block: bytes) -> None:
        """Send a block of a chunked answer."""
        self._send(b"%b%x\r\n%b\r\n" % (self._head, len(block), block))
        self._head = b""

    def end(self, rest: Iterable[bytes]) -> None:
        """Send what is left, and with it the end."""
        self.begun = True
        if self._chunked:
            for block in rest:
                self.write(block)
            self._send(self._head + b"0\r\n\r\n")
        else:
            self._send(self._head + b"".join(rest))

    def _send(self, data: bytes) -> None:
        self.begun = True
        try:
            sent = self._socket.send(data)
        except TimeoutError:
            sent = 0
        if sent < len(data):
            self._send_rest(memoryview(data)[sent:])

    def _send_rest(self, data: memoryview) -> None:
        """Send to a client that does not receive as fast as we send."""
        brief = self._socket.gettimeout()
        self._socket.settimeout(self._timeout)
        while data:
            data = data[self._socket.send(data) :]
        self._socket.settimeout(brief)


@lru_cache(maxsize=64)
def _form(headers: int, chunked: bool) -> str:
    coding = "Transfer-Encoding: chunked\r\n" if chunked else ""
    return "HTTP/1.1 %s\r\n" + "%s: %s\r\n" * headers + coding + "Date: %s\r\nServer: %s\r\n\r\n"


@lru_cache(maxsize=2)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
