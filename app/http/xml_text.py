"""Answers in XML hold only what XML can hold (https://www.w3.org/TR/xml/#charsets)."""

from __future__ import annotations

import re
from xml.sax.saxutils import unescape

from quadrill.store.documents.serialising import NotExpressibleError

from .errors import HttpError

NAMES = frozenset({"xml", "rdf"})
"""The formats that Oxigraph writes as XML, by the names of their offers; `codecs` sees to TriX itself."""

_NAMELESS = b"<oxprefix: "
"""How Oxigraph writes a predicate whose IRI does not end in an XML name; this is no XML."""
OVERLAP = len(_NAMELESS) - 1
"""Bytes of the block before that `xml_text` needs."""
_NAMESPACE = re.compile(rb'xmlns:oxprefix="([^"]*)"')
_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")


def xml_text(block: bytes, before: bytes = b"") -> bytes:
    """A block of an XML document, as a serialiser wrote it that does not know these rules.

    A carriage return is written as a reference: readers would take it for a line feed. ``before`` are the
    last `OVERLAP` bytes of the block before, as blocks may end within a character or a tag.

    Raises:
        HttpError: 406, it has a character that XML has no form for, not even a reference; an answer with
            another character in its place would be another answer. Or a predicate has no XML name.
    """
    joined = before + block
    if _NAMELESS in joined:
        start = joined.index(_NAMELESS)
        told = _NAMESPACE.match(joined, start + len(_NAMELESS))
        iri = f"<{unescape(told[1].decode())}> " if told else ""
        raise NotExpressibleError(f"RDF/XML cannot express the predicate {iri}whose end is no XML name")
    found = _FORBIDDEN.search(joined)
    if found is not None:
        raise HttpError(
            406,
            f"the answer has the character U+{ord(found[0].decode()):04X}, which XML cannot hold",
            code="not-acceptable",
            hint="Ask for JSON, CSV or TSV; for graphs Turtle, N-Triples or JSON-LD.",
        )
    return block.replace(b"\r", b"&#13;") if b"\r" in block else block
