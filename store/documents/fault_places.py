"""Line and column of a fault in RDF/XML and JSON-LD, which Oxigraph's parsers report without a position.

    document in blocks  -> the block in which the parser fails
    this block in pieces -> the tag or JSON token at which the parser fails

A parser reads the next piece only when it has processed the pieces before. The document is therefore parsed
again, twice, and the number of pieces that the parser has read gives the position of the fault.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import IO, Any, cast

from pyoxigraph import RdfFormat

MAX_BYTES = 64 << 20
"""Maximum size of a document that is parsed again to find the position of a fault."""
_BLOCK = 64 << 10
_TAG_END, _JSON_MARKS = re.compile(rb">"), re.compile(rb"[{}\[\],:]")
_QUOTED = re.compile(r"'([^']+)'")
_KEYWORD = re.compile(r"@[a-z]+", re.IGNORECASE)

Parse = Callable[[IO[bytes]], Iterable[Any]]
"""A function that parses a document from a file."""


class _Pieces:
    """A document as a file, which is read in blocks, or from byte ``fine_from`` on up to the next mark."""

    def __init__(self, body: bytes, mark: re.Pattern[bytes], fine_from: int) -> None:
        self.taken = self.before = 0
        self._body, self._mark, self._fine_from = body, mark, fine_from

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes of the document, at most ``size``; empty at its end."""
        start = self.before = self.taken
        end = start + (_BLOCK if size < 0 else min(size, _BLOCK))
        if start < self._fine_from:
            end = min(end, self._fine_from)
        else:
            found = self._mark.search(self._body, start, end)
            end = end if found is None else found.end()
        self.taken = min(end, len(self._body))
        return self._body[start : self.taken]


def place_of_fault(body: bytes, rdf_format: RdfFormat, parse: Parse) -> tuple[int, int] | None:
    """Return line and column, both from 1, of the first fault in a document; None if none is found.

    ``parse`` parses a file in the format RDF/XML or JSON-LD, and fails as the parser of the whole document
    did.
    """
    if len(body) > MAX_BYTES:
        return None
    mark = _TAG_END if rdf_format is RdfFormat.RDF_XML else _JSON_MARKS
    coarse = _failure(_Pieces(body, mark, len(body)), parse)
    fine = None if coarse is None else _failure(_Pieces(body, mark, coarse[0]), parse)
    if fine is None:
        return None
    _, end, message = fine
    at = (_in_xml if rdf_format is RdfFormat.RDF_XML else _in_json)(body, end, message)
    line_start = body.rfind(b"\n", 0, at) + 1
    column = len(body[line_start:at].decode("utf-8", "replace")) + 1
    return body.count(b"\n", 0, at) + 1, column


def _failure(pieces: _Pieces, parse: Parse) -> tuple[int, int, str] | None:
    """Return begin and end of the piece at which the parser fails, and its message; None without failure."""
    try:
        for _ in parse(cast(IO[bytes], pieces)):
            pass
    except SyntaxError as error:
        return pieces.before, pieces.taken, error.msg
    return None


def _in_xml(body: bytes, end: int, message: str) -> int:
    """Return the byte at which the tag that ends at ``end`` begins, or the text before it."""
    tag = body.rfind(b"<", 0, end)
    if "text event" not in message:
        return max(0, tag)
    text = body.rfind(b">", 0, tag) + 1
    return text + len(body[text:tag]) - len(body[text:tag].lstrip())


def _in_json(body: bytes, end: int, message: str) -> int:
    """Return the byte of the last token before ``end`` that a message names, else of the last token."""
    remote = ["@context"] if "LoadDocumentCallback" in message else []
    for name in (*remote, *_QUOTED.findall(message), *_KEYWORD.findall(message)):
        token = f'"{name}"'.encode()
        if "must be a string" in message:
            wrong = [
                found.start() for found in re.finditer(re.escape(token) + rb"\s*:\s*[^\s\"]", body[:end])
            ]
            if wrong:
                return wrong[-1]
        at = body.rfind(token, 0, end)
        if at >= 0:
            return at
    return max(0, len(body[:end].rstrip()) - 1)
