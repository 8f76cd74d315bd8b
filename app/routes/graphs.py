"""``/store``: the Graph Store HTTP Protocol (https://www.w3.org/TR/sparql11-http-rdf-update/).

/store?graph=IRI   indirect: that graph            /store?default   the default graph
/store/PATH        direct: the graph whose IRI is the address itself
/store             the whole dataset; POST of a graph makes a new one and tells its Location
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from flask import Blueprint, Response, request
from pyoxigraph import DefaultGraph, NamedNode, Quad

from quadrill.store.changes.commit import Commit
from quadrill.store.documents.serialising import PlainStringWriter
from quadrill.store.errors import NotFoundError
from quadrill.store.formats import RdfType, guess_rdf_format, parse_rdf

from ..evaluation.transcoder import Transcoder, transcoded
from ..http import codecs, negotiation
from ..http.bodies import too_large
from ..http.errors import HttpError
from ..http.protocol import fields_of, graph_iri
from . import preconditions
from . import requests as incoming
from .requests import services
from .streamed_answer import StreamedAnswer

blueprint = Blueprint("graphs", __name__)

GraphName: TypeAlias = "NamedNode | DefaultGraph"
_MULTIPART = "multipart/form-data"
_PARAMETERS = frozenset({"graph", "default"})


@blueprint.get("/store")
@blueprint.get("/store/<path:path>")
def get_graph(path: str = "") -> Response:
    """A graph, or the dataset."""
    target = _target(path)
    store, settings = services().store, services().settings
    if isinstance(target, NamedNode) and not store.graph_exists(target):
        raise _no_graph(target)
    offers = negotiation.dataset_offers() if target is None else negotiation.graph_offers()
    chosen = negotiation.choose(request.headers.get("Accept"), offers)
    preconditions.check_reading(store.version)
    if preconditions.is_known(store.version):
        return Response(status=304)

    def body(sink: Transcoder) -> None:
        def started(version: int) -> None:
            answer.headers["ETag"] = f'"{version}"'

        assert chosen.rdf is not None
        sink.begin(chosen)
        prefixes = negotiation.prefixes_for(chosen, services().prefixes.all())
        writer = PlainStringWriter(sink, chosen.rdf, prefixes)
        store.dump(
            writer,  # type: ignore[arg-type]  # it only calls write
            chosen.rdf,
            graph=target,
            started=started,
            prefixes=prefixes,
        )
        writer.finish()

    endpoint, client = services().endpoint, incoming.client()
    process = endpoint.processes.begin("dump", str(target or "dataset"), incoming.user())
    answer = endpoint.stream(transcoded(body), settings.query_timeout, process, client)
    answer.headers["Content-Type"] = chosen.header
    return StreamedAnswer(answer)


@blueprint.put("/store")
@blueprint.put("/store/<path:path>")
def put_graph(path: str = "") -> Response:
    """Replace a graph, or the dataset."""
    target = _target(path)
    store = services().store
    if target is None:
        commit = _commit(lambda expected: store.replace_dataset(_quads(None), expected=expected))
        return _done(commit, created=False)
    graph: GraphName = target
    quads = list(_quads(graph))
    commit = _commit(lambda expected: store.put_graph(graph, quads, expected=expected), graph)
    return _done(commit, created=graph in commit.created)


@blueprint.post("/store")
@blueprint.post("/store/<path:path>")
def post_graph(path: str = "") -> Response:
    """Add to a graph, or to the dataset; a graph without a name gets one."""
    target = _target(path)
    store = services().store
    if target is None and _is_dataset(request.mimetype):
        return _done(_commit(lambda expected: store.apply(add=_quads(None), cause="post", expected=expected)))
    location = None
    if target is None:
        location = f"{incoming.base_url()}store/{secrets.token_hex(16)}"
        target = NamedNode(location)
    graph: GraphName = target
    quads = list(_quads(graph))
    commit = _commit(lambda expected: store.post_graph(graph, quads, expected=expected), graph)
    return _done(commit, created=graph in commit.created, location=location)


@blueprint.delete("/store")
@blueprint.delete("/store/<path:path>")
def delete_graph(path: str = "") -> Response:
    """Drop a graph, or empty the dataset."""
    target = _target(path)
    store = services().store
    if target is None:
        return _done(_commit(lambda expected: store.clear(expected=expected)))
    graph: GraphName = target
    try:
        return _done(_commit(lambda expected: store.delete_graph(graph, expected=expected), graph))
    except NotFoundError as error:
        raise _no_graph(graph) from error


def _target(path: str) -> GraphName | None:
    """The graph that the request is about; None for the whole dataset.

    Raises: HttpError 400 when it names several.
    """
    fields = fields_of(request.query_string)
    incoming.known_parameters(_PARAMETERS, [name for name, _value in fields])
    graphs = [value for name, value in fields if name == "graph"]
    default = any(name == "default" for name, _ in fields)
    if len(graphs) + default + bool(path) > 1:
        raise HttpError(400, "the request names more than one graph", code="parameter")
    if graphs:
        return graph_iri(graphs[0], "graph")
    if default:
        return DefaultGraph()
    if not path:
        return None
    # The address as it was sent: a graph's name is compared character by character, so nothing is decoded.
    raw = str(request.environ.get("RAW_URI") or request.full_path).partition("?")[0]
    return graph_iri(incoming.base_url() + raw.lstrip("/"), "path")


def _commit(write: Callable[[int | None], Commit], graph: GraphName | None = None) -> Commit:
    """Write under the request's preconditions; ``graph`` is what ``If-None-Match: *`` asks about."""
    services().engine.require_room()
    store = services().store
    exists = graph is None or store.graph_exists(graph)
    return write(preconditions.expected_version(store.version, exists))


def _done(commit: Commit, *, created: bool = False, location: str | None = None) -> Response:
    response = incoming.commit_response(commit, 201 if created or location else 204)
    if location is not None:
        response.headers["Location"] = location
    elif created:
        response.headers["Location"] = request.url
    return response


@dataclass(frozen=True, slots=True)
class _Document:
    """RDF as it came: the body, or one file of a form."""

    body: bytes
    kind: RdfType


def _quads(graph: GraphName | None) -> Iterator[Quad]:
    """The quads of the request's body, in ``graph`` when it is given.

    Raises:
        HttpError: 400 when a document for one graph has others; 413, 415.
        RdfSyntaxError: malformed, with its place.
    """
    settings = services().settings
    base = graph.value if isinstance(graph, NamedNode) else settings.base_iri
    left = settings.max_request_quads
    for document in _documents():
        for quad in parse_rdf(document.body, document.kind, base_iri=base):
            left -= 1
            if left < 0:
                raise HttpError(
                    413,
                    f"a request may send {settings.max_request_quads:,} quads, this one has more",
                    code="body-too-large",
                    hint="Send several, or load a file with quadrill load; the setting is max_request_quads.",
                )
            if graph is None or quad.graph_name == graph:
                yield quad
            elif isinstance(quad.graph_name, DefaultGraph):
                yield Quad(quad.subject, quad.predicate, quad.object, graph)
            else:
                raise HttpError(
                    400,
                    f"the body has quads of {quad.graph_name}, the request is about {graph}",
                    code="wrong-graph",
                    hint="Send datasets to /store without a graph.",
                )


def _documents() -> Iterator[_Document]:
    limit = services().settings.max_body_bytes
    if request.mimetype != _MULTIPART:
        yield _document(request.headers.get("Content-Type"), lambda: incoming.body_bytes(limit))
        return
    length = request.content_length
    if length is not None and length > limit:
        raise too_large("the form", limit, length)
    files = [file for _name, file in request.files.items(multi=True)]
    if not files:
        raise HttpError(400, "the form has no file", code="bad-request")
    for file in files:
        named = guess_rdf_format(file.filename or "")
        is_told = bool(file.mimetype) and file.mimetype != "application/octet-stream"
        yield _Document(
            file.read(), negotiation.rdf_type(file.content_type) if is_told or named is None else named
        )


def _document(content_type: str | None, read: Callable[[], bytes]) -> _Document:
    """The body with its format; what Oxigraph does not read as N-Quads."""
    codec = codecs.READABLE.get(negotiation.content_media_type(content_type).essence)
    if codec is None:
        kind = negotiation.rdf_type(content_type)
        return _Document(read(), kind)
    return _Document(codecs.read(read(), codec), negotiation.rdf_type(negotiation.N_QUADS.media_type))


def _is_dataset(media_type: str) -> bool:
    return media_type in {offer.media_type for offer in negotiation.dataset_offers()}


def _no_graph(graph: GraphName) -> HttpError:
    return HttpError(404, f"there is no graph {graph}", code="no-such-graph")
