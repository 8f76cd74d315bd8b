"""Encoders of queries' feeds as rows of CSV and as RDF Messages.

A form of a feed is a content type, the bytes before the first event, and the encoder of an event; all
subscribers of a form share the encoded bytes. Specification of RDF Messages:
https://w3c-cg.github.io/rsp/spec/messages
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import Any, NamedTuple

from pyoxigraph import RdfFormat, serialize

from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.feeds.subscription import StoredEvent

from ..http.errors import HttpError
from ..http.negotiation import accepts, media_ranges
from .query_feeds import Encode

_VERSION = re.compile(r"1\.[12](?:-basic)?-messages\Z")
_MESSAGE_TYPES = {
    "application/n-quads": RdfFormat.N_QUADS,
    "application/trig": RdfFormat.TRIG,
    "application/n-triples": RdfFormat.N_TRIPLES,
    "text/turtle": RdfFormat.TURTLE,
}


class FeedForm(NamedTuple):
    """Content type and encoder of a query's feed; ``first`` are the bytes before the first event."""

    content_type: str
    first: bytes
    encode: Encode


def other_form(accept: str | None, follow: bool, query: dict[str, Any]) -> FeedForm | None:
    """Return the RDF Messages or (with ``follow``) CSV form that the Accept header names; else None.

    Raises: HttpError 406 for a form that the query's results do not have; 409 if the query was not parsed,
        for instance because the server started with the query paused.
    """
    messages = _messages(accept)
    rows = follow and accepts(accept, "text/csv", ())
    if (messages is not None or rows) and "columns" not in query:
        raise HttpError(
            409,
            f"the query is {query['state']}: the columns of its results are known only after it has started",
            code="query-not-running",
            hint="Request text/event-stream or application/x-ndjson, or resume the query.",
        )
    if messages is not None:
        if query["form"] != "construct":
            raise _not_acceptable("RDF Messages are written of CONSTRUCT queries", "Ask for another type.")
        if query["output"] == "changes":
            raise _not_acceptable(
                "RDF Messages cannot say what is deleted", "Register it with another output."
            )
        return messages
    if rows:
        if query["form"] == "construct":
            raise _not_acceptable("CSV is written of SELECT and ASK queries", "Ask for RDF Messages.")
        columns = tuple(query["columns"]) if query["form"] == "select" else ("boolean",)
        return FeedForm(
            "text/csv; charset=utf-8", _csv_line(["id", "event", "at", *columns]), rows_of(columns)
        )
    return None


def _messages(accept: str | None) -> FeedForm | None:
    """Return the RDF Messages form, a media type with a version label, that Accept ranks highest."""
    best = None
    for media, quality in media_ranges(accept):
        label, rdf_format = media.parameters.get("version", ""), _MESSAGE_TYPES.get(media.essence)
        named = rdf_format is not None and _VERSION.match(label) is not None
        if rdf_format is not None and named and quality > 0 and (best is None or quality > best[0]):
            head = f'VERSION "{label}"\n'.encode()
            best = quality, FeedForm(f"{media.essence}; version={label}", head, messages_in(rdf_format))
    return None if best is None else best[1]


def _not_acceptable(message: str, hint: str) -> HttpError:
    return HttpError(406, message, code="not-acceptable", hint=hint)


# --- RDF Messages -------------------------------------------------------------------------------


@cache
def messages_in(rdf_format: RdfFormat) -> Encode:
    """Return an encoder of events as RDF messages: a comment with id and time, the quads, the delimiter.

    In RDF formats without graphs the messages have triples. The delimiter after the quads of an event marks
    an RDF message as complete.
    """

    @lru_cache(maxsize=1024)
    def encode(event: StoredEvent) -> bytes:
        data = json.loads(event.data)
        if "quads" not in data:
            return _remark(event)
        quads = data["quads"]
        if rdf_format is not RdfFormat.N_QUADS and quads:
            parsed = parse_stored_quads(quads.encode())
            items: Any = parsed if rdf_format.supports_datasets else (quad.triple for quad in parsed)
            written = serialize(items, format=rdf_format)
            quads = "" if written is None else written.decode()
        number = "" if event.id is None else f" id {event.id}"
        return f"# {event.kind}{number} at {data.get('at')}\n{quads}MESSAGE\n".encode()

    return encode


def _remark(event: StoredEvent) -> bytes:
    """Encode an event without quads as a comment, or as no bytes if its kind is `progress`."""
    return b"" if event.kind == "progress" else f"# {event.kind} {event.data}\n".encode()


# --- CSV ----------------------------------------------------------------------------------------


@lru_cache(maxsize=1024)
def rows_of(columns: tuple[str, ...]) -> Encode:
    """Return an encoder of events as CSV rows: id, kind and time, then the values of one solution.

    A `reset` or `error` event becomes a CSV row without values.
    """

    @lru_cache(maxsize=1024)
    def encode(event: StoredEvent) -> bytes:
        if event.kind == "progress":
            return b""
        data = json.loads(event.data)
        known = ["" if event.id is None else str(event.id), event.kind, str(data.get("at", ""))]
        if event.kind not in ("insert", "delete", "answer", "resolved"):
            return _csv_line([*known, *("" for _ in columns)])
        return b"".join(_csv_line([*known, *values]) for values in _solutions(data, columns))

    return encode


def _solutions(data: dict[str, Any], columns: tuple[str, ...]) -> Iterator[list[str]]:
    if "boolean" in data:
        yield ["true" if data["boolean"] else "false"]
        return
    for binding in data["results"]["bindings"]:
        yield [_text(binding.get(name)) for name in columns]


def _text(term: dict[str, Any] | None) -> str:
    """Return a term in the CSV syntax of SPARQL results."""
    if term is None:
        return ""
    value = term["value"]
    if term["type"] == "triple":
        return f"<<( {' '.join(_text(value[name]) for name in ('subject', 'predicate', 'object'))} )>>"
    return f"_:{value}" if term["type"] == "bnode" else str(value)


def _csv_line(values: list[str]) -> bytes:
    file = io.StringIO()
    csv.writer(file, lineterminator="\r\n").writerow(values)
    return file.getvalue().encode()
