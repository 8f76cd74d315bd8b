"""Strict parser of unusual request heads: h11 and further rules against request smuggling.

h11 follows RFC 9112 where it says MUST and is lenient where it says MAY: folded lines, lines that end with LF
alone, Content-Length together with Transfer-Encoding. A proxy may read such a head in another way: a message
that the proxy forwards as one request would be two requests for the server (request smuggling). The strict
parser rejects folded lines, lines that end with LF alone, and Content-Length together with Transfer-Encoding.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from urllib.parse import urlsplit

import h11

from ..http.fields import Fields
from ..http.request import Line, Request
from .refused import RefusedError
from .wire import FORWARDING, HOST, MAX_FIELDS

_MANGLED = re.compile(rb"\x00|\r(?!\n|\Z)|(?<!\r)\n|\n[ \t]")
_WHY = {
    b"\x00": "a zero byte",
    b"\r": "a CR without LF",
    b"\n": "an LF without CR",
}
_LINE = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Z]+) ([\x21-\x7e]+) HTTP/([0-9])\.([0-9])")
_WIDE = re.compile(rb"\A[!-~]+ [^ ]*[\x80-\xff]")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_FRAMING = re.compile(rb"\n(content-length|transfer-encoding)[ \t]*:([^\r\n]*)", re.IGNORECASE)
# Header fields that a request may have only once. The values of other repeated header fields are joined as
# RFC 9110 section 5.3 says.
_ONCE = frozenset(
    "Host Content-Length Content-Type Content-Range Authorization Proxy-Authorization Origin Referer Range "
    "User-Agent From Max-Forwards Date If-Modified-Since If-Unmodified-Since If-Range Last-Event-Id "
    "Idempotency-Key".split()
)


def read(head: bytes) -> Request:
    """Parse a complete request head, which ends with an empty line.

    Raises: RefusedError when the request head is malformed or ambiguous.
    """
    check_begun(head)
    first = head[: head.find(b"\r\n")]
    method, target, minor = _first_line(first)
    if head.count(b"\n") - 2 > MAX_FIELDS:
        raise RefusedError(431, f"a request may have {MAX_FIELDS} header fields")
    fields = _combined(_parsed(head))
    path, _, query = _origin_form(method, target, fields.get("Host", "")).partition("?")
    line: Line = (method, path, query.encode("ascii"), f"{path}?{query}" if query else path)
    return Request(line, _framing(fields, minor), len(head))


def check_begun(data: bytes | bytearray, start: int = 0) -> None:
    """Check an incomplete request head from offset ``start`` on for errors that more bytes cannot correct.

    Raises: RefusedError when the incomplete request head has an error.
    """
    found = _MANGLED.search(data, max(0, start - 1))
    if found is not None:
        what = _WHY.get(found[0], "a folded line")
        raise RefusedError(400, f"the head of the request has {what}")
    end = data.find(b"\r\n")
    if end >= max(0, start - 1):
        _first_line(bytes(data[:end]))


def _first_line(line: bytes) -> tuple[str, str, int]:
    """Parse the first line of a request into method, target and minor HTTP version."""
    found = _LINE.fullmatch(line)
    if found is None and _WIDE.search(line):
        raise RefusedError(
            400,
            "the target of the request has characters outside ASCII: percent-encode their UTF-8 bytes, as "
            "%C3%A9 for é",
        )
    if found is None:
        raise RefusedError(400, "the request does not begin with a method, a target and HTTP/1.1")
    method, target = found[1].decode("ascii"), found[2].decode("ascii")
    if not target.startswith("/") and not target.lower().startswith(("http://", "https://")):
        # RFC 9112 section 3.2.4: only OPTIONS requests may have the target ``*``.
        if (method, target) != ("OPTIONS", "*"):
            raise RefusedError(400, "the target of the request is no path that begins with a slash")
    if "#" in target:
        raise RefusedError(400, "the target of the request has a fragment")
    if found[3] != b"1" or found[4] not in (b"0", b"1"):
        raise RefusedError(505, "this server speaks HTTP/1.1")
    return method, target, int(found[4])


def _parsed(head: bytes) -> list[tuple[str, str]]:
    _check_framing(head)
    parser = h11.Connection(h11.SERVER, max_incomplete_event_size=len(head) + 1)
    try:
        parser.receive_data(head)
        event = parser.next_event()
    except h11.RemoteProtocolError as error:
        # The text of h11's error after the colon is omitted, because it quotes the client's bytes, which may
        # contain a token.
        raise RefusedError(error.error_status_hint, str(error).partition(":")[0]) from error
    if not isinstance(event, h11.Request):
        raise RefusedError(400, "the head of the request cannot be read")
    return [(name.decode("ascii").title(), value.decode("latin-1")) for name, value in event.headers]


def _check_framing(head: bytes) -> None:
    """Check Content-Length and Transfer-Encoding in the received bytes, because h11 merges equal fields."""
    lengths = [value for name, value in _FRAMING.findall(head) if name.lower() == b"content-length"]
    if len(lengths) > 1 or lengths and not _LENGTH.fullmatch(lengths[0].strip(b" \t")):
        raise RefusedError(400, "Content-Length is not one number")
    given = [value for name, value in _FRAMING.findall(head) if name.lower() == b"transfer-encoding"]
    codings = [each.strip(b" \t").lower() for each in b",".join(given).split(b",")] if given else []
    if any(coding != b"chunked" for coding in codings):
        # RFC 9112 section 6.1: a server answers 501 to a transfer coding that it does not support.
        raise RefusedError(501, "chunked is the only transfer coding that is read here")
    if len(codings) > 1:
        raise RefusedError(400, "the body is said to be chunked more than once")


def _combined(fields: Iterable[tuple[str, str]]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in fields:
        if name not in found:
            found[name] = value
        elif name in _ONCE:
            raise RefusedError(400, f"the header field {name} is given more than once")
        else:
            found[name] += ("; " if name == "Cookie" else ", ") + value
    return found


def _origin_form(method: str, target: str, host: str) -> str:
    """Return the path and query string of a request target (RFC 9112 section 3.2)."""
    if host and not HOST.fullmatch(host):
        raise RefusedError(400, "Host is not a name or an address with a port")
    if target.startswith("/") or method == "OPTIONS" and target == "*":
        return target
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise RefusedError(400, "the target of the request is no URL") from error
    if parts.netloc.lower() != host.lower():
        raise RefusedError(400, "the target of the request and Host name different servers")
    path = target[len(parts.scheme) + len("://") + len(parts.netloc) :]
    return path if path.startswith("/") else f"/{path}"


def _framing(fields: dict[str, str], minor: int) -> Fields:
    chunked = "Transfer-Encoding" in fields
    length = fields.get("Content-Length")
    if chunked and (length is not None or minor == 0):
        # RFC 9112 section 6.1: an HTTP/1.0 message with Transfer-Encoding has faulty framing.
        what = "Content-Length" if length is not None else "HTTP/1.0"
        raise RefusedError(400, f"Transfer-Encoding and {what} do not go together")
    options = [option.strip().lower() for option in fields.get("Connection", "").split(",")]
    return Fields(
        fields,
        int(length or 0),
        chunked=chunked,
        close="close" in options or minor == 0,
        expects=minor == 1 and fields.get("Expect", "").lower() == "100-continue",
        minor_version=minor,
        plain=False,
        forwarded=not FORWARDING.isdisjoint(fields),
    )
