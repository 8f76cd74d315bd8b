"""Parsing by Oxigraph, with corrections or errors for documents that Oxigraph parses wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyoxigraph import Literal, Quad, RdfFormat, Triple, parse

from .xml_reader import read_rdf_xml

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
TAGGED_TYPES = frozenset({f"{_RDF}langString", f"{_RDF}dirLangString"})
"""The datatypes that only literals with a language tag have (RDF 1.2 Concepts section 3.4)."""
_MAY_NAME_TAGGED_TYPE = {
    RdfFormat.JSON_LD: (b"angString", b"\\u"),
    RdfFormat.RDF_XML: (b"angString", b"&#", b"<!ENTITY"),
}


def without_mark(body: bytes) -> bytes:
    """Return the document without a leading byte order mark, which some editors write."""
    return body.removeprefix(_BYTE_ORDER_MARK)


def is_untagged(term: object) -> bool:
    """Return True if a literal, or one in a triple term, lacks the language tag that its datatype needs."""
    if isinstance(term, Literal):
        return term.language is None and term.datatype.value in TAGGED_TYPES
    return isinstance(term, Triple) and (is_untagged(term.object) or is_untagged(term.subject))


def parse_quads(body: bytes, rdf_format: RdfFormat, **options: Any) -> Iterator[Quad]:
    """Parse an RDF document; ``options`` are those of `pyoxigraph.parse`.

    Raises:
        SyntaxError, ValueError: the document is malformed.
    """
    body = without_mark(body)
    if rdf_format is RdfFormat.RDF_XML:
        quads = read_rdf_xml(body, **options)
    else:
        quads = parse(body, rdf_format, **options)
    if any(sign in body for sign in _MAY_NAME_TAGGED_TYPE.get(rdf_format, ())):
        return map(_checked, quads)
    return quads


def _checked(quad: Quad) -> Quad:
    if is_untagged(quad.object):
        raise SyntaxError(f"the literal {quad.object} has no language tag, which its datatype requires")
    return quad
