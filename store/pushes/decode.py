"""Decoding of the body of a push into elements, with values in the store's canonical form and event times.

The elements of a push by format (docs/http-api.md, Streams):

    RDF Messages             one element per message
    application/x-ndjson     one element per line, {"at", "data": N-Quads} or {"at", "jsonld": {...}}
    TriG, N-Quads, JSON-LD   one element per named graph; default-graph triples whose subject is the name of
                             such a graph belong to it, the others form one more element
    Turtle, N-Triples        the whole body
    each=triple              one element per triple

The elements of a push keep document order. The event time of an element is ``at`` of its line, otherwise
``at`` of the request, otherwise the value of the stream's timestamp property in the element, which may be on
the graph name. The event time None means that the element has no time, so the time of its arrival is used.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, NamedTuple

from pyoxigraph import RdfFormat

from ..documents.contents import WHOLE, Content, TextPosition, guard_nesting, read_content
from ..documents.messages import MessageText, split_json_messages, split_messages, split_xml_messages
from ..documents.statements import LINE_FORMATS, PLAIN_LINE, read_statements, term_of
from ..documents.stored_lines import literal_parts
from ..documents.subject_columns import Statement, Statements, as_columns
from ..documents.timed_lines import read_timed_lines
from ..documents.times import GREATEST_MS, INSTANT_HINT, LEAST_MS, instant_ms, parse_instant
from ..documents.yaml_messages import split_yaml_messages
from ..errors import InputError, LimitError, MediaTypeError, RdfSyntaxError, ReportedError
from ..formats import RDF_TYPES, split_media_type
from .records import MEDIA_TYPES, PushRecord

PROV_GENERATED_AT_TIME = "http://www.w3.org/ns/prov#generatedAtTime"

_FORMATS = {
    name: rdf_type.format
    for rdf_type in RDF_TYPES
    if rdf_type.format is not RdfFormat.RDF_XML
    for name in rdf_type.media_types
} | {"text/plain": RdfFormat.N_TRIPLES, "application/turtle": RdfFormat.TURTLE}
_BY_LINES = {name: rdf_format for name, rdf_format in _FORMATS.items() if rdf_format in LINE_FORMATS}
_NDJSON = tuple(name for name, kind in MEDIA_TYPES.items() if kind == "ndjson")
_MESSAGE_TYPES = {
    "application/x-ld+ndjson": (split_json_messages, RdfFormat.JSON_LD),
    "application/rdfm+yaml": (split_yaml_messages, RdfFormat.JSON_LD),
    "application/rdfm+xml": (split_xml_messages, RdfFormat.RDF_XML),
}
"""Media types of RDF Messages, each with the function that splits a body and the format of its messages."""
_FLAT = (RdfFormat.N_TRIPLES, RdfFormat.TURTLE)
"""RDF formats without named graphs."""
_MEMBERS = {"at", "data", "jsonld"}
_MAPPING_HINT = (
    'Declare the stream with a "mapping", which says how a record becomes RDF. Without a mapping, send RDF, '
    'or lines {"at": ..., "data": "<N-Quads>"}.'
)
_SHORT = 65_536
"""Maximum length in bytes of a push whose quads are not counted, because it cannot have too many."""
_TOGETHER = 100
"""Number of NDJSON lines that are parsed together; one by one if a line is not in canonical form."""
_MESSAGES = re.compile(r"1\.[12](?:-basic)?-messages\Z")
_VERSION = re.compile(
    r"""\A(?>\s++|\#[^\n]*+\n)*+(?:@version|VERSION)\s*["'](1\.[12](?:-basic)?-messages)["']""", re.IGNORECASE
)


class DecodeOptions(NamedTuple):
    """Options for decoding a push.

    The option ``at`` is the request's time in milliseconds, ``timestamp_property`` an IRI. The option
    ``max_nesting`` bounds the depth of triple terms and JSON, because parsers recurse on them. The option
    ``max_quads`` bounds the quads of a push, ``max_bad`` the invalid elements that the answer to a partial
    push lists.
    """

    base_iri: str = "http://localhost/"
    at: int | None = None
    each_triple: bool = False
    timestamp_property: str = PROV_GENERATED_AT_TIME
    partial: bool = False
    max_nesting: int = 100
    max_quads: int = 1_000_000
    max_bad: int = 10_000


class DecodedElement(NamedTuple):
    """One stream element: literals in canonical form, and blank node labels of the document."""

    statements: Statements
    at: int | None
    place: str
    line: int | None
    blank: bool


make_element = partial(tuple.__new__, DecodedElement)


class BadElement(NamedTuple):
    """An invalid element of a partial push, for the list in the answer.

    The attribute ``text`` is the text of a mapped stream's record, which is stored as a dead letter. An
    element is ``early`` if only its time, which is ahead of the clock, makes it invalid.
    """

    place: str
    error: str
    line: int | None = None
    column: int | None = None
    text: str | None = None
    early: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the JSON members of this invalid element, for the list in the answer to a push."""
        position = {"line": self.line, "column": self.column}
        known = {name: value for name, value in position.items() if value is not None}
        known |= {"early": True} if self.early else {}
        return {"element": self.place, "error": self.error, **known}


class EarlyElement(NamedTuple):
    """An element whose time is too far ahead of the clock and of its stream's watermark, with the error."""

    element: DecodedElement
    error: str


class MisshapenElement(NamedTuple):
    """An element that does not conform to the shapes of its stream, or that could not be validated.

    Attributes:
        element: the element.
        error: the first violation, or why the element could not be validated.
        report: the validation report in Turtle; None if the element could not be validated.
    """

    element: DecodedElement
    error: str
    report: str | None


@dataclass(slots=True)
class DecodedPush:
    """The valid elements of a push in document order and, for a partial push, the invalid elements.

    The attribute ``skipped`` is the number of records without an element; None for RDF bodies. The attribute
    ``records`` has the records of elements that may still be refused, by their positions. The attribute
    ``misshapen`` has the elements that become dead letters because of the stream's shapes; ``refused`` is the
    number of elements in ``bad`` that these shapes refuse.
    """

    elements: list[DecodedElement] = field(default_factory=list)
    bad: list[BadElement] = field(default_factory=list)
    skipped: int | None = None
    records: dict[str, PushRecord] = field(default_factory=dict)
    misshapen: list[MisshapenElement] = field(default_factory=list)
    refused: int = 0


def decode_lines(
    body: bytes, media_type: str, at: int | None, timestamp_property: str, whole: bool
) -> DecodedPush | None:
    """Return the element of a push that is one line in canonical form; None for another body.

    A push of several triples is one element as well if it is read as a ``whole`` and the request has its
    time.
    """
    rdf_format = _BY_LINES.get(media_type)
    if rdf_format is None:
        return None
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return None
    line_match = None
    if text.find("\n", 0, -1) < 0 and (line_match := PLAIN_LINE[rdf_format].fullmatch(text)) is not None:
        statement: Any = line_match.groups("")
        if at is None and statement[1] == f"<{timestamp_property}>":
            return None
        place = f"graph {statement[3]}" if statement[3] else "the body"
        return DecodedPush([make_element(((statement,), at, place, None, False))])
    if at is None or not whole or rdf_format is not RdfFormat.N_TRIPLES or len(body) > _SHORT:
        return None
    lines = read_statements(text.strip(" \t\r\n"), rdf_format)
    if lines is None:
        return None
    statements, blank = lines
    return DecodedPush([make_element((as_columns(statements), at, "the body", None, blank))])


def decode(body: bytes, media_type: str, options: DecodeOptions) -> DecodedPush:
    """Decode the body of a push and return its elements.

    Raises:
        MediaTypeError: the media type is not one of the formats of this module.
        RdfSyntaxError: the body is malformed RDF or JSON, with line and column; not for lines and messages of
            a partial push, which are listed as invalid elements.
        InputError: a time is not an instant, an element has several times, or a line has the wrong members.
        LimitError: the body nests deeper than ``max_nesting``, or has too many quads or invalid elements.
    """
    name, rdf_format = media_type, _FORMATS.get(media_type)
    parameters: dict[str, str] = {}
    if rdf_format is None and media_type not in _NDJSON:
        name, parameters = split_media_type(media_type)
        rdf_format = _FORMATS.get(name)
    text = body_text(body, parameters.get("charset", "utf-8").lower())
    if rdf_format is None:
        if name in _MESSAGE_TYPES:
            cut, cut_format = _MESSAGE_TYPES[name]
            return _of_messages(cut(text), cut_format, options)
        if name not in _NDJSON:
            if name in MEDIA_TYPES:
                raise MediaTypeError(f"{name} has records, and the stream has no mapping", hint=_MAPPING_HINT)
            known = ", ".join(sorted({*_FORMATS, _NDJSON[0], *_MESSAGE_TYPES}))
            message = f"media type {name or '(none)'} is not one of a push"
            raise MediaTypeError(message, hint=f"Send one of {known}")
        return _of_lines(text, options)
    if rdf_format is not RdfFormat.JSON_LD and (
        (not text.startswith("<") and _VERSION.match(text) is not None)
        or _MESSAGES.match(parameters.get("version", "")) is not None
    ):
        return _of_messages(split_messages(text), rdf_format, options)
    content = _parse(text, rdf_format, options)
    if options.each_triple or rdf_format in _FLAT:
        result = DecodedPush()
        if content.statements:
            _add(result, content, options.at, "the body", None, options)
        return result
    return _of_graphs(content, options)


def body_text(body: bytes, charset: str) -> str:
    """Return the text of a UTF-8 body; raise MediaTypeError, or RdfSyntaxError for invalid bytes."""
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


# --- the elements of the body of a push ---------------------------------------------------------


def _of_lines(text: str, options: DecodeOptions) -> DecodedPush:
    """Return the elements of NDJSON, which has one JSON object on each line that is not blank."""
    result = DecodedPush()
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()
    for begin in range(0, len(lines), _TOGETHER):
        some = lines[begin : begin + _TOGETHER]
        if not _add_plain(result, begin + 1, some, options):
            for number, line in enumerate(some, begin + 1):
                if line and not line.isspace() and not _add_plain(result, number, [line], options):
                    _add_line(result, number, line, options)
    return result


def _add_plain(result: DecodedPush, first: int, lines: list[str], options: DecodeOptions) -> bool:
    """Add the elements of NDJSON lines from number ``first``; False if a line is not in canonical form."""
    timed_lines = None if options.each_triple else read_timed_lines(lines)
    if timed_lines is None or not LEAST_MS <= min(timed_lines[0]) <= max(timed_lines[0]) <= GREATEST_MS:
        return False
    times, statements, blank = timed_lines
    if max(map(len, statements)) > options.max_quads:
        return False
    numbers = range(first, first + len(lines))
    result.elements += map(
        make_element, zip(statements, times, _places(numbers), numbers, blank, strict=True)
    )
    return True


@lru_cache
def _places(numbers: range) -> list[str]:
    """Return the names of numbered lines for error messages; cached, because pushes repeat line numbers."""
    return [f"line {number}" for number in numbers]


def _add_line(result: DecodedPush, number: int, line: str, options: DecodeOptions) -> None:
    """Add the element of one NDJSON line to the elements of the push."""
    place = f"line {number}"
    try:
        document = _json_object(line, number, place, options)
        at = document.get("at")
        at = options.at if at is None else instant_ms(at, f"at of {place}")
        if "jsonld" in document:
            data, rdf_format = json.dumps(document["jsonld"]), RdfFormat.JSON_LD
        else:
            data, rdf_format = document["data"], RdfFormat.N_QUADS
            if not isinstance(data, str):
                raise InputError(f"data of {place} is not a string of N-Quads")
        content = _parse(data, rdf_format, options, TextPosition(within=number), at)
        _add(result, content, at, place, number, options)
    except ReportedError as error:
        reject_element(result, error, place, number, options)


def _json_object(line: str, number: int, place: str, options: DecodeOptions) -> dict[str, Any]:
    """Return the members of the JSON object on an NDJSON line; raise an error for unknown members."""
    if line.find("{", 1) >= 0 or "[" in line:
        guard_nesting(line, options.max_nesting, json_text=True)
    try:
        document = json.loads(line)
    except ValueError as error:
        column = getattr(error, "colno", None)
        message = getattr(error, "msg", str(error))
        raise RdfSyntaxError(f"{place} is not JSON: {message}", line=number, column=column) from None
    if not isinstance(document, dict):
        raise InputError(f"{place} is not a JSON object", hint='Write {"at": ..., "data": "<N-Quads>"}')
    unknown = [] if document.keys() <= _MEMBERS else sorted(document.keys() - _MEMBERS)
    if unknown and "data" not in document and "jsonld" not in document:
        message = f"{place} is a record with the member {unknown[0]!r}, and the stream has no mapping"
        raise InputError(message, hint=_MAPPING_HINT)
    if unknown or ("data" in document) == ("jsonld" in document):
        problem = f"has the unknown member {unknown[0]!r}" if unknown else "needs one of data and jsonld"
        raise InputError(f"{place} {problem}", hint='Write {"at": ..., "data": "<N-Quads>"}')
    return document


def _of_messages(
    messages: Sequence[MessageText], rdf_format: RdfFormat, options: DecodeOptions
) -> DecodedPush:
    """Return the elements of RDF Messages; an element may be empty."""
    result = DecodedPush()
    for number, (message, line, lead) in enumerate(messages, start=1):
        place = f"message {number}"
        try:
            content = _parse(message, rdf_format, options, TextPosition(line, lead))
            _add(result, content, options.at, place, line, options)
        except ReportedError as error:
            reject_element(result, error, place, line, options)
    return result


def _of_graphs(content: Content, options: DecodeOptions) -> DecodedPush:
    """Return an element per named graph, and one for default-graph triples about none of these graphs."""
    result = DecodedPush()
    groups = content.by_graph()
    if groups.keys() == {""}:
        _add(result, content, options.at, "the body", None, options)
        return result
    for name, group in groups.items():
        place = f"graph {name}" if name else "the default graph"
        try:
            _add(result, group, options.at, place, None, options, name)
        except ReportedError as error:
            reject_element(result, error, place, None, options)
    return result


def _add(
    result: DecodedPush,
    content: Content,
    at: int | None,
    place: str,
    line: int | None,
    options: DecodeOptions,
    name: str | None = None,
) -> None:
    """Add the quads that `_parse` returned for a graph as one element or one element per triple."""
    statements, blank, as_written = content
    # A stream element is a dataset, so it contains each quad once.
    if not options.each_triple:
        time = _time_in_element(as_written, place, name, options.timestamp_property) if at is None else at
        result.elements.append(DecodedElement(as_columns(statements), time, place, line, blank))
        return
    stamp = f"<{options.timestamp_property}>"
    for number, (statement, as_spelt) in enumerate(zip(statements, as_written, strict=True), start=1):
        where, time = f"triple {number} of {place}", at
        if time is None and statement[1] == stamp:
            time = _time_in_element((as_spelt,), where, None, options.timestamp_property)
        result.elements.append(make_element(((statement,), time, where, line, blank)))


def reject_element(
    result: DecodedPush,
    error: ReportedError,
    place: str,
    line: int | None,
    options: DecodeOptions,
    record: PushRecord | None = None,
) -> None:
    """Add an invalid element to the list of a partial push; for any other push, raise its error."""
    if not options.partial:
        if line is not None and not isinstance(error, RdfSyntaxError):
            error.details["line"] = line
        raise error
    if len(result.bad) == options.max_bad:
        raise LimitError(f"more than {options.max_bad:,} elements of the push are bad", hint=error.message)
    where, column = (error.line, error.column) if isinstance(error, RdfSyntaxError) else (None, None)
    result.bad.append(BadElement(place, error.message, where or line, column, record and record.excerpt()))


def check_size(number: int, options: DecodeOptions) -> None:
    """Raise LimitError if a push has too many quads."""
    if number > options.max_quads:
        raise LimitError(
            f"a push may have {options.max_quads:,} quads, this one has more",
            code="body-too-large",
            hint="Send several pushes.",
        )


def _time_in_element(statements: Sequence[Statement], place: str, name: str | None, by: str) -> int | None:
    """Return an element's time by the timestamp property; a time on the graph name takes precedence."""
    stamp = f"<{by}>"
    time_statements = [statement for statement in statements if statement[1] == stamp]
    if not time_statements:
        return None
    elsewhere: set[int] = set()
    on_name: set[int] = set()
    names = {statement[3] for statement in statements} if name is None else {name}
    for subject, _, value, _ in time_statements:
        moment = parse_instant(literal_parts(value)[0].strip()) if value[0] == '"' else None
        if moment is None:
            raise InputError(
                f"{place}: {term_of(value)} by {stamp} is no instant in the years 1 to 9999",
                hint=INSTANT_HINT,
            )
        (on_name if subject in names else elsewhere).add(moment)
    times = on_name or elsewhere
    if len(times) > 1:
        raise InputError(
            f"{place} has {len(times)} different times by {stamp}; an element has one",
            hint="Send one named graph or one line per event, or give the time with at",
        )
    return next(iter(times))


def _parse(
    text: str,
    rdf_format: RdfFormat,
    options: DecodeOptions,
    part: TextPosition = WHOLE,
    at: int | None = None,
) -> Content:
    """Parse one text of the push; ``at`` is the time of its elements, None if the text may contain it."""
    known = at if at is not None else options.at
    content = read_content(
        text,
        rdf_format,
        part,
        base_iri=options.base_iri,
        written_form_of=options.timestamp_property if known is None else None,
        max_nesting=options.max_nesting,
        most=options.max_quads,
    )
    check_size(len(content.statements), options)
    return content
