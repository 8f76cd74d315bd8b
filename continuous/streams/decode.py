"""Step 2 of 8: the bytes of a push and their media type become elements, with the times that they carry.

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

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from pyoxigraph import BlankNode, DefaultGraph, Literal, NamedNode, Quad, RdfFormat, parse

from quadrill.store.errors import LimitError, QuadrillError, RdfSyntaxError
from quadrill.store.formats import advice

from ..errors import InputError, MediaTypeError
from .messages import announces_messages, split_messages
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
_WITH_MESSAGES = (RdfFormat.N_TRIPLES, RdfFormat.N_QUADS, RdfFormat.TURTLE, RdfFormat.TRIG)
_FLAT = (RdfFormat.N_TRIPLES, RdfFormat.TURTLE)
"""Formats without graphs."""
_MEMBERS = {"at", "data", "jsonld"}
_VERSION = re.compile(
    r"""\A(?:\s|\#[^\n]*\n)*(?:@version|VERSION)\s*["'](1\.[12](?:-basic)?-messages)["']""", re.IGNORECASE
)
_NESTING = re.compile(
    r"""\"\"\".*?\"\"\"|'''.*?'''|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|<(?!<)[^<>\s]*>|<<|>>|[\[{]|[\]}]""",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class DecodeOptions:
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


@dataclass(frozen=True, slots=True)
class DecodedElement:
    """One element as sent: terms and blank nodes still those of the document."""

    quads: tuple[Quad, ...]
    at: int | None
    place: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class BadElement:
    """An element of a partial push that could not be accepted, for the answer's list."""

    place: str
    error: str
    line: int | None = None
    column: int | None = None

    def to_json(self) -> dict[str, Any]:
        """JSON members of the list of bad elements."""
        document: dict[str, Any] = {"element": self.place, "error": self.error}
        if self.line is not None:
            document["line"] = self.line
        if self.column is not None:
            document["column"] = self.column
        return document


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
    rdf_format = _FORMATS.get(media_type)
    if rdf_format is not None and rdf_format in _FLAT and not options.each_triple:
        # The ordinary push: triples of a format without graphs are one element.
        text = _text(body, "utf-8")
        if _VERSION.match(text) is None:
            decoder = _Decoder(options)
            quads = decoder.parse(text, rdf_format)
            at = options.at
            if quads and at is None:
                at = decoder.own_time(quads, "the body", None)
            return Decoded([DecodedElement(tuple(quads), at, "the body")] if quads else [])
    name, parameters = _media_type(media_type)
    text = _text(body, parameters.get("charset", "utf-8").lower())
    if name in _NDJSON:
        return _Decoder(options).ndjson(text)
    rdf_format = _FORMATS.get(name)
    if rdf_format is None:
        known = ", ".join(sorted({*_FORMATS, _NDJSON[0]}))
        given = name or "(none)"
        raise MediaTypeError(f"media type {given} is not one of a push", hint=f"Send one of {known}")
    if rdf_format in _WITH_MESSAGES:
        inline = _VERSION.match(text)
        if inline is not None or announces_messages(parameters.get("version")):
            return _Decoder(options).messages(text, rdf_format)
    return _Decoder(options).document(text, rdf_format)


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
        return body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = body.count(b"\n", 0, error.start) + 1
        column = error.start - (body.rfind(b"\n", 0, error.start) + 1) + 1
        raise RdfSyntaxError(
            f"the body is not UTF-8 at line {line}, byte {column}", line=line, column=column
        ) from None


class _Decoder:
    """Reads one push."""

    def __init__(self, options: DecodeOptions) -> None:
        self._options = options
        self._result = Decoded()

    def document(self, text: str, rdf_format: RdfFormat) -> Decoded:
        """A body of an ordinary RDF format."""
        self._elements(self.parse(text, rdf_format), "the body", None, self._options.at)
        return self._result

    def messages(self, text: str, rdf_format: RdfFormat) -> Decoded:
        """A log of RDF Messages: one element each, empty ones included."""
        for number, message in enumerate(split_messages(text), start=1):
            place = f"message {number}"

            def read(message: Any = message, place: str = place) -> None:
                quads = self.parse(message.text, rdf_format, first_line=message.line, lead=message.lead)
                self._one_or_triples(quads, place, message.line, self._options.at)

            self._guarded(read, place, message.line)
        return self._result

    def ndjson(self, text: str) -> Decoded:
        """One JSON object a line; blank lines are skipped."""
        for number, line in enumerate(text.split("\n"), start=1):
            if line.strip():
                place = f"line {number}"
                if self._options.partial:
                    self._guarded(partial(self._line, number, line, place), place, number)
                else:
                    self._line(number, line, place)
        return self._result

    def _guarded(self, read: Callable[[], None], place: str, line: int) -> None:
        """Run ``read``; in a partial push its error goes to the list."""
        if not self._options.partial:
            read()
            return
        try:
            read()
        except QuadrillError as error:
            where = getattr(error, "line", None) or line or None
            self._result.bad.append(BadElement(place, error.message, where, getattr(error, "column", None)))

    def _line(self, number: int, line: str, place: str) -> None:
        _guard_nesting(line, self._options.max_nesting)
        try:
            document = json.loads(line)
        except ValueError as error:
            column = getattr(error, "colno", None)
            message = getattr(error, "msg", str(error))
            raise RdfSyntaxError(
                f"line {number} is not JSON: {message}", line=number, column=column
            ) from None
        if not isinstance(document, dict):
            raise InputError(f"{place} is not a JSON object", hint='Write {"at": ..., "data": "<N-Quads>"}')
        unknown = [] if document.keys() <= _MEMBERS else sorted(document.keys() - _MEMBERS)
        if unknown or ("data" in document) == ("jsonld" in document):
            found = f"has the unknown member {unknown[0]!r}" if unknown else "needs one of data and jsonld"
            raise InputError(f"{place} {found}", hint='Write {"at": ..., "data": "<N-Quads>"}')
        at = self._options.at
        if document.get("at") is not None:
            at = instant_ms(document["at"], f"at of {place}")
        if "data" in document:
            if not isinstance(document["data"], str):
                raise InputError(f"data of {place} is not a string of N-Quads")
            quads = self.parse(document["data"], RdfFormat.N_QUADS, within=number)
        else:
            quads = self.parse(json.dumps(document["jsonld"]), RdfFormat.JSON_LD, within=number)
        self._one_or_triples(quads, place, number, at)

    # --- elements -------------------------------------------------------------------------------

    def _elements(self, quads: Sequence[Quad], place: str, line: int | None, at: int | None) -> None:
        """One element per named graph, the rest of the default graph one more."""
        if self._options.each_triple:
            self._one_or_triples(quads, place, line, at)
            return
        names = {quad.graph_name for quad in quads if not isinstance(quad.graph_name, DefaultGraph)}
        if not names:
            # An empty body holds no element.
            if quads:
                self._append(quads, place, line, at)
            return
        groups: dict[NamedNode | BlankNode | DefaultGraph, list[Quad]] = {}
        for quad in quads:
            key = quad.graph_name
            if isinstance(key, DefaultGraph) and quad.subject in names:
                assert isinstance(quad.subject, NamedNode | BlankNode)
                key = quad.subject
            groups.setdefault(key, []).append(quad)
        for name, group in groups.items():
            where = "the default graph" if isinstance(name, DefaultGraph) else f"graph {name}"
            self._guarded_append(group, where, line, at, name)

    def _guarded_append(
        self, quads: Sequence[Quad], place: str, line: int | None, at: int | None, name: Any
    ) -> None:
        self._guarded(lambda: self._append(quads, place, line, at, name), place, line or 0)

    def _one_or_triples(self, quads: Sequence[Quad], place: str, line: int | None, at: int | None) -> None:
        if not self._options.each_triple:
            self._append(quads, place, line, at)
            return
        for number, quad in enumerate(quads, start=1):
            self._append((quad,), f"triple {number} of {place}", line, at)

    def _append(
        self,
        quads: Sequence[Quad],
        place: str,
        line: int | None,
        at: int | None,
        name: NamedNode | BlankNode | DefaultGraph | None = None,
    ) -> None:
        if at is None:
            at = self.own_time(quads, place, name)
        self._result.elements.append(DecodedElement(tuple(quads), at, place, line))

    def own_time(
        self, quads: Iterable[Quad], place: str, name: NamedNode | BlankNode | DefaultGraph | None
    ) -> int | None:
        """The element's time by the stream's timestamp property; one on the graph name goes first."""
        stamp = NamedNode(self._options.timestamp_property)
        found: set[int] = set()
        on_name: set[int] = set()
        names = {name} if isinstance(name, NamedNode | BlankNode) else set()
        if not names:
            quads = list(quads)
            names = {q.graph_name for q in quads if not isinstance(q.graph_name, DefaultGraph)}
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

    # --- parsing --------------------------------------------------------------------------------

    def parse(
        self,
        text: str,
        rdf_format: RdfFormat,
        *,
        first_line: int = 1,
        lead: int = 0,
        within: int | None = None,
    ) -> list[Quad]:
        """The quads of a text; errors speak of the document that it is part of.

        ``within`` is the line of the push that holds the whole text as a string.
        """
        if "<<" in text or rdf_format == RdfFormat.JSON_LD:
            _guard_nesting(text, self._options.max_nesting)
        lines = rdf_format is RdfFormat.N_TRIPLES or rdf_format is RdfFormat.N_QUADS
        base = None if lines else self._options.base_iri
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
