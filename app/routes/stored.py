"""``/stored-queries``: SPARQL queries kept under a name, to be looked up and run."""

from __future__ import annotations

import time
from typing import Any

from flask import Blueprint, Response, request
from pyoxigraph import Store

from quadrill.store.errors import NotFoundError
from quadrill.store.registry import StoredQueryRecord
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.query import Querier, QueryRequest

from ..evaluation.extensions import extended
from ..http import negotiation
from ..http.bodies import too_large
from ..http.errors import HttpError
from ..http.protocol import QUERY, SparqlCall, fields_of
from . import requests as incoming
from .requests import services
from .streamed_answer import StreamedAnswer

blueprint = Blueprint("stored", __name__)

_TEXT_TYPES = ("text/plain", QUERY)
_RUN_PARAMETERS = {"default-graph-uri", "named-graph-uri", "union-default-graph", "timeout"}


@blueprint.get("/stored-queries")
def list_stored() -> Response:
    """All stored queries by name."""
    incoming.known_parameters(())
    return incoming.json_response(
        {"queries": [_described(record) for record in services().registry.list_stored_queries()]}
    )


@blueprint.get("/stored-queries/<part:name>")
def get_stored(name: str) -> Response:
    """One stored query."""
    incoming.known_parameters(())
    return incoming.json_response(_described(_found(name)))


@blueprint.put("/stored-queries/<part:name>")
def put_stored(name: str) -> Response:
    """Keep a query under a name, in place of an older one: a text, or JSON with query and description."""
    incoming.known_parameters(())
    incoming.check_name(name, "the name of the stored query")
    text, description = _given()
    settings, store = services().settings, services().store
    if len(text) > settings.max_query_bytes:
        raise too_large("the query", settings.max_query_bytes, len(text))
    # Evaluated on nothing: a wrong text is told now and not when it is run.
    checker = Querier(Store(), TextLimits(height=settings.max_nesting), store.allowed_hosts)
    asked = extended(text, settings.base_iri)
    wanted = QueryRequest(
        asked.text,
        settings.base_iri,
        custom_functions=asked.functions,
        custom_aggregates=asked.aggregates,
    )
    checker.evaluate(wanted, 0).close()
    created = services().registry.get_stored_query(name) is None
    record = StoredQueryRecord(name, text, description, time.time_ns() // 1_000_000)
    services().registry.put_stored_query(record)
    headers = {"Location": f"{incoming.base_url()}stored-queries/{name}"} if created else None
    return incoming.json_response(_described(record), 201 if created else 200, headers)


@blueprint.delete("/stored-queries/<part:name>")
def remove_stored(name: str) -> Response:
    """Forget a stored query."""
    services().registry.remove_stored_query(incoming.check_name(name, "the name of the stored query"))
    return Response(status=204)


@blueprint.get("/stored-queries/<part:name>/results")
def run_stored(name: str) -> Response:
    """Run a stored query; dataset parameters and ``timeout`` as for ``/query``."""
    fields = fields_of(request.query_string)
    incoming.known_parameters(_RUN_PARAMETERS, [name for name, _value in fields])
    call, text = SparqlCall(fields), _found(name).text
    endpoint = services().endpoint
    return StreamedAnswer(endpoint.answer(endpoint.asked(call, text), incoming.client(), incoming.user()))


def _given() -> tuple[str, str]:
    limit = services().settings.max_query_bytes
    media = negotiation.content_media_type(request.headers.get("Content-Type"))
    if media.essence in _TEXT_TYPES:
        return incoming.body_text(limit, "the query"), ""
    if media.essence != "application/json":
        raise HttpError(
            415,
            f"a query cannot be read from {media.essence}",
            code="unsupported-media-type",
            hint=f"Send it as {' or '.join(_TEXT_TYPES)}, or as a member of a JSON object.",
        )
    members = incoming.json_body(limit * 2, "the stored query")
    unknown = sorted(set(members) - {"query", "description"})
    if unknown:
        raise HttpError(400, f"the stored query has an unknown member {unknown[0]}", code="member")
    text, description = members.get("query"), members.get("description", "")
    if not isinstance(text, str) or not isinstance(description, str):
        raise HttpError(400, "query and description must be texts", code="member")
    return text, description


def _found(name: str) -> StoredQueryRecord:
    record = services().registry.get_stored_query(incoming.check_name(name, "the name of the stored query"))
    if record is None:
        raise NotFoundError(f"no query is stored as {name}", code="unknown-stored-query")
    return record


def _described(record: StoredQueryRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "query": record.text,
        "description": record.description,
        "created": record.created_ms,
        "results": f"{incoming.base_url()}stored-queries/{record.name}/results",
    }
