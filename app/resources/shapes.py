"""``/shapes``: SHACL shapes, which check every commit, and their reports."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from pyoxigraph import NamedNode, RdfFormat, Triple, parse, serialize

from quadrill.continuous.shapes.definition import ShapesDefinition, read_parameters, shapes_text
from quadrill.continuous.shapes.report import report_triples
from quadrill.continuous.shapes.result import Result
from quadrill.continuous.shapes.violations import PREFIXES

from ..http.answers import WholeAnswer, json_answer, no_content
from ..http.errors import HttpError
from ..http.graph_answers import graph_answer
from ..http.parameters import check_name, whole_number
from ..http.request import Request
from ..wiring import Services
from .graphs import quads_of_body
from .links import base_url

_PUT = ("mode", "data", "into", "max_time", "max_results")
_LIMIT = 10_000
_JSON = "application/json"


def list_shapes(services: Services, request: Request) -> WholeAnswer:
    """Return all shapes, oldest first."""
    request.arguments.check()
    return json_answer({"shapes": services.shapes.reports.describe_all()})


def get_shapes(services: Services, request: Request) -> WholeAnswer:
    """Return the parameters, the state, the number of results and the shapes graph of one name."""
    request.arguments.check()
    return json_answer(described(services, _name(request)))


def described(services: Services, name: str) -> dict[str, Any]:
    """Return shapes as JSON members, with the shapes graph in Turtle as ``text``. Raises: NotFoundError."""
    members = services.shapes.reports.describe(name)
    return {**members, "text": _turtle(services.shapes.reports.text(name))}


def put_shapes(services: Services, request: Request) -> WholeAnswer:
    """Create or replace shapes; the answer comes once their report is complete."""
    request.arguments.check({*_PUT, "dry_run"}, several={"data"})
    name = _name(request)
    definition = _definition(services, request)
    if request.arguments.flag("dry_run"):
        return json_answer({"change": services.shapes.compare(name, definition)})
    put = services.shapes.put(name, definition)
    headers = {"Location": f"{base_url(services, request)}shapes/{name}"} if put.created else None
    return json_answer(services.shapes.reports.describe(name), 201 if put.created else 200, headers)


def remove_shapes(services: Services, request: Request) -> WholeAnswer:
    """Remove shapes and the graph of their report."""
    request.arguments.check()
    services.shapes.delete(_name(request))
    return no_content()


def get_report(services: Services, request: Request) -> WholeAnswer:
    """Return the validation report of the newest version of the store as an RDF graph."""
    request.arguments.check({"limit"})
    limit = whole_number("limit", request.arguments.get("limit", str(_LIMIT)) or "")
    report = services.shapes.reports.report(_name(request), limit)
    return graph_answer(
        request, _triples(report.results, more=report.count > limit), PREFIXES, version=report.version
    )


def validate(services: Services, request: Request) -> WholeAnswer:
    """Return the validation report of the RDF graph in the body; the graph is not stored.

    With ``with=data``, the report has the results that an insertion of the body into the data would add.
    """
    request.arguments.check({"shapes", "with"})
    name = request.arguments.get("shapes")
    if not name:
        raise HttpError(
            400, "the parameter shapes is missing", code="parameter", hint="Name registered shapes."
        )
    base = request.arguments.get("with")
    if base not in (None, "data"):
        raise HttpError(400, f"the parameter with must be data, it is {base!r}", code="parameter")
    quads = quads_of_body(services, request, None)
    shapes = services.shapes.reports
    results = shapes.validate(name, quads) if base is None else shapes.added_by(name, quads)
    return graph_answer(request, _triples(results), PREFIXES)


def _triples(results: Iterable[Result], *, more: bool = False) -> Iterable[Triple]:
    return (Triple(*each) for each in report_triples(results, more=more))


def _turtle(text: str) -> str:
    """Return a shapes graph in Turtle; a PUT of it changes nothing."""
    written = serialize(
        (quad.triple for quad in parse(text, format=RdfFormat.N_TRIPLES)),
        format=RdfFormat.TURTLE,
        prefixes=PREFIXES,
    )
    assert written is not None
    return written.decode()


def _definition(services: Services, request: Request) -> ShapesDefinition:
    given: dict[str, Any] = {}
    for name in _PUT:
        if name in request.arguments:
            given[name] = request.arguments.all(name) if name == "data" else request.arguments.get(name)
    graph = None
    if request.media_type == _JSON:
        graph = _graph_of_shapes(request, services.settings.max_query_bytes)
        if not services.store.reader.graph_exists(graph):
            raise HttpError(404, f"there is no graph {graph}", code="no-such-graph")
        size, most = (
            services.store.reader.size_of_graph(graph.value) or 0,
            services.settings.max_request_quads,
        )
        if size > most:
            raise HttpError(
                413,
                f"the graph {graph} has {size:,} quads; shapes may have {most:,}",
                code="body-too-large",
                hint="Name a graph that has the shapes alone; the setting is max_request_quads.",
            )
        triples = sorted(
            (quad.triple for quad in services.store.reader.quads_for_pattern(graph=graph)), key=str
        )
    else:
        triples = [quad.triple for quad in quads_of_body(services, request, None)]
    if not triples:
        where = "the body" if graph is None else f"the graph {graph}"
        raise HttpError(
            400,
            f"{where} has no triples, so nothing would be checked",
            code="shapes-invalid",
            hint="Send a shapes graph; DELETE removes shapes.",
        )
    return read_parameters(given, shapes_text(triples), graph)


def _graph_of_shapes(request: Request, limit: int) -> NamedNode:
    members = request.json(limit, "the shapes")
    value = members.get("graph")
    if len(members) != 1 or not isinstance(value, str):
        raise HttpError(
            400,
            f"the body must have the member graph alone, not {json.dumps(sorted(members))}",
            code="member",
            hint='Send {"graph": IRI}, or the shapes graph itself as text/turtle or application/ld+json.',
        )
    try:
        return NamedNode(value)
    except ValueError as error:
        raise HttpError(400, f"graph: {value!r} is not an absolute IRI", code="member") from error


def _name(request: Request) -> str:
    return check_name(request.name, "the name of the shapes")
