"""Answers in XML hold only what XML can hold (https://www.w3.org/TR/xml/#charsets)."""

from __future__ import annotations

import re

from .errors import HttpError

NAMES = frozenset({"xml", "rdf"})
"""The formats that Oxigraph writes as XML, by the names of their offers; `codecs` sees to TriX itself."""

_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")


def xml_text(block: bytes, before: bytes = b"") -> bytes:
    """A block of an XML document, as a serialiser wrote it that does not know these rules.

    A carriage return is written as a reference: readers would take it for a line feed. ``before`` are the
    last two bytes of the block before, as blocks may end within a character.

    Raises:
        HttpError: 406, it has a character that XML has no form for, not even a reference; an answer with
            another character in its place would be another answer.
    """
    found = _FORBIDDEN.search(before + block)
    if found is not None:
        raise HttpError(
            406,
            f"the answer has the character U+{ord(found[0].decode()):04X}, which XML cannot hold",
            code="not-acceptable",
            hint="Ask for JSON, CSV or TSV; for graphs Turtle, N-Triples or JSON-LD.",
        )
    return block.replace(b"\r", b"&#13;") if b"\r" in block else block
