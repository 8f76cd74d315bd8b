"""Requests on the wire: their form, and the quick reader of heads that are plain.

What is read here is what all readers of HTTP agree on. A head that has anything unusual (RFC 9112: folded
lines, a header twice, transfer codings, other versions, a target in another form) is not ours to judge:
`parse` gives None, and strict.py reads the same bytes with h11.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Protocol, TypeAlias
from urllib.parse import parse_qsl

from werkzeug.http import parse_cookie

from .bodies import too_large
from .body_stream import BodyStream

END = b"\r\n\r\n"
"""The end of a head."""
HOST = re.compile(r"(?:[A-Za-z0-9._~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
"""The value of Host (RFC 9110 section 7.2): a name or address, and a port."""
FORWARDED_FOR = "X-Forwarded-For"
FORWARDING = frozenset({FORWARDED_FOR, "Forwarded", "Via"})
"""Header fields by which a request shows that a proxy sent it."""
MAX_FIELDS = 256
_MAX_KEPT_HEAD = 2048
_LINE = re.compile(rb"([A-Z]+) (/[!\"$-~]*) HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?[ \t]*")
_UNUSUAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Te", "Trailer"})
_LINES = re.compile(r"application/(?:x-ndjson|ndjson|jsonl|x-jsonlines)[ \t]*(?:;|\Z)", re.IGNORECASE)
_WHOLE = frozenset({"Idempotency-Key", "Content-Encoding"})
"""With one of these a body has to be here as a whole."""
_NUMBER = re.compile(r"[0-9]{1,9}")

Line: TypeAlias = tuple[str, str, bytes, str]
"""Of a request line: method, path, query string, and the target that holds both."""


class HeaderFields(Protocol):
    """The headers of a request by name, whoever has read them."""

    def get(self, name: str, /) -> str | None: ...  # noqa: D102


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """The header of a request: values by name, each word of it with one capital; what it says of the rest.

    Attributes:
        values: a field that came several times is one value, joined.
        body_length: bytes of the body; what a chunked one has is known at its end.
        chunked: the body is chunked.
        close: the connection ends with this request.
        expects: the client waits for ``100 Continue`` before it sends the body.
        minor_version: of HTTP/1.
        plain: the quick reader read it, and it is small: the short cut may take it.
        forwarded: it says that a proxy sent the request.
        environ: what it gives to a WSGI environment; filled by who asks first (gateway.py).
    """

    values: dict[str, str]
    body_length: int
    chunked: bool = False
    close: bool = False
    expects: bool = False
    minor_version: int = 1
    plain: bool = True
    forwarded: bool = False
    environ: dict[str, Any] = field(default_factory=dict)


class WireRequest:
    """One request. ``path`` and ``query_string`` are as they came, not decoded.

    Requests of one client with the same header share their ``fields``.

    Attributes:
        body_at: where the body begins in the bytes that the head was read from.
        body: the whole body, unless it is large.
        stream: a large body, received while it is read.
        counted: its token was found right, and it counts as one of the token's requests.
        trusted: a trusted proxy sent it.
        lent: the connection belongs to who answers the request, and comes back by itself.
    """

    __slots__ = (
        *("body", "body_at", "counted", "fields", "headers", "lent", "method", "path"),
        *("query_string", "stream", "target", "trusted"),
    )

    def __init__(self, line: Line, fields: Fields, body_at: int, body: bytes = b"") -> None:
        self.method, self.path, self.query_string, self.target = line
        self.fields = fields
        self.headers = fields.values
        self.body_at = body_at
        self.body = body
        self.stream: BodyStream | None = None
        self.lent = False
        self.counted = False
        self.trusted = False

    @property
    def in_lines(self) -> bool:
        """True for a push whose lines are taken as they come: its body is not waited for."""
        fields = self.fields
        return (
            fields.chunked
            and self.method == "POST"
            and self.path.startswith("/streams")
            and _LINES.match(fields.values.get("Content-Type", "")) is not None
            and not _WHOLE & fields.values.keys()
            and "wait" not in dict(parse_qsl(self.query_string.decode("latin-1"), keep_blank_values=True))
        )

    def read(self, limit: int, what: str) -> bytes:
        """The body of the request; a large one is received now, unless it is chunked.

        Raises: HttpError 413 when it has more than ``limit`` bytes, else as `BodyStream`.
        """
        length = self.fields.body_length
        if length > limit:
            raise too_large(what, limit, length)
        if self.stream is not None:
            self.body = self.stream.whole()
            self.stream = None
        return self.body

    @property
    def cookies(self) -> dict[str, str]:
        """The cookies of the request by name."""
        return dict(parse_cookie(self.headers.get("Cookie")))


def parse(data: bytes) -> WireRequest | None:
    """The request that ``data`` begins with, without its body; None for a head not whole or not plain."""
    end = data.find(END)
    if end < 0:
        return None
    # A client repeats its header with every request; a first line with a query in it differs.
    if data[:1] == b"P" and end <= _MAX_KEPT_HEAD:
        head = _kept_head(data[:end])
    else:
        head = _head(data[:end])
    return None if head is None else WireRequest(*head, end + len(END))


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
    if lines.count(b"\n") >= MAX_FIELDS:
        return None
    found: dict[str, str] = {}
    for line in lines.split(b"\r\n"):
        parts = _FIELD.fullmatch(line)
        if parts is None:
            return None
        name = parts[1].decode("ascii").title()
        if name in found or name in _UNUSUAL:
            return None
        found[name] = (parts[2] or b"").decode("ascii")
    length = found.get("Content-Length", "0")
    if not HOST.fullmatch(found.get("Host", "")) or not _NUMBER.fullmatch(length):
        return None
    if found.get("Connection", "keep-alive").lower() != "keep-alive":
        return None
    # What is kept of clients by their fields must not grow large.
    plain = len(lines) <= _MAX_KEPT_HEAD
    return Fields(found, int(length), plain=plain, forwarded=not FORWARDING.isdisjoint(found))


_kept_fields = lru_cache(maxsize=1024)(_fields)
_kept_head = lru_cache(maxsize=1024)(_head)
