"""``/queries``: register, validate, list, explain, change and drop continuous queries."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from typing import Any

from quadrill.continuous.language.registration import Registration
from quadrill.store.documents.times import duration_ms, instant_ms

from ..describing import listing, plan_text
from ..describing import preview as previews
from ..describing import queries as describing
from ..describing.advice import advice
from ..describing.preview import PreviewLimits
from ..describing.streams import feeding_streams
from ..describing.waiting import waiting_for
from ..http import negotiation
from ..http.answers import WholeAnswer, json_answer, no_content, text_answer
from ..http.errors import HttpError
from ..http.parameters import check_name, whole_number
from ..http.request import Request
from ..wiring import Services
from .links import base_url

log = logging.getLogger("quadrill.app")

_TEXT_TYPES = ("text/plain", "application/sparql-query")


def list_queries(services: Services, request: Request) -> WholeAnswer:
    """Return all registered queries; with parameters, the matching queries and their number."""
    request.arguments.check({"contains", "state", "offset", "limit"})
    if not request.arguments:
        everything = describing.describe_all(services.engine)
        return json_answer({"queries": _all_described(services, everything)})
    document = listing.list_part(services.engine, _part(request))
    document["queries"] = _all_described(services, document["queries"])
    return json_answer(document)


def _part(request: Request) -> listing.QuerySelection:
    state = request.arguments.get("state") or None
    if state is not None and state not in listing.STATES:
        known = ", ".join(listing.STATES)
        raise HttpError(400, f"a query is never {state!r}, it is one of: {known}", code="parameter")
    offset, limit = request.arguments.get("offset"), request.arguments.get("limit")
    return listing.QuerySelection(
        contains=request.arguments.get("contains") or "",
        state=state,
        offset=whole_number("offset", "0" if offset is None else offset),
        limit=None if limit is None else whole_number("limit", limit),
    )


def register(services: Services, request: Request) -> WholeAnswer:
    """Register a query under the name that the request or its text gives, else under a generated name."""
    request.arguments.check({"name"})
    return _register(services, request, request.arguments.get("name"), replace=False)


def register_by_name(services: Services, request: Request) -> WholeAnswer:
    """Register a query under the name in the path; ``?replace=true`` drops an older query of that name."""
    request.arguments.check({"replace", "name"})
    name, asked = request.name, request.arguments.get("name")
    if asked is not None and asked != name:
        raise HttpError(400, f"the query is named twice, {name!r} and {asked!r}", code="parameter")
    return _register(services, request, name, replace=request.arguments.flag("replace"))


def validate(services: Services, request: Request) -> WholeAnswer:
    """Validate a query without registration; with ``?code=true`` return the source of its plan, too."""
    request.arguments.check({"name", "code"})
    registration = _registration(services, request, request.arguments.get("name"))
    engine = services.engine
    document = describing.validate(engine, registration, code=request.arguments.flag("code"))
    document["warnings"] += advice(engine.lifecycle.prepare(registration), services.store.reader, engine)
    if "code" in document:
        document["code"] = plan_text.code_text(document)
    document["plan"] = plan_text.explain_text(document)
    return json_answer(document)


def preview(services: Services, request: Request) -> WholeAnswer:
    """Return the events that a query would have emitted in the last minutes, without registration."""
    request.arguments.check({"name", "last", "limit"})
    registration = _registration(services, request, request.arguments.get("name"))
    limits = PreviewLimits()
    span = duration_ms(_argument(request, "last", "5m"), "the parameter last", positive=True)
    events = max(1, min(whole_number("limit", _argument(request, "limit", "200")), limits.events))
    return json_answer(
        previews.preview(
            services.engine, services.store, registration, span_ms=span, events=events, limits=limits
        )
    )


def describe(services: Services, request: Request) -> WholeAnswer:
    """Return one query: text, windows, static parts, counters, and reasons why the query waits."""
    request.arguments.check()
    engine, name = services.engine, check_name(request.name, "the query name")
    document = describing.describe(engine, name)
    if any(reason.word == "filtered" for reason in waiting_for(document)):
        # The row counts of the plan's operators show which operator filters out all rows.
        reasons = _described(services, describing.explain(engine, name, analyze=True))["waiting_for"]
        return json_answer(document | {"waiting_for": reasons})
    return json_answer(_described(services, document))


def explain(services: Services, request: Request) -> WholeAnswer:
    """Return the plan of a query as text or JSON; with ``?code=true``, also the source code of the plan."""
    request.arguments.check({"analyze", "code"})
    name = check_name(request.name, "the query name")
    analyze = request.arguments.flag("analyze")
    offers = (_PLAN_JSON, _PLAN_TEXT) if analyze else (_PLAN_TEXT, _PLAN_JSON)
    chosen = negotiation.choose(request.accept, offers)
    document = describing.explain(services.engine, name, analyze=analyze)
    code = {"code": plan_text.code_text(document)} if request.arguments.flag("code") else {}
    if chosen is _PLAN_JSON:
        return json_answer(plan_text.plan_document(_described(services, document), analyze=analyze) | code)
    text = code.get("code") or plan_text.explain_text(document)
    return text_answer(text, "text/plain; charset=utf-8")


def history(services: Services, request: Request) -> WholeAnswer:
    """Return the activity of a query in the last hour, in columns."""
    request.arguments.check()
    return json_answer(services.history.query(check_name(request.name, "the query name")))


def patch(services: Services, request: Request) -> WholeAnswer:
    """Pause or resume a query, or change its settings."""
    request.arguments.check()
    changes = request.json(services.settings.max_query_bytes, "the change")
    if not changes:
        raise HttpError(400, "the change is empty", code="member", hint='For instance {"state": "paused"}.')
    name = check_name(request.name, "the query name")
    services.engine.queries.patch(name, changes)
    return json_answer(_described(services, describing.describe(services.engine, name)))


def refresh(services: Services, request: Request) -> WholeAnswer:
    """Refresh the static parts of a query immediately."""
    request.arguments.check()
    name = check_name(request.name, "the query name")
    services.engine.queries.refresh(name)
    return json_answer(_described(services, describing.describe(services.engine, name)))


def replay(services: Services, request: Request) -> WholeAnswer:
    """Evaluate the query again over the retained elements since ``?from=``, into a new epoch of the feed."""
    request.arguments.check({"from"})
    begin = request.arguments.get("from")
    from_ms = None if begin is None else instant_ms(begin, "the parameter from")
    return json_answer(services.engine.queries.replay(check_name(request.name, "the query name"), from_ms))


def drop(services: Services, request: Request) -> WholeAnswer:
    """Drop a query and end its feed; the graph of its view stays unless ``?drop_graph=true``."""
    request.arguments.check({"drop_graph"})
    name = check_name(request.name, "the query name")
    services.engine.queries.drop(name, with_graph=request.arguments.flag("drop_graph"))
    return no_content()


_PLAN_TEXT = negotiation.Offer("text", "text/plain", content_type="text/plain; charset=utf-8")
_PLAN_JSON = negotiation.Offer("plan", "application/json")


def _described(
    services: Services, document: dict[str, Any], sources: Sequence[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Add the reasons why a query waits to its description; ``sources`` describes all sources, if known."""
    given = services.connectors.all("source") if sources is None else sources
    iris = feeding_streams(services.engine, [each["iri"] for each in document["streams"]]) if given else ()
    feeding = {iri: [each for each in given if each.get("stream") == iri] for iri in iris}
    return document | {"waiting_for": [reason.to_json() for reason in waiting_for(document, feeding)]}


def _all_described(services: Services, documents: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the reasons why queries wait to their descriptions; log an error of one, which gets no reasons."""
    sources, found = services.connectors.all("source"), []
    for document in documents:
        try:
            found.append(_described(services, document, sources))
        except Exception:
            log.exception("What the query %s waits for cannot be described", document["name"])
            found.append(document | {"waiting_for": []})
    return found


def _register(services: Services, request: Request, name: str | None, *, replace: bool) -> WholeAnswer:
    registration = _registration(services, request, name)
    engine = services.engine
    registered, created = engine.queries.register(registration, replace=replace)
    description = describing.describe(engine, registered)
    prepared = engine.queries.prepared(registered)
    description["warnings"] += [] if prepared is None else advice(prepared, services.store.reader, engine)
    headers = {"Location": f"{base_url(services, request)}queries/{registered}"}
    description = _described(services, description)
    return json_answer(description, 201 if created else 200, headers if created else None)


def _registration(services: Services, request: Request, name: str | None) -> Registration:
    """Parse the registration in the request body; ``name``, if given, is the name of the query."""
    limit = services.settings.max_query_bytes
    media = negotiation.content_media_type(request.headers.get("Content-Type"))
    if media.essence in _TEXT_TYPES:
        members: dict[str, Any] = {"query": request.text(limit, "the query")}
    elif media.essence == "application/json":
        members = request.json(limit, "the registration")
    else:
        raise HttpError(
            415,
            f"a registration cannot be read from {media.essence}",
            code="unsupported-media-type",
            hint="Send the text as text/plain or application/sparql-query, or a JSON object.",
        )
    return Registration.from_json(members, name=name)


def _argument(request: Request, name: str, default: str) -> str:
    given = request.arguments.get(name)
    return default if given is None else given
