"""RDF formats by media type and file name, and a parser of RDF documents with limits on nesting.

Oxigraph's own look-up of media types accepts aliases that are not wanted (``application/json`` for JSON-LD,
``text/plain`` for N-Triples), so this module has a separate table.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pyoxigraph import Quad, RdfFormat

from .documents.contents import explain_parser_message
from .documents.nesting import deep_line_of_json, deep_line_of_triple_terms, deep_line_of_turtle
from .documents.parsing import parse_quads
from .documents.rdf_xml import XmlLimits, check_rdf_xml
from .documents.stored_lines import term_too_long
from .errors import LimitError, RdfSyntaxError


@dataclass(frozen=True, slots=True)
class RdfType:
    """An RDF format with its media types and file name endings; ``quads`` is True if it has named graphs."""

    name: str
    format: RdfFormat
    media_types: tuple[str, ...]
    endings: tuple[str, ...]
    quads: bool

    @property
    def media_type(self) -> str:
        """The media type of responses in this RDF format: the first of ``media_types``."""
        return self.media_types[0]


RDF_TYPES = (
    RdfType("Turtle", RdfFormat.TURTLE, ("text/turtle", "application/x-turtle"), ("ttl", "turtle"), False),
    RdfType("N-Triples", RdfFormat.N_TRIPLES, ("application/n-triples",), ("nt",), False),
    RdfType("RDF/XML", RdfFormat.RDF_XML, ("application/rdf+xml",), ("rdf", "owl", "xml"), False),
    RdfType("TriG", RdfFormat.TRIG, ("application/trig", "application/x-trig"), ("trig",), True),
    RdfType("N-Quads", RdfFormat.N_QUADS, ("application/n-quads", "text/x-nquads"), ("nq",), True),
    RdfType("JSON-LD", RdfFormat.JSON_LD, ("application/ld+json",), ("jsonld",), True),
)


@dataclass(frozen=True, slots=True)
class RdfLimits:
    """Limits on one RDF document.

    Attributes:
        json_depth: maximum nesting depth of a JSON-LD document; the memory of the parser grows with the
            square of the depth.
        term_depth: maximum nesting depth of triple terms; about 20,000 levels overflow a thread's stack.
        bracket_depth: maximum nesting depth of brackets in Turtle and TriG; each open bracket takes half a
            kilobyte of memory.
        xml: the limits of an RDF/XML document.
    """

    json_depth: int = 200
    term_depth: int = 500
    bracket_depth: int = 10_000
    xml: XmlLimits = XmlLimits()


_BRACKETED = {"Turtle", "TriG", "N3"}


def rdf_format(media_type: str) -> RdfType | None:
    """Return the RDF format of a media type, ignoring case and parameters; None if no format matches."""
    plain = media_type.partition(";")[0].strip().lower()
    return next((kind for kind in RDF_TYPES if plain in kind.media_types), None)


def split_media_type(header: str) -> tuple[str, dict[str, str]]:
    """Return the media type of a Content-Type header in lower case, and its parameters."""
    name, *rest = header.split(";")
    parameters = {}
    for item in rest:
        key, _, value = item.partition("=")
        parameters[key.strip().lower()] = value.strip().strip('"')
    return name.strip().lower(), parameters


def guess_rdf_format(name: str) -> RdfType | None:
    """Return the RDF format for the ending of a file name or IRI path; None for an unknown ending."""
    path = name.partition("?")[0].partition("#")[0].lower().removesuffix(".gz")
    ending = path.rpartition("/")[2].rpartition(".")[2]
    return next((kind for kind in RDF_TYPES if ending in kind.endings), None)


def parse_rdf(
    body: bytes,
    kind: RdfType,
    *,
    base_iri: str | None = None,
    without_named_graphs: bool = False,
    rename_blank_nodes: bool = True,
    limits: RdfLimits | None = None,
) -> Iterator[Quad]:
    """Yield the quads of an RDF document in document order; blank nodes get new labels by default.

    The thread that starts the generator of quads must also finish it.

    Raises:
        RdfSyntaxError: the document is malformed; the error has line and column if the parser reports them.
        LimitError: the document is nested too deeply, or its entities expand too much, for ``limits``.
    """
    check_document(body, kind, limits or RdfLimits())
    try:
        quads = parse_quads(
            body,
            kind.format,
            base_iri=base_iri,
            without_named_graphs=without_named_graphs,
            rename_blank_nodes=rename_blank_nodes,
        )
        yield from quads
    except MemoryError:
        raise term_too_long(kind.name) from None
    except SyntaxError as error:
        raise rdf_error(error, kind) from error
    except ValueError as error:
        raise RdfSyntaxError(f"malformed {kind.name}: {error}") from error


def rdf_error(error: SyntaxError, kind: RdfType) -> RdfSyntaxError:
    """Convert a syntax error of Oxigraph's parser to RdfSyntaxError."""
    text = str(error.msg or error)
    message, hint = explain_parser_message(re.sub(r"^Parser error (?:at|between) line \d+ [^:]*: ", "", text))
    place = f" at line {error.lineno}, column {error.offset}" if error.lineno is not None else ""
    return RdfSyntaxError(
        f"malformed {kind.name}{place}: {message}", line=error.lineno, column=error.offset, hint=hint
    )


def check_document(body: bytes, kind: RdfType, limits: RdfLimits) -> None:
    """Raise an error for an RDF document that would exhaust the stack or memory of the parser.

    Raises:
        LimitError: the document is nested too deeply, or its entities expand too much.
        RdfSyntaxError: the document begins with a byte order mark of UTF-16.
    """
    if body[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise RdfSyntaxError(f"malformed {kind.name}: the text is UTF-16, RDF is read as UTF-8")
    match kind.name:
        case "JSON-LD":
            line = deep_line_of_json(body, limits.json_depth)
            _refuse_depth("the JSON-LD document nests", limits.json_depth, line)
        case "RDF/XML":
            check_rdf_xml(body, limits.xml)
        case _:
            if body.count(b"<<") > limits.term_depth:
                line = deep_line_of_triple_terms(body, limits.term_depth)
                _refuse_depth(f"triple terms of the {kind.name} text nest", limits.term_depth, line)
            brackets = (body.count(bracket) for bracket in (b"(", b"[", b"{"))
            if kind.name in _BRACKETED and sum(brackets) > limits.bracket_depth:
                line = deep_line_of_turtle(body, limits.bracket_depth)
                _refuse_depth(f"brackets of the {kind.name} text nest", limits.bracket_depth, line)


def _refuse_depth(what_nests: str, limit: int, line: int | None) -> None:
    """Raise LimitError if ``line``, the first line of a document that is nested too deeply, is not None."""
    if line is not None:
        raise LimitError(f"{what_nests} deeper than {limit} levels at line {line}", line=line)
