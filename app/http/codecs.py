"""Readers and writers of TriX and HexTuples, two RDF formats that Oxigraph does not support.

The formats are specified in https://www.hpl.hp.com/techreports/2004/HPL-2004-56.html (TriX) and
https://github.com/ontola/hextuples. Each TriX or HexTuples document is converted from or to N-Quads in memory
as a whole, so its size is limited.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BytesIO
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape, quoteattr

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, serialize

from quadrill.store.documents.parsing import without_mark
from quadrill.store.documents.serialising import NotExpressibleError
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.errors import LimitError, RdfSyntaxError

from .negotiation import MOST_CONVERTED, Offer, register
from .xml_text import xml_text

NAMES = {"trix": "TriX", "hext": "HexTuples"}
READABLE = {"application/trix": "trix", "application/hex+x-ndjson": "hext"}
_TRIX = "http://www.w3.org/2004/03/trix/trix-1/"
_XML = "http://www.w3.org/XML/1998/namespace"
_STRING = "http://www.w3.org/2001/XMLSchema#string"
_PIECE = 1 << 16
_PARENTS = {
    "TriX": (None,),
    "graph": ("TriX",),
    "triple": ("graph",),
    "uri": ("graph", "triple"),
    "id": ("graph", "triple"),
    "plainLiteral": ("triple",),
    "typedLiteral": ("triple",),
}
"""The XML elements of TriX, each with the elements that may contain it."""


def read(body: bytes, codec: str) -> bytes:
    """Convert a TriX or HexTuples document to N-Quads.

    Raises:
        RdfSyntaxError: the TriX or HexTuples document is malformed or not UTF-8.
        LimitError: the document is too large, or has an XML document type declaration, whose entities may
            expand.
    """
    if len(body) > MOST_CONVERTED:
        raise LimitError(
            f"{NAMES[codec]} is read up to {MOST_CONVERTED >> 20} MiB",
            hint="Use N-Quads, which is streamed.",
        )
    try:
        body = without_mark(body)
        found = _trix_quads(body) if codec == "trix" else _hext_quads(body)
        written = serialize(found, format=RdfFormat.N_QUADS)
    except (expat.ExpatError, ValueError, TypeError, RecursionError) as error:
        raise RdfSyntaxError(f"malformed {NAMES[codec]}: {error}") from error
    assert written is not None  # pyoxigraph's `serialize` returns the bytes if no output is given
    return written


def write(quads: bytes, codec: str) -> bytes:
    """Convert N-Quads to TriX or HexTuples.

    Raises:
        NotExpressibleError: a quad has a triple term or a base direction, which neither format can express.
        HttpError: a TriX document would contain a character that XML does not allow.
    """
    if codec == "trix":
        return xml_text("".join(_trix_text(parse_stored_quads(quads))).encode())
    return "".join(map(_hext_line, parse_stored_quads(quads))).encode()


# --- TriX ---------------------------------------------------------------------------------------


class _TrixReader:
    """Handlers of expat events that append the quads of a TriX document to ``found``."""

    def __init__(self) -> None:
        self.found: list[Quad] = []
        self._open: list[str] = []
        self._graph: Any = DefaultGraph()
        self._terms: list[Any] = []
        self._text: list[str] = []
        self._literal: Callable[[str], Literal] = Literal

    def start(self, name: str, attributes: dict[str, str]) -> None:
        """Handle the start tag of an element of a TriX document."""
        namespace, _, local = name.rpartition(" ")
        parent = self._open[-1] if self._open else None
        if namespace not in (_TRIX, "") or parent not in _PARENTS.get(local, ()):
            raise ValueError(f"<{local}> has no place in {f'<{parent}>' if parent else 'the document'}")
        self._open.append(local)
        self._text.clear()
        if local == "graph":
            self._graph = DefaultGraph()
        elif local == "plainLiteral":
            language = attributes.get(f"{_XML} lang")
            self._literal = partial(Literal, language=language) if language else Literal
        elif local == "typedLiteral":
            self._literal = partial(Literal, datatype=NamedNode(attributes.get("datatype", "")))

    def text(self, piece: str) -> None:
        """Handle a piece of character data of a TriX document."""
        if self._open[-1:] and self._open[-1] in ("uri", "id", "plainLiteral", "typedLiteral"):
            self._text.append(piece)
        elif piece.strip():
            raise ValueError(f"{piece.strip()[:40]!r} stands outside a term")

    def end(self, _name: str) -> None:
        """Handle the end tag of an element of a TriX document."""
        local = self._open.pop()
        if local == "triple":
            if len(self._terms) != 3:
                raise ValueError(f"a triple has {len(self._terms)} terms")
            subject, predicate, value = self._terms
            self.found.append(Quad(subject, predicate, value, self._graph))
            self._terms.clear()
        elif local not in ("graph", "TriX"):
            text = "".join(self._text)
            self._text.clear()
            term: Any = self._literal(text) if "Literal" in local else _node(local, text.strip())
            if self._open[-1] == "graph":
                self._graph = term
            else:
                self._terms.append(term)


def _node(local: str, text: str) -> NamedNode | BlankNode:
    return NamedNode(text) if local == "uri" else BlankNode(text.removeprefix("_:"))


def _trix_quads(body: bytes) -> Iterator[Quad]:
    if b"\0" in body:
        line = body.count(b"\n", 0, body.index(b"\0")) + 1
        raise ValueError(f"a zero byte in line {line}, which XML in UTF-8 cannot hold")
    reader = _TrixReader()
    parser = expat.ParserCreate("utf-8", " ")
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler = reader.start, reader.end
    parser.CharacterDataHandler, parser.StartDoctypeDeclHandler = reader.text, _no_doctype
    for at in range(0, len(body) or 1, _PIECE):
        parser.Parse(body[at : at + _PIECE], at + _PIECE >= len(body))
        yield from reader.found
        reader.found.clear()


def _no_doctype(*_: object) -> None:
    raise LimitError("a TriX document must have no document type declaration")


def _trix_text(quads: Iterable[Quad]) -> Iterator[str]:
    yield f'<?xml version="1.0" encoding="utf-8"?>\n<TriX xmlns="{_TRIX}">\n'
    graphs: dict[Any, list[Quad]] = {}
    for quad in quads:
        graphs.setdefault(quad.graph_name, []).append(quad)
    for graph, listed in graphs.items():
        yield "<graph>\n" if isinstance(graph, DefaultGraph) else f"<graph>\n{_trix_term(graph)}\n"
        for quad in listed:
            terms = (quad.subject, quad.predicate, quad.object)
            yield f"<triple>{''.join(map(_trix_term, terms))}</triple>\n"
        yield "</graph>\n"
    yield "</TriX>\n"


def _trix_term(term: object) -> str:
    if isinstance(term, NamedNode):
        return f"<uri>{escape(term.value)}</uri>"
    if isinstance(term, BlankNode):
        return f"<id>{term.value}</id>"
    literal = _literal(term, "TriX")
    if literal.language:
        return f"<plainLiteral xml:lang={quoteattr(literal.language)}>{escape(literal.value)}</plainLiteral>"
    if literal.datatype.value == _STRING:
        return f"<plainLiteral>{escape(literal.value)}</plainLiteral>"
    datatype = quoteattr(literal.datatype.value)
    return f"<typedLiteral datatype={datatype}>{escape(literal.value)}</typedLiteral>"


def _literal(term: object, name: str) -> Literal:
    if isinstance(term, Triple) or (isinstance(term, Literal) and term.direction is not None):
        raise NotExpressibleError(f"{name} has no form for triple terms and base directions of RDF 1.2")
    assert isinstance(term, Literal)
    return term


# --- HexTuples ----------------------------------------------------------------------------------


def _hext_quads(body: bytes) -> Iterator[Quad]:
    for number, line in enumerate(BytesIO(body), 1):
        if not line.strip():
            continue
        try:
            yield _hext_quad(json.loads(line.decode("utf-8")))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"line {number}: {error}") from error


def _hext_quad(members: Any) -> Quad:
    if not isinstance(members, list) or len(members) != 6:
        raise ValueError("a line is an array of six strings")
    subject, predicate, value, datatype, language, graph = ["" if each is None else each for each in members]
    if datatype == "globalId":
        term: NamedNode | BlankNode | Literal = NamedNode(value)
    elif datatype == "localId":
        term = BlankNode(value.removeprefix("_:"))
    elif language:
        term = Literal(value, language=language)
    else:
        term = Literal(value, datatype=NamedNode(datatype or _STRING))
    return Quad(
        _hext_node(subject), NamedNode(predicate), term, _hext_node(graph) if graph else DefaultGraph()
    )


def _hext_node(text: str) -> NamedNode | BlankNode:
    return BlankNode(text[2:]) if text.startswith("_:") else NamedNode(text)


def _hext_line(quad: Quad) -> str:
    term, language = quad.object, ""
    if isinstance(term, NamedNode):
        value, datatype = term.value, "globalId"
    elif isinstance(term, BlankNode):
        value, datatype = str(term), "localId"
    else:
        literal = _literal(term, "HexTuples")
        value, datatype, language = literal.value, literal.datatype.value, literal.language or ""
    graph = quad.graph_name
    name = "" if isinstance(graph, DefaultGraph) else _hext_name(graph)
    members = [_hext_name(quad.subject), quad.predicate.value, value, datatype, language, name]
    return json.dumps(members, ensure_ascii=False) + "\n"


def _hext_name(term: object) -> str:
    return term.value if isinstance(term, NamedNode) else str(term)


for _media_type, _codec in READABLE.items():
    register(Offer(_codec, _media_type, rdf=RdfFormat.N_QUADS, convert=partial(write, codec=_codec)))
