"""Parsing by Oxigraph, with corrections or errors for documents that Oxigraph parses wrongly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO, Any

from pyoxigraph import Literal, Quad, RdfFormat, Triple, parse

from .fault_places import place_of_fault
from .xml_reader import prepare_rdf_xml

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
        SyntaxError, ValueError: the document is malformed; a SyntaxError has line and column.
    """
    body = without_mark(body)
    if rdf_format in (RdfFormat.RDF_XML, RdfFormat.JSON_LD):
        return _placed(body, rdf_format, options)
    return parse(body, rdf_format, **options)


def _placed(body: bytes, rdf_format: RdfFormat, options: dict[str, Any]) -> Iterator[Quad]:
    """Parse RDF/XML or JSON-LD, and give a fault without a position its line and column."""
    checks = any(sign in body for sign in _MAY_NAME_TAGGED_TYPE[rdf_format])

    def read(source: bytes | IO[bytes]) -> Iterator[Quad]:
        quads = parse(source, rdf_format, **options)
        return map(_checked, quads) if checks else quads

    text, corrected = prepare_rdf_xml(body) if rdf_format is RdfFormat.RDF_XML else (body, iter)
    try:
        yield from corrected(read(text))
    except SyntaxError as error:
        place = place_of_fault(text, rdf_format, read) if error.lineno is None else None
        if place is None:
            raise
        raise SyntaxError(error.msg, (None, *place, None, *place)) from None


def _checked(quad: Quad) -> Quad:
    if is_untagged(quad.object):
        raise SyntaxError(f"the literal {quad.object} has no language tag, which its datatype requires")
    return quad
