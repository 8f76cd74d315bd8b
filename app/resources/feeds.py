"""Feeds and current answers: ``/queries/{name}/results`` and ``/shapes/{name}/results``."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeAlias

from pyoxigraph import QueryResultsFormat, parse_query_results

from quadrill.continuous.errors import FeedGoneError
from quadrill.continuous.shapes.report import COLUMNS
from quadrill.store.documents.stored_lines import parse_stored_quads
from quadrill.store.feeds.feed import Feed

from ..describing.queries import describe
from ..describing.why import why
from ..feeds.events import LINES, EventStream, MessageStream, event_form
from ..feeds.forms import FeedForm, other_form
from ..feeds.query_feeds import Encode, FeedSource, encode, encode_line, encode_message
from ..http import negotiation, websocket
from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.graph_answers import formatted, graph_bytes
from ..http.negotiation import Offer
from ..http.parameters import check_name, whole_number
from ..http.request import Request
from ..server.reply import head_of
from ..server.takeover import Takeover
from ..wiring import Services

_QUADS_JSON = Offer("json", "application/json", ("text/json",))


@dataclass(frozen=True, slots=True)
class _Readable:
    """A feed with its current answer.

    Attributes:
        feed: returns the feed; raises FeedGoneError if it has ended.
        answer: returns the current answer as JSON members.
        empty: returns the answer before the first event as a line of JSON, or None.
        description: returns the description of the query, whose columns CSV has.
    """

    feed: Callable[[], Feed]
    answer: Callable[[], dict[str, Any]]
    empty: Callable[[], str | None]
    description: Callable[[], dict[str, Any]]


_Named: TypeAlias = Callable[[Services, Request], _Readable]
"""A function that returns the feed that a request names."""


def results(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return a query's feed if Accept or ``?follow=`` asks for it, else its answer; 204 after a drop."""
    return _results(services, request, _query)


def shape_results(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return the feed of the results of shapes or all results, as `results` does; 204 after a DELETE."""
    return _results(services, request, _shapes)


def open_results(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return the feed of a query as messages of a WebSocket; 204 after the query was dropped."""
    return _open(services, request, _query)


def open_shape_results(services: Services, request: Request) -> WholeAnswer | Takeover:
    """Return the feed of the results of shapes as messages of a WebSocket; 204 after a DELETE."""
    return _open(services, request, _shapes)


def _query(services: Services, request: Request) -> _Readable:
    name = check_name(request.name, "the query name")
    queries = services.engine.queries
    return _Readable(
        lambda: queries.feed(name),
        lambda: queries.current_answer(name),
        lambda: queries.empty_answer(name),
        lambda: describe(services.engine, name),
    )


def _shapes(services: Services, request: Request) -> _Readable:
    name = check_name(request.name, "the name of the shapes")
    reports = services.shapes.reports
    return _Readable(
        lambda: reports.feed(name),
        lambda: reports.rows(name),
        lambda: None,
        lambda: {"form": "select", "output": "changes", "columns": COLUMNS},
    )


def _results(services: Services, request: Request, named: _Named) -> WholeAnswer | Takeover:
    request.arguments.check({"from", "snapshot", "format", "follow"})
    readable = named(services, request)
    accept = request.accept
    try:
        after_id, snapshot = _position(request)
        rivals = (*negotiation.result_offers(), *negotiation.GRAPH_OFFERS)
        form, follow = event_form(accept, rivals), request.arguments.flag("follow")
        chosen = None
        if form is not None:
            chosen = FeedForm(form, b"", encode_line if form == LINES else encode)
        elif follow or "-messages" in (accept or ""):
            chosen = other_form(accept, follow, readable.description())
        if chosen is not None:
            return _feed(services, request, readable, chosen, after_id, snapshot=snapshot)
        return _current_answer(request, readable.answer())
    except FeedGoneError:
        return no_content()


def _open(services: Services, request: Request, named: _Named) -> WholeAnswer | Takeover:
    request.arguments.check({"from", "snapshot", "last_event_id"})
    readable = named(services, request)
    opening = websocket.handshake(
        request.headers, method=request.method, body_length=request.fields.body_length
    )
    try:
        after_id, snapshot = _position(request)
        return MessageStream(
            _source(readable, after_id, snapshot=snapshot, encode=encode_message),
            services.fanout,
            head_of(HTTPStatus.SWITCHING_PROTOCOLS, opening),
            services.security.grant(request).holds,
        )
    except FeedGoneError:
        return no_content()


def get_why(services: Services, request: Request) -> WholeAnswer:
    """Return why an event has a row: elements and quads over which the query alone gives the row."""
    request.arguments.check({"row"})
    name = check_name(request.name, "the query name")
    given = request.names["id"]
    event_id = int(given) if re.fullmatch(r"[0-9]{1,18}", given) else 0  # no event has the id 0
    row = whole_number("row", request.arguments.get("row") or "0")
    return json_answer(why(services.engine, services.store, name, event_id, row))


def _position(request: Request) -> tuple[int | None, bool]:
    """Return the event id after which a feed starts, and whether the feed starts with the current answer."""
    after = request.arguments.get("from")
    snapshot = request.arguments.flag("snapshot")
    # A browser reconnects to a feed with the same URL, so the header Last-Event-ID is newer than ``?from=``.
    # A web page cannot set headers of a WebSocket, so the parameter last_event_id replaces the header
    # Last-Event-ID.
    if resumed := request.headers.get("Last-Event-Id") or request.arguments.get("last_event_id"):
        return whole_number("Last-Event-ID", resumed), False
    return None if after is None else whole_number("the parameter from", after), snapshot


def _feed(
    services: Services,
    request: Request,
    readable: _Readable,
    form: FeedForm,
    after_id: int | None,
    *,
    snapshot: bool,
) -> EventStream:
    return EventStream(
        _source(readable, after_id, snapshot=snapshot, encode=form.encode),
        services.fanout,
        form.content_type,
        first=form.first,
        retry_ms=services.settings.sse_retry_ms,
        permitted=services.security.grant(request).holds,
    )


def _source(readable: _Readable, after_id: int | None, *, snapshot: bool, encode: Encode) -> FeedSource:
    feed = readable.feed()
    empty = readable.empty() if snapshot or after_id else None
    return FeedSource(feed, after_id, snapshot=snapshot, empty=empty, encode=encode)


def _current_answer(request: Request, answer: dict[str, Any]) -> WholeAnswer:
    if "quads" in answer:
        chosen = _choose(request, (_QUADS_JSON, *negotiation.GRAPH_OFFERS))
        body = _dump(answer) if chosen is _QUADS_JSON else _graph(answer["quads"], chosen)
    else:
        chosen = _choose(request, negotiation.result_offers())
        body = _dump(answer) if chosen is negotiation.JSON_RESULTS else _table(answer, chosen)
    headers = {"Content-Type": chosen.header, "Cache-Control": "no-store", "Vary": "Accept"}
    version = answer.get("version")
    return WholeAnswer(200, headers, body, version if isinstance(version, int) else None)


def _choose(request: Request, offers: tuple[Offer, ...]) -> Offer:
    asked = request.arguments.get("format")
    if asked is not None:
        named = negotiation.short_name(asked)
        for offer in offers:
            if named is not None and offer.name == named.name:
                return offer
    # A client that accepts events or ``*/*`` gets the current answer as JSON.
    return negotiation.choose(request.accept, offers)


def _dump(answer: dict[str, Any]) -> bytes:
    return (json.dumps(answer, ensure_ascii=False) + "\n").encode("utf-8")


def _table(answer: dict[str, Any], chosen: Offer) -> bytes:
    document = {member: answer[member] for member in ("head", "results", "boolean") if member in answer}
    document.setdefault("head", {})
    text = json.dumps(document, ensure_ascii=False)
    solutions = parse_query_results(text, QueryResultsFormat.JSON)
    output = io.BytesIO()
    assert chosen.results is not None
    solutions.serialize(output, chosen.results)
    return formatted(output.getvalue(), chosen)


def _graph(quads: str, chosen: Offer) -> bytes:
    assert chosen.rdf is not None
    parsed = parse_stored_quads(quads.encode())
    return graph_bytes(parsed if chosen.rdf.supports_datasets else (quad.triple for quad in parsed), chosen)
