"""``/query``, ``/update`` and ``/sparql``: the SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/)."""

from __future__ import annotations

from flask import Blueprint, Response, request
from pyoxigraph import serialize

from .. import description
from ..evaluation.text_check import faults_of_query, faults_of_update
from ..http import negotiation, protocol
from ..http.bodies import too_large
from ..http.errors import HttpError
from ..http.protocol import QUERY, UPDATE, SparqlCall, fields_of
from ..security import needs
from . import requests as incoming
from .requests import services
from .streamed_answer import StreamedAnswer

blueprint = Blueprint("sparql", __name__)


@blueprint.get("/query")
@blueprint.get("/sparql")
def get_query() -> Response:
    """A query by GET; without a query the service description."""
    call = SparqlCall(fields_of(request.query_string))
    if call.one("query") is None:
        if call.one("update") is not None:
            raise HttpError(405, "updates need POST", code="method-not-allowed", headers={"Allow": "POST"})
        call.check_parameters(protocol.QUERY_PARAMETERS)
        return service_description()
    return _query(call)


@blueprint.route("/query", methods=["POST", "QUERY"])
@needs("read")
def post_query() -> Response:
    """A query by POST, form or direct, or by the method QUERY."""
    return _query(_posted(QUERY))


@blueprint.post("/update")
@needs("write")
def post_update() -> Response:
    """An update by POST, form or direct."""
    return _update(_posted(UPDATE))


@blueprint.route("/sparql", methods=["POST", "QUERY"])
@needs("read")
def post_sparql() -> Response:
    """A query or an update, by content type or by parameter."""
    call = _posted(QUERY, UPDATE)
    if call.is_update:
        services().security.authorise("write", request, "", again=True)
        return _update(call)
    return _query(call)


@blueprint.post("/query:validate")
@needs("read")
def validate_query() -> Response:
    """The faults of a query, which is not evaluated."""
    settings = services().settings
    text = protocol.query_text(_posted(QUERY), settings)
    return incoming.json_response({"faults": faults_of_query(text, settings.base_iri)})


@blueprint.post("/update:validate")
@needs("read")
def validate_update() -> Response:
    """The faults of an update, which is not evaluated."""
    settings = services().settings
    text = protocol.update_text(_posted(UPDATE), settings)
    if len(text) > settings.max_query_bytes:
        raise too_large("the update", settings.max_query_bytes, len(text))
    return incoming.json_response({"faults": faults_of_update(text, settings.base_iri, services().store)})


def service_description() -> Response:
    """The description of this service as RDF, in the format that the client likes."""
    chosen = negotiation.choose(request.headers.get("Accept"), negotiation.GRAPH_OFFERS)
    assert chosen.rdf is not None
    settings = services().settings
    path = request.path if request.path != "/" else "/query"
    triples = description.describe(
        incoming.base_url().rstrip("/") + path,
        services().store.graph_counts(),
        updates=not settings.read_only,
        federated=bool(settings.remote_hosts),
    )
    body = serialize(triples, format=chosen.rdf, prefixes=description.PREFIXES)
    response = Response(body, content_type=chosen.header)
    response.vary.add("Accept")
    return response


def _query(call: SparqlCall) -> Response:
    return StreamedAnswer(
        services().endpoint.answer(services().endpoint.asked(call), incoming.client(), incoming.user())
    )


def _update(call: SparqlCall) -> Response:
    services().engine.require_room()
    commit = services().endpoint.update(call, incoming.user())
    return incoming.commit_response(commit, 204)


def _posted(*direct_types: str) -> SparqlCall:
    return protocol.posted(
        direct_types,
        method=request.method,
        content_type=request.headers.get("Content-Type"),
        query_string=request.query_string,
        read=incoming.body_bytes,
        settings=services().settings,
    )
