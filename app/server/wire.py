"""The fast parser of ordinary request heads.

The fast parser accepts only request heads that all HTTP parsers read alike. For a request head with anything
unusual (RFC 9112: folded lines, a repeated header, transfer codings, other versions, a target in another
form), `parse` returns None, and strict.py parses the same bytes with h11.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import parse_qsl

from ..http.fields import Fields
from ..http.request import Line, Request

END = b"\r\n\r\n"
"""The bytes that end the head of an HTTP request."""
HOST = re.compile(r"(?:[A-Za-z0-9._~%!$&'()*+,;=-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
"""Pattern of the header Host (RFC 9110 section 7.2): a name or address, and an optional port."""
FORWARDED_FOR = "X-Forwarded-For"
FORWARDING = frozenset({FORWARDED_FOR, "Forwarded", "Via"})
"""Header fields whose presence shows that a proxy has forwarded the request."""
MAX_FIELDS = 256
_MAX_KEPT_HEAD = 2048
_LINE = re.compile(rb"([A-Z]+) (/[!\"$-~]*) HTTP/1\.1")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?[ \t]*")
_UNUSUAL = frozenset({"Transfer-Encoding", "Expect", "Upgrade", "Content-Encoding", "Te", "Trailer"})
_LINES = re.compile(r"application/(?:x-ndjson|ndjson|jsonl|x-jsonlines)[ \t]*(?:;|\Z)", re.IGNORECASE)
_WHOLE = frozenset({"Idempotency-Key", "Content-Encoding"})
"""Header fields with which the server receives the whole body of a push before it processes its lines."""
_NUMBER = re.compile(r"[0-9]{1,9}")


def in_lines(request: Request) -> bool:
    """Return True for a push whose lines are processed as they arrive, before the body is complete."""
    fields = request.fields
    return (
        fields.chunked
        and request.method == "POST"
        and "/streams" in request.path  # the path may begin with the prefix of a proxy
        and _LINES.match(fields.values.get("Content-Type", "")) is not None
        and not _WHOLE & fields.values.keys()
        and "wait" not in dict(parse_qsl(request.query_string.decode("latin-1"), keep_blank_values=True))
    )


def parse(data: bytes) -> Request | None:
    """Parse the request head at the start of ``data``; return None if it is incomplete or unusual."""
    end = data.find(END)
    if end < 0:
        return None
    # A client repeats its header fields with every request, so the parsed heads of POST, PUT and PATCH are
    # cached. The parsed head of a GET is not cached, because the first line may have a different query string
    # each time.
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
    """Parse a request's first line into method, path, query string and target; None if it is unusual."""
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
    # Only small headers count as plain, because caches keyed by header fields must not keep large headers.
    plain = len(lines) <= _MAX_KEPT_HEAD
    return Fields(found, int(length), plain=plain, forwarded=not FORWARDING.isdisjoint(found))


_kept_fields = lru_cache(maxsize=1024)(_fields)
_kept_head = lru_cache(maxsize=1024)(_head)
