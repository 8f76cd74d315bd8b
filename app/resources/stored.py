"""``/stored-queries``: store, list and run SPARQL queries under a name."""

from __future__ import annotations

import time
from typing import Any

from pyoxigraph import Store

from quadrill.store.errors import NotFoundError
from quadrill.store.registry import StoredQueryRecord
from quadrill.store.sparql.guard import TextLimits
from quadrill.store.sparql.query import Querier, QueryRequest

from ..evaluation.answer import AnswerPreferences
from ..evaluation.extensions import extended
from ..http import negotiation
from ..http.answers import StreamedAnswer, WholeAnswer, json_answer, no_content
from ..http.bodies import too_large
from ..http.errors import HttpError
from ..http.forms import fields_of
from ..http.parameters import check_known, check_name
from ..http.protocol import QUERY, SparqlCall
from ..http.request import Request
from ..wiring import Services
from .links import base_url

_TEXT_TYPES = ("text/plain", QUERY)
_RUN_PARAMETERS = {"default-graph-uri", "named-graph-uri", "union-default-graph", "entailment", "timeout"}


def list_stored(services: Services, request: Request) -> WholeAnswer:
    """Return all stored queries, ordered by name."""
    request.arguments.check()
    return json_answer(
        {
            "queries": [
                _described(services, request, record) for record in services.registry.stored_queries.all()
            ]
        }
    )


def get_stored(services: Services, request: Request) -> WholeAnswer:
    """Return one stored query."""
    request.arguments.check()
    return json_answer(_described(services, request, _found(services, request)))


def put_stored(services: Services, request: Request) -> WholeAnswer:
    """Store a query under a name and replace an older one; the body is a text, or JSON with a description."""
    request.arguments.check()
    name = check_name(request.name, "the name of the stored query")
    text, description = _given(services, request)
    settings, store = services.settings, services.store
    if len(text) > settings.max_query_bytes:
        raise too_large("the query", settings.max_query_bytes, len(text))
    # The query is evaluated on an empty store, so that a wrong text is reported before it is stored.
    checker = Querier(Store(), TextLimits(height=settings.max_nesting), store.allowed_hosts)
    asked = extended(text, settings.base_iri)
    wanted = QueryRequest(
        asked.text,
        settings.base_iri,
        custom_functions=asked.functions,
        custom_aggregates=asked.aggregates,
    )
    checker.evaluate(wanted, 0).close()
    created = services.registry.stored_queries.get(name) is None
    record = StoredQueryRecord(name, text, description, time.time_ns() // 1_000_000)
    services.registry.stored_queries.put(record)
    headers = {"Location": f"{base_url(services, request)}stored-queries/{name}"} if created else None
    return json_answer(_described(services, request, record), 201 if created else 200, headers)


def remove_stored(services: Services, request: Request) -> WholeAnswer:
    """Delete a stored query."""
    services.registry.stored_queries.remove(check_name(request.name, "the name of the stored query"))
    return no_content()


def run_stored(services: Services, request: Request) -> StreamedAnswer:
    """Run a stored query; the dataset parameters and ``timeout`` are the same as for ``/query``."""
    fields = fields_of(request.query_string)
    check_known(_RUN_PARAMETERS, [name for name, _value in fields])
    call, text = SparqlCall(fields), _found(services, request).text
    endpoint, client = services.endpoint, AnswerPreferences(request.accept, request.head_only)
    return endpoint.answer(endpoint.asked(call, text), client, request.user)


def _given(services: Services, request: Request) -> tuple[str, str]:
    limit = services.settings.max_query_bytes
    media = negotiation.content_media_type(request.headers.get("Content-Type"))
    if media.essence in _TEXT_TYPES:
        return request.text(limit, "the query"), ""
    if media.essence != "application/json":
        raise HttpError(
            415,
            f"a query cannot be read from {media.essence}",
            code="unsupported-media-type",
            hint=f"Send it as {' or '.join(_TEXT_TYPES)}, or as a member of a JSON object.",
        )
    members = request.json(limit * 2, "the stored query")
    unknown = sorted(set(members) - {"query", "description"})
    if unknown:
        raise HttpError(400, f"the stored query has an unknown member {unknown[0]}", code="member")
    text, description = members.get("query"), members.get("description", "")
    if not isinstance(text, str) or not isinstance(description, str):
        raise HttpError(400, "query and description must be texts", code="member")
    return text, description


def _found(services: Services, request: Request) -> StoredQueryRecord:
    name = check_name(request.name, "the name of the stored query")
    record = services.registry.stored_queries.get(name)
    if record is None:
        raise NotFoundError(f"no query is stored as {name}", code="unknown-stored-query")
    return record


def _described(services: Services, request: Request, record: StoredQueryRecord) -> dict[str, Any]:
    return {
        "name": record.name,
        "query": record.text,
        "description": record.description,
        "created": record.created_ms,
        "results": f"{base_url(services, request)}stored-queries/{record.name}/results",
    }
