"""Requests on the wire: their form, and the quick reader of heads that are plain.

What is read here is what all readers of HTTP agree on. A head that has anything unusual (RFC 9112: folded
lines, a header twice, transfer codings, other versions, a target in another form) is not ours to judge:
`parse` gives None, and strict.py reads the same bytes with h11.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl

from ..http.fields import Fields
from ..http.request import Line, Request

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


def in_lines(request: Request) -> bool:
    """True for a push whose lines are processed as they arrive: its body is not waited for."""
    fields = request.fields
    return (
        fields.chunked
        and request.method == "POST"
        and request.path.startswith("/streams")
        and _LINES.match(fields.values.get("Content-Type", "")) is not None
        and not _WHOLE & fields.values.keys()
        and "wait" not in dict(parse_qsl(request.query_string.decode("latin-1"), keep_blank_values=True))
    )


def parse(data: bytes) -> Request | None:
    """The request that ``data`` begins with, without its body; None for a head not whole or not plain."""
    end = data.find(END)
    if end < 0:
        return None
    # A client repeats its header with every request; a first line with a query in it differs.
    if data[:1] == b"P" and end <= _MAX_KEPT_HEAD:
        head = _kept_head(data[:end])
    else:
        head = _head(data[:end])
    return None if head is None else Request(*head, end + len(END))


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
