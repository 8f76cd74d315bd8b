"""Parsing of RDF/XML by Oxigraph, with corrections before and after its parser.

Oxigraph accepts a truncated document as complete, skips properties with an unknown ``rdf:parseType``,
refuses ``xml:lang=""`` and declares namespaces twice in XML literals. A namespace-aware pass of the XML
parser expat checks that the document is well-formed and finds the attributes to rewrite.

Sources: RDF 1.1 XML Syntax sections 6.1.2 and 7.2.20 (https://www.w3.org/TR/rdf-syntax-grammar/), XML 1.0
section 2.12, Namespaces in XML 1.0.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from pyoxigraph import Literal, NamedNode, Quad

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XML_LITERAL = f"{_RDF}XMLLiteral"
_PARSE_TYPE = f"{_RDF} parseType"
_LANG = "http://www.w3.org/XML/1998/namespace lang"
_KNOWN_TYPES = frozenset({"Resource", "Literal", "Collection", "Triple"})
_MAY_NEED_REWRITING = re.compile(rb"parseType|xml:lang\s*=\s*(?:\"\"|'')|<!ENTITY")
_TAG = re.compile(rb"<[^\s/>]+(?>\s+[^\s=/>]+\s*=\s*(?:\"[^\"]*\"|'[^']*'))*+\s*/?>")
_ATTRIBUTE = re.compile(rb"([^\s=/>]+)\s*=\s*(\"[^\"]*\"|'[^']*')")
_START_TAG = re.compile(r"<[^\s<>/!?][^<>\"']*+(?>(?:\"[^\"]*+\"|'[^']*+')[^<>\"']*+)++>")
_ENCODING = re.compile(rb"\s*<\?xml\s[^>]*?encoding\s*=\s*[\"']([^\"']*)")
_DECLARATION = re.compile(r"\s(xmlns(?::[^\s=]+)?)=(?:\"[^\"]*+\"|'[^']*+')")


@dataclass(slots=True)
class _AttributeRewriter:
    """Handlers of the XML parser expat that find the attributes to rewrite in one document.

    Attributes:
        no_language: a language tag that the document does not use; it replaces ``xml:lang=""``.
        edits: byte ranges of the document with their replacements, in document order.
        has_literals: whether a property has ``rdf:parseType="Literal"`` or an unknown parse type.
    """

    body: bytes
    parser: Any
    no_language: str
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    has_literals: bool = False
    _inside_literal: int = 0

    def start(self, _name: str, attributes: dict[str, str]) -> None:
        if self._inside_literal:
            self._inside_literal += 1
            return
        kind = attributes.get(_PARSE_TYPE)
        if attributes.get(_LANG) == "":
            self._replace(b"xml:lang", self.no_language)
        if kind is not None and kind not in _KNOWN_TYPES:
            self._replace(b"parseType", "Literal")
        if kind is not None and (kind == "Literal" or kind not in _KNOWN_TYPES):
            self._inside_literal = 1
            self.has_literals = True

    def end(self, _name: str) -> None:
        self._inside_literal = max(0, self._inside_literal - 1)

    def rewritten(self) -> bytes:
        """Return the RDF/XML document with all edits applied."""
        pieces, done = list[bytes](), 0
        for start, end, value in self.edits:
            pieces += (self.body[done:start], value)
            done = end
        return b"".join([*pieces, self.body[done:]])

    def _replace(self, name: bytes, value: str) -> None:
        """Replace the value of an attribute of the current XML tag; ``name`` is its local name."""
        tag = _TAG.match(self.body, self.parser.CurrentByteIndex)
        for attribute in _ATTRIBUTE.finditer(tag[0] if tag else b""):
            if attribute[1] == name or attribute[1].endswith(b":" + name):
                start = tag.start() if tag else 0
                self.edits.append(
                    (start + attribute.start(2), start + attribute.end(2), f'"{value}"'.encode())
                )
                return
        message = f"{name.decode()} stands in an element that an entity gives: write the element itself"
        raise _error(message, self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber)


def prepare_rdf_xml(body: bytes) -> tuple[bytes, Callable[[Iterator[Quad]], Iterator[Quad]]]:
    """Return an RDF/XML document with rewritten attributes, and the correction of the quads parsed from it.

    Raises:
        SyntaxError: the document is not well-formed, or violates Namespaces in XML.
    """
    declared = _ENCODING.match(body)
    if declared is not None and declared[1].lower() not in (b"utf-8", b"utf8", b"us-ascii"):
        name = declared[1].decode("ascii", "replace")
        raise _error(f"the encoding is {name}, RDF/XML is read as UTF-8", 1, 0)
    parser = expat.ParserCreate("utf-8", " ")
    rewriter = _AttributeRewriter(body, parser, f"x-{secrets.token_hex(4)}")
    if _MAY_NEED_REWRITING.search(body):
        parser.StartElementHandler, parser.EndElementHandler = rewriter.start, rewriter.end
    try:
        parser.Parse(body, True)
    except expat.ExpatError as error:
        raise _error(expat.ErrorString(error.code), error.lineno, error.offset) from None
    if not rewriter.edits and not rewriter.has_literals:
        return body, lambda quads: quads
    return rewriter.rewritten(), lambda quads: (_corrected(quad, rewriter.no_language) for quad in quads)


def _error(message: str, line: int, column: int) -> SyntaxError:
    """Return a syntax error in the form of Oxigraph's parsers; ``column`` counts from 0, as in expat."""
    return SyntaxError(message, (None, line, column + 1, None, line, column + 1))


def _corrected(quad: Quad, no_language: str) -> Quad:
    """Return the quad with its literal as it was in the RDF/XML document before attributes were rewritten."""
    value = quad.object
    if not isinstance(value, Literal):
        return quad
    if value.language == no_language:
        return Quad(quad.subject, quad.predicate, Literal(value.value), quad.graph_name)
    if value.datatype.value == _XML_LITERAL and "xmlns" in value.value:
        text = _START_TAG.sub(_declared_once, value.value)
        if text != value.value:
            literal = Literal(text, datatype=NamedNode(_XML_LITERAL))
            return Quad(quad.subject, quad.predicate, literal, quad.graph_name)
    return quad


def _declared_once(tag: re.Match[str]) -> str:
    """Return an XML tag without the duplicate namespace declarations of Oxigraph's XML literals."""
    names: set[str] = set()

    def first_declaration(declaration: re.Match[str]) -> str:
        if declaration[1] in names:
            return ""
        names.add(declaration[1])
        return declaration[0]

    return _DECLARATION.sub(first_declaration, tag[0])
