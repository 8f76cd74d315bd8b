"""Check that answers in XML contain only characters of XML (https://www.w3.org/TR/xml/#charsets)."""

from __future__ import annotations

import re
from xml.sax.saxutils import unescape

from quadrill.store.documents.serialising import NotExpressibleError

from .errors import HttpError

NAMES = frozenset({"xml", "rdf"})
"""Names of the formats that Oxigraph writes as XML; the module `codecs` checks TriX separately."""

_NAMELESS = b"<oxprefix: "
"""Start of the invalid XML tag that Oxigraph writes for a predicate whose IRI does not end in an XML name."""
OVERLAP = len(_NAMELESS) - 1
"""Number of last bytes of the previous block that the check of a block of XML needs."""
_NAMESPACE = re.compile(rb'xmlns:oxprefix="([^"]*)"')
_FORBIDDEN = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]|\xef\xbf[\xbe\xbf]")


def xml_text(block: bytes, before: bytes = b"") -> bytes:
    """Check a block of XML from Oxigraph and return it with each carriage return as a character reference.

    An XML reader would take a plain carriage return for a line feed. ``before`` is the last `OVERLAP` bytes
    of the previous block, because a block may end within a character or a tag.

    Raises:
        HttpError: 406 when the block has a character that XML cannot express, not even as a reference. A
            replacement for a character that XML cannot express would change the answer.
        NotExpressibleError: the IRI of a predicate does not end in an XML name.
    """
    joined = before + block
    if _NAMELESS in joined:
        start = joined.index(_NAMELESS)
        declared = _NAMESPACE.match(joined, start + len(_NAMELESS))
        iri = f"<{unescape(declared[1].decode())}> " if declared else ""
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
