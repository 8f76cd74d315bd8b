"""``/query``, ``/update`` and ``/sparql``: the SPARQL 1.1 Protocol (https://www.w3.org/TR/sparql11-protocol/)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from flask import Blueprint, Response, g, request
from pyoxigraph import NamedNode, serialize

from quadrill.store.query_worker import WorkerRequest

from .. import description, lanes, negotiation
from ..codecs import Transcoder, transcoded
from ..columns import with_ordered_columns
from ..errors import HttpError
from ..extensions import extended
from ..processes import Process
from ..security import needs
from ..streaming import Body, Limits, Sink, StreamedAnswer
from . import requests as incoming
from .requests import services

blueprint = Blueprint("sparql", __name__)

FORM = "application/x-www-form-urlencoded"
QUERY = "application/sparql-query"
UPDATE = "application/sparql-update"
_MAX_FIELDS = 10_000


@dataclass(frozen=True, slots=True)
class Call:
    """A protocol request: its parameters in order, and the text that a direct POST carries as its body."""

    fields: tuple[tuple[str, str], ...]
    direct: str | None = None

    def values(self, name: str) -> list[str]:
        """Every value of a parameter."""
        return [value for key, value in self.fields if key == name]

    def one(self, name: str) -> str | None:
        """The parameter that may be given once.

        Raises: HttpError 400 when it is given several times.
        """
        found = self.values(name)
        if len(found) > 1:
            raise HttpError(400, f"the parameter {name} is given {len(found)} times", code="parameter")
        return found[0] if found else None

    def graphs(self, name: str) -> list[NamedNode] | None:
        """A parameter that lists graphs; None when it is not given."""
        found = self.values(name)
        return [graph_iri(value, name) for value in found] if found else None


@blueprint.get("/query")
@blueprint.get("/sparql")
def get_query() -> Response:
    """A query by GET; without a query the service description."""
    call = Call(fields_of(request.query_string))
    if call.one("query") is None:
        if call.one("update") is not None:
            raise HttpError(405, "updates need POST", code="method-not-allowed", headers={"Allow": "POST"})
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
    if call.values("update") or (call.direct is not None and request.mimetype == UPDATE):
        services().security.authorise("write", request)
        return _update(call)
    return _query(call)


def service_description() -> Response:
    """What this service is, as RDF in the format that the client likes."""
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


def graph_iri(text: str, parameter: str) -> NamedNode:
    """An absolute IRI given as a parameter.

    Raises: HttpError 400 when it is not one.
    """
    try:
        return NamedNode(text)
    except ValueError as error:
        raise HttpError(
            400, f"the parameter {parameter} is not an absolute IRI: {text!r}", code="parameter"
        ) from error


def _query(call: Call) -> Response:
    return answer_query(call, _text(call, "query", "the query", services().settings.max_query_bytes))


def answer_query(call: Call, text: str) -> Response:
    """Evaluate a query within the dataset and the time that the call's parameters name."""
    seconds = _seconds(call.one("timeout"))
    default_graphs, named_graphs = call.graphs("default-graph-uri"), call.graphs("named-graph-uri")
    union = call.one("union-default-graph") is not None
    if union and default_graphs:
        raise HttpError(
            400,
            "union-default-graph and default-graph-uri cannot both say what the default graph is",
            code="parameter",
        )
    accept = request.headers.get("Accept")
    settings, store, workers = services().settings, services().store, services().workers
    asked = extended(text, settings.base_iri)
    process = services().processes.begin("query", text, _user())
    quads = services().quads()
    heavy = text in services().slow_texts or not lanes.is_light(text, quads)
    if heavy and asked.plain and workers.takes(quads):
        wanted = WorkerRequest(
            copy="",
            version=0,
            text=text,
            results_format=_format_name(accept, negotiation.RESULT_OFFERS),
            graph_format=_format_name(accept, negotiation.ALL_GRAPH_OFFERS),
            base_iri=settings.base_iri,
            default_graphs=_names(default_graphs),
            named_graphs=_names(named_graphs),
            union=union,
            hosts=settings.remote_hosts,
            prefixes=dict(services().prefixes.all()),
        )
        return _in_worker(wanted, seconds, process, accept)

    def body(sink: Transcoder) -> None:
        with store.query(
            with_ordered_columns(asked.text),
            base_iri=settings.base_iri,
            default_graphs=default_graphs,
            named_graphs=named_graphs,
            union=union,
            custom_functions=asked.functions,
            custom_aggregates=asked.aggregates,
        ) as result:
            graph = result.kind == "graph"
            chosen = negotiation.choose(
                accept, negotiation.ALL_GRAPH_OFFERS if graph else negotiation.RESULT_OFFERS
            )
            answer.headers["Content-Type"] = chosen.header
            answer.headers["ETag"] = f'"{result.version}"'
            sink.begin(chosen)
            format_ = chosen.rdf if graph else chosen.results
            assert format_ is not None
            prefixes = negotiation.prefixes_for(chosen, services().prefixes.all())
            result.serialize_to(sink, format_, prefixes=prefixes)  # type: ignore[arg-type]  # it only calls write

    slow_texts = services().slow_texts

    def timed(sink: Sink) -> None:
        started = time.monotonic()
        try:
            transcoded(body)(sink)
        finally:
            slow_texts.ended(text, time.monotonic() - started)

    answer = streamed(timed, seconds, process)
    return answer


def _in_worker(wanted: WorkerRequest, seconds: float, process: Process, accept: str | None) -> Response:
    """The answer of a query that may be heavy: a worker process evaluates it and can be killed."""
    workers = services().workers

    def body(sink: Transcoder) -> None:
        def begin(head: dict[str, Any]) -> None:
            graph = head["kind"] == "graph"
            chosen = negotiation.choose(
                accept, negotiation.ALL_GRAPH_OFFERS if graph else negotiation.RESULT_OFFERS
            )
            answer.headers["Content-Type"] = chosen.header
            answer.headers["ETag"] = f'"{head["version"]}"'
            sink.begin(chosen)

        workers.run(wanted, sink, begin, process, seconds)

    answer = streamed(transcoded(body), seconds, process)
    return answer


def streamed(body: Body, seconds: float, process: Process) -> StreamedAnswer:
    """An answer of any size for the present request; ``process`` ends with it."""
    settings = services().settings
    answer = StreamedAnswer(
        body,
        content_type="application/sparql-results+json",
        limits=Limits(seconds, settings.max_result_bytes, settings.max_result_rows),
        compress=settings.gzip and negotiation.accepts_gzip(request.headers.get("Accept-Encoding")),
        head_only=request.method == "HEAD",
        cancelled=process.cancelled,
        finished=partial(services().processes.end, process),
    )
    answer.vary.update(("Accept", "Accept-Encoding"))
    return answer


def _update(call: Call) -> Response:
    settings = services().settings
    services().engine.require_room()
    text = _text(call, "update", "the update", settings.max_body_bytes)
    process = services().processes.begin("update", text, _user())
    try:
        commit = services().store.update(
            text,
            base_iri=settings.base_iri,
            using_graphs=call.graphs("using-graph-uri"),
            using_named_graphs=call.graphs("using-named-graph-uri"),
            cause="update",
        )
    finally:
        services().processes.end(process)
    response = Response(status=204)
    response.headers["ETag"] = f'"{commit.version}"'
    return response


def _posted(*direct_types: str) -> Call:
    """The request of a POST: form fields, or the body itself for the direct types."""
    settings = services().settings
    media = negotiation.content_media_type(request.headers.get("Content-Type"))
    fields = fields_of(request.query_string)
    limit = settings.max_body_bytes if UPDATE in direct_types else settings.max_query_bytes * 4
    if media.essence in direct_types:
        if request.method == "QUERY" and media.essence != QUERY:
            raise HttpError(400, "the method QUERY only reads: it cannot carry an update", code="method")
        return Call(fields, incoming.body_text(limit, "the text"))
    if media.essence == FORM and request.method == "POST":
        return Call((*fields, *fields_of(incoming.body_bytes(limit, "the form"))))
    raise HttpError(
        415,
        f"a text cannot be read from {media.essence}",
        code="unsupported-media-type",
        hint=f"Send it as {' or '.join(direct_types)}, or as a form of type {FORM}.",
    )


def _text(call: Call, parameter: str, what: str, limit: int) -> str:
    given = call.one(parameter)
    if given is not None and call.direct is not None:
        raise HttpError(400, f"{what} is given twice, as the body and as a parameter", code="parameter")
    other = "update" if parameter == "query" else "query"
    if call.values(other):
        raise HttpError(
            400, f"the request has the parameter {other}, which is not for this operation", code="parameter"
        )
    text = call.direct if given is None else given
    if text is None:
        raise HttpError(400, f"{what} is missing", code="parameter", hint=f"Give the parameter {parameter}.")
    if len(text) > limit:
        raise incoming.too_large(what, limit, len(text))
    return text


def fields_of(data: bytes) -> tuple[tuple[str, str], ...]:
    """Fields of a query string or a form, percent-decoded once.

    Raises: HttpError 400 when they are not UTF-8 or too many.
    """
    try:
        text = data.decode("ascii") if data.isascii() else data.decode("utf-8")
        return tuple(parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=_MAX_FIELDS))
    except UnicodeDecodeError as error:
        raise HttpError(400, "the parameters are not UTF-8", code="not-utf-8") from error
    except ValueError as error:
        raise HttpError(
            400, f"the request has more than {_MAX_FIELDS} parameters", code="parameter"
        ) from error


def _seconds(text: str | None) -> float:
    """The time that the evaluation may take: what is asked for, never more than the setting."""
    most = services().settings.query_timeout
    if text is None:
        return most
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise HttpError(
            400, f"the parameter timeout must be a number of seconds, it is {text!r}", code="parameter"
        )
    return min(seconds, most)


def _format_name(accept: str | None, offers: Sequence[negotiation.Offer]) -> str | None:
    found = negotiation.best_offer(accept, offers)
    if found is None:
        return None
    return found.name if found.codec is None else negotiation.N_QUADS.name


def _names(graphs: Sequence[NamedNode] | None) -> tuple[str, ...] | None:
    return None if graphs is None else tuple(graph.value for graph in graphs)


def _user() -> str:
    identity = g.get("identity")
    return identity.label if identity is not None else ""
