"""Step 2 of 8: the bytes of a push become elements, in the store's own term forms, with the times they carry.

How elements are found (docs/http-api.md, Streams):

    RDF Messages             one element per message
    application/x-ndjson     one element per line, {"at", "data": N-Quads} or {"at", "jsonld": {...}}
    TriG, N-Quads, JSON-LD   one element per named graph; default-graph triples whose subject is the name of
                             such a graph belong to it, the other ones are one element of their own
    Turtle, N-Triples        the whole body
    each=triple              one element per triple

Elements keep document order. Where the time is found: the line's ``at``, else the request's, else the
stream's timestamp property in the element, also on the graph name; None when there is none: arrival decides.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple, cast

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, Triple, parse

from quadrill.store.errors import LimitError, QuadrillError, RdfSyntaxError
from quadrill.store.formats import advice
from quadrill.store.terms import in_store_form

from ..errors import InputError, MediaTypeError
from .messages import MessageText, split_messages
from .times import INSTANT_HINT, instant_ms, parse_instant

PROV_GENERATED_AT_TIME = "http://www.w3.org/ns/prov#generatedAtTime"

_FORMATS = {
    "application/n-triples": RdfFormat.N_TRIPLES,
    "text/plain": RdfFormat.N_TRIPLES,
    "application/n-quads": RdfFormat.N_QUADS,
    "text/x-nquads": RdfFormat.N_QUADS,
    "text/turtle": RdfFormat.TURTLE,
    "application/turtle": RdfFormat.TURTLE,
    "application/x-turtle": RdfFormat.TURTLE,
    "application/trig": RdfFormat.TRIG,
    "application/x-trig": RdfFormat.TRIG,
    "application/ld+json": RdfFormat.JSON_LD,
}
_NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines")
_FLAT = (RdfFormat.N_TRIPLES, RdfFormat.TURTLE)
"""Formats without graphs."""
_MEMBERS = {"at", "data", "jsonld"}
_MESSAGES = re.compile(r"1\.[12](?:-basic)?-messages\Z")
_VERSION = re.compile(
    r"""\A(?:\s|\#[^\n]*\n)*(?:@version|VERSION)\s*["'](1\.[12](?:-basic)?-messages)["']""", re.IGNORECASE
)
_NESTING = re.compile(
    r"""\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|<(?!<)[^<>\s]*>|<<|>>|[\[{]|[\]}]""",
    re.DOTALL,
)
# Most values of a stream are in the store's form already; asking it costs twenty times such a match.
_CANONICAL: dict[str, Callable[[str], object]] = {
    "http://www.w3.org/2001/XMLSchema#string": str,
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#langString": str,
    "http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString": str,
    "http://www.w3.org/2001/XMLSchema#integer": re.compile(r"(?:0|-?[1-9][0-9]{0,17})\Z").match,
    "http://www.w3.org/2001/XMLSchema#decimal": re.compile(
        r"(?:0|(?!-0\Z)-?(?:0|[1-9][0-9]{0,8})(?:\.[0-9]{0,8}[1-9])?)\Z"
    ).match,
    "http://www.w3.org/2001/XMLSchema#dateTime": re.compile(
        r"[1-9][0-9]{3}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12][0-9]|3[01])"
        r"T(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{0,5}[1-9])?Z\Z"
    ).match,
}
_DECIMAL = NamedNode("http://www.w3.org/2001/XMLSchema#decimal")
# Prices and coordinates end with zeros again and again: these need not be asked for either.
_PLAIN_DECIMAL = re.compile(r"(-?)0*([0-9]{1,9})(?:\.([0-9]{1,9}))?\Z").match
_PROBE = NamedNode("urn:quadrill:probe")

GraphName = NamedNode | BlankNode | DefaultGraph


class DecodeOptions(NamedTuple):
    """How to read a push.

    ``at`` is the request's time in milliseconds, ``timestamp_property`` an IRI. ``max_nesting`` bounds triple
    terms and JSON, since parsers recurse on them.
    """

    base_iri: str = "http://localhost/"
    at: int | None = None
    each_triple: bool = False
    timestamp_property: str = PROV_GENERATED_AT_TIME
    partial: bool = False
    max_nesting: int = 100


class DecodedElement(NamedTuple):
    """One element: literals in the store's form, blank nodes still those of the document, if it has any."""

    quads: tuple[Quad, ...]
    at: int | None
    place: str
    line: int | None
    blank: bool


class BadElement(NamedTuple):
    """An element of a partial push that could not be accepted, for the answer's list."""

    place: str
    error: str
    line: int | None = None
    column: int | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON members of the list of bad elements."""
        position = {"line": self.line, "column": self.column}
        known = {name: value for name, value in position.items() if value is not None}
        return {"element": self.place, "error": self.error, **known}


@dataclass(slots=True)
class Decoded:
    """The good elements in document order and, for a partial push, the bad ones."""

    elements: list[DecodedElement] = field(default_factory=list)
    bad: list[BadElement] = field(default_factory=list)


def decode(body: bytes, media_type: str, options: DecodeOptions) -> Decoded:
    """Read the elements of a push.

    Raises:
        MediaTypeError: a media type that is none of the above.
        RdfSyntaxError: malformed RDF or JSON, with line and column; not for the elements of a partial push
            that can be told apart (lines, messages).
        InputError: a time that is no instant, several times in one element.
        LimitError: nesting over ``max_nesting``.
    """
    name, rdf_format = media_type, _FORMATS.get(media_type)
    parameters: dict[str, str] = {}
    if rdf_format is None:
        name, parameters = _media_type(media_type)
        rdf_format = _FORMATS.get(name)
    text = _text(body, parameters.get("charset", "utf-8").lower())
    at = options.at
    # The parts of a body of which a bad one leaves the others good: place, line, elements.
    parts: Iterable[tuple[str, int | None, Iterator[DecodedElement]]]
    if rdf_format is None:
        if name not in _NDJSON:
            known = ", ".join(sorted({*_FORMATS, _NDJSON[0]}))
            given = name or "(none)"
            raise MediaTypeError(f"media type {given} is not one of a push", hint=f"Send one of {known}")
        parts = (
            (f"line {number}", number, _of_line(number, line, options))
            for number, line in enumerate(text.split("\n"), start=1)
            if line.strip()
        )
    elif rdf_format is not RdfFormat.JSON_LD and (
        (not text.startswith("<") and _VERSION.match(text) is not None)
        or _MESSAGES.match(parameters.get("version", "")) is not None
    ):
        parts = (
            (f"message {number}", message.line, _of_message(number, message, rdf_format, options))
            for number, message in enumerate(split_messages(text), start=1)
        )
    else:
        quads = _parse(text, rdf_format, options)
        if not quads:
            return Decoded()
        if options.each_triple:
            return Decoded(list(_elements(quads, "the body", None, at, options)))
        if rdf_format in _FLAT or all(type(quad.graph_name) is DefaultGraph for quad in quads):
            return Decoded([_element(quads, "the body", None, at, options)])
        parts = _by_graph(quads, options)
    result = Decoded()
    for place, line, elements in parts:
        try:
            for element in elements:
                result.elements.append(element)
        except QuadrillError as error:
            if not options.partial:
                raise
            where, column = (error.line, error.column) if isinstance(error, RdfSyntaxError) else (None, None)
            result.bad.append(BadElement(place, error.message, where or line, column))
    return result


def _media_type(header: str) -> tuple[str, dict[str, str]]:
    name, *rest = header.split(";")
    parameters = {}
    for item in rest:
        key, _, value = item.partition("=")
        parameters[key.strip().lower()] = value.strip().strip('"')
    return name.strip().lower(), parameters


def _text(body: bytes, charset: str) -> str:
    if charset not in ("utf-8", "utf8", "us-ascii"):
        raise MediaTypeError(f"charset {charset} is not UTF-8", hint="Send the body in UTF-8")
    try:
        return body.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        column = error.start - (body.rfind(b"\n", 0, error.start) + 1) + 1
        raise RdfSyntaxError(
            f"the body is not UTF-8 at line {line}, byte {column}", line=line, column=column
        ) from None


# --- the parts of a body ------------------------------------------------------------------------


def _of_message(
    number: int, message: MessageText, rdf_format: RdfFormat, options: DecodeOptions
) -> Iterator[DecodedElement]:
    """The element of one of the RDF Messages, which may be empty."""
    quads = _parse(message.text, rdf_format, options, first_line=message.line, lead=message.lead)
    yield from _elements(quads, f"message {number}", message.line, options.at, options)


def _of_line(number: int, line: str, options: DecodeOptions) -> Iterator[DecodedElement]:
    """The element of a JSON object on a line."""
    place = f"line {number}"
    _guard_nesting(line, options.max_nesting)
    try:
        document = json.loads(line)
    except ValueError as error:
        column = getattr(error, "colno", None)
        message = getattr(error, "msg", str(error))
        raise RdfSyntaxError(f"{place} is not JSON: {message}", line=number, column=column) from None
    if not isinstance(document, dict):
        raise InputError(f"{place} is not a JSON object", hint='Write {"at": ..., "data": "<N-Quads>"}')
    unknown = [] if document.keys() <= _MEMBERS else sorted(document.keys() - _MEMBERS)
    if unknown or ("data" in document) == ("jsonld" in document):
        found = f"has the unknown member {unknown[0]!r}" if unknown else "needs one of data and jsonld"
        raise InputError(f"{place} {found}", hint='Write {"at": ..., "data": "<N-Quads>"}')
    at = options.at if document.get("at") is None else instant_ms(document["at"], f"at of {place}")
    if "jsonld" in document:
        quads = _parse(json.dumps(document["jsonld"]), RdfFormat.JSON_LD, options, within=number)
    elif isinstance(document["data"], str):
        quads = _parse(document["data"], RdfFormat.N_QUADS, options, within=number)
    else:
        raise InputError(f"data of {place} is not a string of N-Quads")
    yield from _elements(quads, place, number, at, options)


def _by_graph(
    quads: Sequence[Quad], options: DecodeOptions
) -> Iterator[tuple[str, int | None, Iterator[DecodedElement]]]:
    """One element per named graph, the rest of the default graph one more."""
    names = {quad.graph_name for quad in quads}
    groups: dict[GraphName, list[Quad]] = {}
    for quad in quads:
        name = quad.graph_name
        if type(name) is DefaultGraph and quad.subject in names:
            assert isinstance(quad.subject, NamedNode | BlankNode)
            name = quad.subject
        groups.setdefault(name, []).append(quad)
    for name, group in groups.items():
        place = "the default graph" if type(name) is DefaultGraph else f"graph {name}"
        yield place, None, _elements(group, place, None, options.at, options, name)


# --- elements -----------------------------------------------------------------------------------


def _elements(
    quads: Sequence[Quad],
    place: str,
    line: int | None,
    at: int | None,
    options: DecodeOptions,
    name: GraphName | None = None,
) -> Iterator[DecodedElement]:
    """One element, or one per triple."""
    if not options.each_triple:
        yield _element(quads, place, line, at, options, name)
        return
    for number, quad in enumerate(quads, start=1):
        yield _element((quad,), f"triple {number} of {place}", line, at, options)


def _element(
    quads: Sequence[Quad],
    place: str,
    line: int | None,
    at: int | None,
    options: DecodeOptions,
    name: GraphName | None = None,
) -> DecodedElement:
    """An element of a graph of this name: a dataset, so each quad once."""
    if at is None:
        at = _own_time(quads, place, name, options.timestamp_property)
    blank = False
    found: dict[Quad, None] = {}
    for quad in quads:
        subject, predicate, value, graph = quad
        kind = type(value)
        if kind is Literal or kind is Triple:
            form = store_form(value)
            if form is not value:
                quad = Quad(subject, predicate, form, graph)
        if (
            type(subject) is not NamedNode
            or (kind is not Literal and kind is not NamedNode)
            or type(graph) is BlankNode
        ):
            blank = True
        found[quad] = None
    return DecodedElement(tuple(found), at, place, line, blank)


def _own_time(quads: Sequence[Quad], place: str, name: GraphName | None, by: str) -> int | None:
    """The element's time by the stream's timestamp property; one on the graph name goes first."""
    stamp = NamedNode(by)
    found: set[int] = set()
    on_name: set[int] = set()
    names = {quad.graph_name for quad in quads} if name is None else {name}
    for quad in quads:
        if quad.predicate != stamp:
            continue
        value = parse_instant(quad.object.value.strip()) if isinstance(quad.object, Literal) else None
        if value is None:
            raise InputError(
                f"{place}: {quad.object} by {stamp} is no instant in the years 1 to 9999",
                hint=INSTANT_HINT,
            )
        (on_name if quad.subject in names else found).add(value)
    times = on_name or found
    if len(times) > 1:
        raise InputError(
            f"{place} has {len(times)} different times by {stamp}; an element has one",
            hint="Send one named graph or one line per event, or give the time with at",
        )
    return next(iter(times), None)


# --- parsing ------------------------------------------------------------------------------------


def _parse(
    text: str,
    rdf_format: RdfFormat,
    options: DecodeOptions,
    *,
    first_line: int = 1,
    lead: int = 0,
    within: int | None = None,
) -> list[Quad]:
    """The quads of a text; errors speak of the document that it is part of.

    It begins in ``first_line``, with ``lead`` characters put before it, or is a string in line ``within``.
    """
    if "<<" in text or rdf_format == RdfFormat.JSON_LD:
        _guard_nesting(text, options.max_nesting)
    lines = rdf_format is RdfFormat.N_TRIPLES or rdf_format is RdfFormat.N_QUADS
    base = None if lines else options.base_iri
    try:
        return list(parse(input=text, format=rdf_format, base_iri=base))
    except SyntaxError as error:
        line, column = error.lineno, error.offset
        message, hint = advice(re.sub(r"^Parser error at line [^:]*: ", "", error.msg or str(error)))
        if line is None:
            raise RdfSyntaxError(f"{rdf_format.name}: {message}", line=within, hint=hint) from None
        if within is not None:
            where = f"line {within}, in its data at line {line}, column {column}"
            raise RdfSyntaxError(f"{where}: {message}", line=within, hint=hint) from None
        if line == 1 and column is not None:
            column = max(1, column - lead)
        line += first_line - 1
        where = f"line {line}, column {column}"
        raise RdfSyntaxError(f"{where}: {message}", line=line, column=column, hint=hint) from None
    except ValueError as error:
        raise RdfSyntaxError(f"{rdf_format.name}: {error}", line=within) from None


def _guard_nesting(text: str, limit: int) -> None:
    """Refuse texts so deeply nested that a recursive parser would exhaust the stack."""
    if text.count("<<") + text.count("{") + text.count("[") <= limit:
        return
    depth = 0
    for match in _NESTING.finditer(text):
        token = match[0]
        if token in ("<<", "[", "{"):
            depth += 1
            if depth > limit:
                line = text.count("\n", 0, match.start()) + 1
                raise LimitError(
                    f"nesting at line {line} is deeper than {limit}",
                    code="nesting-too-deep",
                    limit=limit,
                    line=line,
                )
        elif token in (">>", "]", "}"):
            depth -= 1


# --- terms --------------------------------------------------------------------------------------


def store_form(term: Literal | Triple) -> Literal | Triple:
    """A term as the store gives it back: elements must join static data, and there ``010`` is ``10``."""
    if type(term) is Literal:
        canonical = _CANONICAL.get(term.datatype.value)
        if canonical is not None and canonical(term.value) is not None:
            return term
    return _asked(term)


@lru_cache(100_000)
def _asked(term: Literal | Triple) -> Literal | Triple:
    """The store's form of a term that is hardly in it already."""
    form = _decimal(term.value) if isinstance(term, Literal) and term.datatype == _DECIMAL else None
    return cast(Literal | Triple, form or in_store_form([Quad(_PROBE, _PROBE, term)])[0].object)


def _decimal(text: str) -> Literal | None:
    """The store's form of a decimal of a few digits: no zeros in front or behind, no negative zero."""
    match = _PLAIN_DECIMAL(text)
    if match is None:
        return None
    sign, whole, fraction = match.groups("")
    fraction = fraction.rstrip("0")
    number = f"{whole}.{fraction}" if fraction else whole
    return Literal(number if number == "0" else sign + number, datatype=_DECIMAL)


def with_own_blank_nodes(quads: Iterable[Quad], stream: str, seq: int) -> tuple[Quad, ...]:
    """The quads of an element with blank nodes that are renamed for this element alone.

    The new label is a function of the stream, the element's seq and the place of the label in the element,
    so that a replay gives the same terms.
    """
    digest = hashlib.sha256(stream.encode()).hexdigest()[:12]
    labels: dict[BlankNode, BlankNode] = {}

    def renamed(term: Any) -> Any:
        if isinstance(term, BlankNode):
            return labels.setdefault(term, BlankNode(f"e{digest}x{seq}x{len(labels)}"))
        if isinstance(term, Triple):
            return Triple(renamed(term.subject), term.predicate, renamed(term.object))
        return term

    return tuple(Quad(*map(renamed, quad)) for quad in quads)
