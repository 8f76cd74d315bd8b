"""``/query``, ``/update`` and ``/sparql``: the SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/)."""

from __future__ import annotations

from pyoxigraph import serialize

from .. import description
from ..evaluation.answer import AnswerPreferences
from ..evaluation.text_check import faults_of_query, faults_of_update
from ..http import negotiation, protocol
from ..http.answers import (
    NOT_SHORT,
    Later,
    NeedsWorker,
    StreamedAnswer,
    WholeAnswer,
    commit_answer,
    json_answer,
)
from ..http.bodies import too_large
from ..http.errors import HttpError
from ..http.forms import fields_of
from ..http.protocol import QUERY, UPDATE, SparqlCall
from ..http.request import Request, decoded
from ..wiring import Services
from .links import base_url


def get_query(services: Services, request: Request) -> WholeAnswer | StreamedAnswer | NeedsWorker:
    """Answer a query by GET; without the parameter ``query``, return the service description."""
    call = SparqlCall(fields_of(request.query_string))
    if call.one("query") is None:
        if call.one("update") is not None:
            raise HttpError(405, "updates need POST", code="method-not-allowed", headers={"Allow": "POST"})
        call.check_parameters(protocol.QUERY_PARAMETERS)
        if request.lane is not None:
            return NOT_SHORT
        return service_description(services, request)
    return _query(services, request, call)


def post_query(services: Services, request: Request) -> WholeAnswer | StreamedAnswer | NeedsWorker:
    """Answer a query by POST, with a form or a direct text, or by the method QUERY."""
    return _query(services, request, _posted(services, request, QUERY))


def post_update(services: Services, request: Request) -> Later | NeedsWorker:
    """Execute an update by POST, with a form or a direct text."""
    return _update(services, request, _posted(services, request, UPDATE))


def post_sparql(services: Services, request: Request) -> WholeAnswer | StreamedAnswer | Later | NeedsWorker:
    """Execute a query or an update; the content type or the parameters decide which of both."""
    call = _posted(services, request, QUERY, UPDATE)
    if not call.is_update:
        return _query(services, request, call)
    services.security.require("write", request)
    return _update(services, request, call)


def validate_query(services: Services, request: Request) -> WholeAnswer:
    """Return the faults of a query without an evaluation."""
    settings = services.settings
    text = protocol.query_text(_posted(services, request, QUERY), settings)
    return json_answer({"faults": faults_of_query(text, settings.base_iri)})


def validate_update(services: Services, request: Request) -> WholeAnswer:
    """Return the faults of an update without its execution."""
    settings = services.settings
    text = protocol.update_text(_posted(services, request, UPDATE), settings)
    if len(text) > settings.max_query_bytes:
        raise too_large("the update", settings.max_query_bytes, len(text))
    return json_answer({"faults": faults_of_update(text, settings.base_iri, services.store)})


def service_description(services: Services, request: Request) -> WholeAnswer:
    """Return the SPARQL service description as RDF, in the format that the client prefers."""
    chosen = negotiation.choose(request.accept, negotiation.GRAPH_OFFERS)
    assert chosen.rdf is not None
    settings = services.settings
    path = decoded(request.path)
    path = "/query" if path == "/" else path
    triples = description.describe(
        base_url(services, request).rstrip("/") + path,
        services.store.reader.graph_counts(),
        updates=not settings.read_only,
        federated=bool(settings.remote_hosts),
    )
    body = serialize(triples, format=chosen.rdf, prefixes=description.PREFIXES)
    return WholeAnswer(200, {"Content-Type": chosen.header, "Vary": "Accept"}, body)


def _query(
    services: Services, request: Request, call: SparqlCall
) -> WholeAnswer | StreamedAnswer | NeedsWorker:
    endpoint = services.endpoint
    found = endpoint.look_up_answer(call, request.accept)
    if found is not None:
        return found
    asked = endpoint.asked(call)
    if asked.heavy and request.lane is not None:
        return NOT_SHORT
    client = AnswerPreferences(request.accept, request.head_only)
    return endpoint.answer(asked, client, request.user, request.lane)


def _update(services: Services, request: Request, call: SparqlCall) -> Later | NeedsWorker:
    endpoint = services.endpoint
    if request.lane is not None and not endpoint.is_short_update(call):
        return NOT_SHORT
    services.engine.require_room()
    commit = endpoint.register_update(call, request.user, request.lane)
    return Later(lambda: commit_answer(request, commit()))


def _posted(services: Services, request: Request, *direct_types: str) -> SparqlCall:
    return protocol.posted(direct_types, request, services.settings)
