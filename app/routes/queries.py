"""``/queries``: register, validate, list, explain, change and drop continuous queries."""

from __future__ import annotations

import logging
from typing import Any

from flask import Blueprint, Response, request

from quadrill.continuous.language.registration import Registration
from quadrill.store.documents.times import duration_ms, instant_ms

from ..describing import listing, plan_text
from ..describing import preview as previews
from ..describing import queries as describing
from ..describing.advice import advice
from ..describing.preview import PreviewLimits
from ..describing.waiting import waiting_for
from ..http import negotiation
from ..http.errors import HttpError
from ..security import needs
from . import requests as incoming
from .requests import services

blueprint = Blueprint("queries", __name__)
log = logging.getLogger("quadrill.app")

_TEXT_TYPES = ("text/plain", "application/sparql-query")


@blueprint.get("/queries")
def list_queries() -> Response:
    """All registered queries; with a parameter a part of them, and how many there are."""
    incoming.known_parameters({"contains", "state", "offset", "limit"})
    if not request.args:
        return incoming.json_response(
            {"queries": list(map(_listed, describing.describe_all(services().engine)))}
        )
    document = listing.list_part(services().engine, _part())
    document["queries"] = list(map(_listed, document["queries"]))
    return incoming.json_response(document)


def _part() -> listing.Part:
    state = request.args.get("state") or None
    if state is not None and state not in listing.STATES:
        known = ", ".join(listing.STATES)
        raise HttpError(400, f"a query is never {state!r}, it is one of: {known}", code="parameter")
    limit = request.args.get("limit")
    return listing.Part(
        contains=request.args.get("contains", ""),
        state=state,
        offset=incoming.whole_number("offset", request.args.get("offset", "0")),
        limit=None if limit is None else incoming.whole_number("limit", limit),
    )


@blueprint.post("/queries")
def register() -> Response:
    """Register a query under the name that the request or its text gives."""
    incoming.known_parameters({"name"})
    return _register(request.args.get("name"), replace=False)


@blueprint.put("/queries/<part:name>")
def register_by_name(name: str) -> Response:
    """Register a query under this name; ``?replace=true`` drops what has it."""
    incoming.known_parameters({"replace", "name"})
    asked = request.args.get("name")
    if asked is not None and asked != name:
        raise HttpError(400, f"the query is named twice, {name!r} and {asked!r}", code="parameter")
    return _register(name, replace=incoming.flag("replace"))


@blueprint.post("/queries:validate")
@needs("read")
def validate() -> Response:
    """Tell what registering would give, without doing it; with ``?code=true`` also the plan's source."""
    incoming.known_parameters({"name", "code"})
    registration = _registration(request.args.get("name"))
    engine = services().engine
    document = describing.validate(engine, registration, code=incoming.flag("code"))
    document["warnings"] += advice(engine.prepare(registration), services().store, engine)
    if "code" in document:
        document["code"] = plan_text.code_text(document)
    document["plan"] = plan_text.explain_text(document)
    return incoming.json_response(document)


@blueprint.post("/queries:preview")
@needs("read")
def preview() -> Response:
    """What the query would have told over the last minutes of its streams; nothing is registered."""
    incoming.known_parameters({"name", "last", "limit"})
    registration = _registration(request.args.get("name"))
    limits = PreviewLimits()
    span = duration_ms(request.args.get("last", "5m"), "the parameter last", positive=True)
    events = max(1, min(incoming.whole_number("limit", request.args.get("limit", "200")), limits.events))
    return incoming.json_response(
        previews.preview(
            services().engine, services().store, registration, span_ms=span, events=events, limits=limits
        )
    )


@blueprint.get("/queries/<part:name>")
def describe(name: str) -> Response:
    """One query: text, windows, static parts, counters, what it waits for."""
    incoming.known_parameters(())
    engine = services().engine
    document = describing.describe(engine, incoming.check_name(name, "the query name"))
    if any(reason.word == "filtered" for reason in waiting_for(document)):
        # Its operators tell which of them lets nothing through.
        reasons = _described(describing.explain(engine, name, analyze=True))["waiting_for"]
        return incoming.json_response(document | {"waiting_for": reasons})
    return incoming.json_response(_described(document))


@blueprint.get("/queries/<part:name>/explain")
def explain(name: str) -> Response:
    """The plan: JSON when asked for or with ``?analyze=true``, text otherwise; ``?code=true`` its source."""
    incoming.known_parameters({"analyze", "code"})
    incoming.check_name(name, "the query name")
    analyze = incoming.flag("analyze")
    offers = (_PLAN_JSON, _PLAN_TEXT) if analyze else (_PLAN_TEXT, _PLAN_JSON)
    chosen = negotiation.choose(request.headers.get("Accept"), offers)
    document = describing.explain(services().engine, name, analyze=analyze)
    code = {"code": plan_text.code_text(document)} if incoming.flag("code") else {}
    if chosen is _PLAN_JSON:
        return incoming.json_response(plan_text.plan_document(_described(document), analyze=analyze) | code)
    text = code.get("code") or plan_text.explain_text(document)
    return Response(text, content_type="text/plain; charset=utf-8")


@blueprint.get("/queries/<part:name>/history")
def history(name: str) -> Response:
    """What a query did in the last hour, in columns."""
    incoming.known_parameters(())
    return incoming.json_response(services().history.query(incoming.check_name(name, "the query name")))


@blueprint.patch("/queries/<part:name>")
def patch(name: str) -> Response:
    """Pause, resume or change settings."""
    incoming.known_parameters(())
    changes = incoming.json_body(services().settings.max_query_bytes, "the change")
    if not changes:
        raise HttpError(400, "the change is empty", code="member", hint='For instance {"state": "paused"}.')
    services().engine.patch(incoming.check_name(name, "the query name"), changes)
    return incoming.json_response(_described(describing.describe(services().engine, name)))


@blueprint.post("/queries/<part:name>/refresh")
def refresh(name: str) -> Response:
    """Refresh the static parts now."""
    incoming.known_parameters(())
    services().engine.refresh(incoming.check_name(name, "the query name"))
    return incoming.json_response(_described(describing.describe(services().engine, name)))


@blueprint.post("/queries/<part:name>/replay")
def replay(name: str) -> Response:
    """Evaluate once more over the retained elements from ``?from=`` on, into a new epoch of the feed."""
    incoming.known_parameters({"from"})
    begin = request.args.get("from")
    from_ms = None if begin is None else instant_ms(begin, "the parameter from")
    return incoming.json_response(
        services().engine.replay(incoming.check_name(name, "the query name"), from_ms)
    )


@blueprint.delete("/queries/<part:name>")
def drop(name: str) -> Response:
    """Drop a query; its feed ends. The graph of its view stays unless ``?drop_graph=true``."""
    incoming.known_parameters({"drop_graph"})
    name = incoming.check_name(name, "the query name")
    services().engine.drop(name, with_graph=incoming.flag("drop_graph"))
    return Response(status=204)


_PLAN_TEXT = negotiation.Offer("text", "text/plain", content_type="text/plain; charset=utf-8")
_PLAN_JSON = negotiation.Offer("plan", "application/json")


def _described(document: dict[str, Any]) -> dict[str, Any]:
    """A description with what the query waits for."""
    return document | {"waiting_for": [reason.to_json() for reason in waiting_for(document)]}


def _listed(document: dict[str, Any]) -> dict[str, Any]:
    """A description in a list: where its reasons cannot be found, the list is given without them."""
    try:
        return _described(document)
    except Exception:
        log.exception("What the query %s waits for cannot be described", document["name"])
        return document | {"waiting_for": []}


def _register(name: str | None, *, replace: bool) -> Response:
    registration = _registration(name)
    engine = services().engine
    registered, created = engine.register(registration, replace=replace)
    description = describing.describe(engine, registered)
    prepared = engine.prepared(registered)
    description["warnings"] += [] if prepared is None else advice(prepared, services().store, engine)
    headers = {"Location": f"{incoming.base_url()}queries/{registered}"}
    return incoming.json_response(
        _described(description), 201 if created else 200, headers if created else None
    )


def _registration(name: str | None) -> Registration:
    """The registration in the request's body, named by ``name`` when it is given."""
    limit = services().settings.max_query_bytes
    media = negotiation.content_media_type(request.headers.get("Content-Type"))
    if media.essence in _TEXT_TYPES:
        members: dict[str, Any] = {"query": incoming.body_text(limit, "the query")}
    elif media.essence == "application/json":
        members = incoming.json_body(limit, "the registration")
    else:
        raise HttpError(
            415,
            f"a registration cannot be read from {media.essence}",
            code="unsupported-media-type",
            hint="Send the text as text/plain or application/sparql-query, or a JSON object.",
        )
    return Registration.from_json(members, name=name)
