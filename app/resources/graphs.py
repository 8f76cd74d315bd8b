"""``/store``: the Graph Store HTTP Protocol (https://www.w3.org/TR/sparql11-http-rdf-update/).

/store?graph=IRI   indirect identification: the graph IRI
/store?default     the default graph
/store/PATH        direct identification: the graph whose IRI is the address itself
/store             the whole dataset; POST of a graph makes a new graph and returns its Location
"""

from __future__ import annotations

import contextlib
import io
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import IO, Any, TypeAlias

from pyoxigraph import DefaultGraph, NamedNode, Quad
from werkzeug.datastructures import FileStorage, MultiDict
from werkzeug.formparser import FormDataParser
from werkzeug.http import parse_options_header

from quadrill.store.changes.commit import Commit
from quadrill.store.documents.serialising import PlainStringWriter
from quadrill.store.errors import NotFoundError
from quadrill.store.formats import RdfType, guess_rdf_format, parse_rdf

from ..evaluation.answer import AnswerPreferences
from ..evaluation.transcoder import Transcoder, transcoded
from ..http import codecs, negotiation
from ..http.answers import StreamedAnswer, WholeAnswer, commit_answer
from ..http.bodies import check_announced, too_large
from ..http.errors import HttpError
from ..http.fields import LargeBody
from ..http.forms import fields_of
from ..http.parameters import check_known
from ..http.protocol import graph_iri
from ..http.request import Request
from ..wiring import Services
from . import preconditions
from .links import base_url, own_url

GraphName: TypeAlias = "NamedNode | DefaultGraph"
_MULTIPART = "multipart/form-data"
_PARAMETERS = frozenset({"graph", "default"})


def get_graph(services: Services, request: Request) -> WholeAnswer | StreamedAnswer:
    """Return a graph, or the whole dataset, as an RDF document.

    The whole dataset is without the graphs of rule sets, unless ``?inferred=true``.
    """
    target = _target(services, request, _PARAMETERS | {"inferred"})
    store, settings = services.store, services.settings
    inferred = request.arguments.flag("inferred")
    if isinstance(target, NamedNode) and not store.reader.graph_exists(target):
        raise _no_graph(target)
    offers = negotiation.dataset_offers() if target is None else negotiation.graph_offers()
    chosen = negotiation.choose(request.accept, offers)
    preconditions.check_reading(request, store.reader.version)
    if preconditions.is_known(request, store.reader.version):
        return WholeAnswer(304)

    def body(sink: Transcoder) -> None:
        def started(version: int) -> None:
            answer.version = version

        assert chosen.rdf is not None
        sink.begin(chosen)
        prefixes = negotiation.prefixes_for(chosen, services.prefixes.all())
        writer = PlainStringWriter(sink, chosen.rdf, prefixes)
        store.reader.dump(
            writer,  # type: ignore[arg-type]  # it only calls write
            chosen.rdf,
            graph=target,
            without=frozenset() if inferred else store.queue.derived_graphs(),
            started=started,
            prefixes=prefixes,
        )
        writer.finish()

    endpoint, client = services.endpoint, AnswerPreferences(request.accept, request.head_only)
    process = endpoint.processes.begin("dump", str(target or "dataset"), request.user)
    answer = endpoint.stream(transcoded(body), settings.query_timeout, process, client)
    answer.headers["Content-Type"] = chosen.header
    return answer


def put_graph(services: Services, request: Request) -> WholeAnswer:
    """Replace a graph, or the whole dataset, by the quads of the body."""
    target = _target(services, request)
    store = services.store
    if target is None:
        commit = _commit(
            services,
            request,
            lambda expected: store.writer.replace_dataset(
                quads_of_body(services, request, None), expected=expected
            ),
        )
        return _done(services, request, commit, created=False)
    graph: GraphName = target
    quads = list(quads_of_body(services, request, graph))
    commit = _commit(
        services, request, lambda expected: store.writer.put_graph(graph, quads, expected=expected), graph
    )
    return _done(services, request, commit, created=graph in commit.created)


def post_graph(services: Services, request: Request) -> WholeAnswer:
    """Add the quads of the body to a graph, to a new graph, or to the whole dataset."""
    target = _target(services, request)
    store = services.store
    if target is None and _is_dataset(request.media_type):
        return _done(
            services,
            request,
            _commit(
                services,
                request,
                lambda expected: store.writer.apply(
                    add=quads_of_body(services, request, None), cause="post", expected=expected, timed=False
                ),
            ),
        )
    location = None
    if target is None:
        location = f"{base_url(services, request)}store/{secrets.token_hex(16)}"
        target = NamedNode(location)
    graph: GraphName = target
    quads = list(quads_of_body(services, request, graph))
    commit = _commit(
        services, request, lambda expected: store.writer.post_graph(graph, quads, expected=expected), graph
    )
    return _done(services, request, commit, created=graph in commit.created, location=location)


def delete_graph(services: Services, request: Request) -> WholeAnswer:
    """Drop a graph, or delete all quads of the dataset."""
    target = _target(services, request)
    store = services.store
    if target is None:
        clear = partial(store.writer.replace_dataset, (), cause="delete")
        return _done(services, request, _commit(services, request, lambda expected: clear(expected=expected)))
    graph: GraphName = target
    try:
        return _done(
            services,
            request,
            _commit(
                services, request, lambda expected: store.writer.delete_graph(graph, expected=expected), graph
            ),
        )
    except NotFoundError as error:
        raise _no_graph(graph) from error


def _target(
    services: Services, request: Request, parameters: frozenset[str] = _PARAMETERS
) -> GraphName | None:
    """Return the graph that the request names; None for the whole dataset.

    Raises: HttpError 400 when the request names several graphs, or has an unknown parameter.
    """
    fields, path = fields_of(request.query_string), request.names.get("path")
    check_known(parameters, [name for name, _value in fields])
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
    # The URL that names a graph is not percent-decoded, because graph names are compared character by
    # character.
    return graph_iri(base_url(services, request) + request.path.lstrip("/"), "path")


def _commit(
    services: Services,
    request: Request,
    write: Callable[[int | None], Commit],
    graph: GraphName | None = None,
) -> Commit:
    """Check a request's preconditions and write; ``If-None-Match: *`` tests whether ``graph`` exists."""
    services.engine.require_room()
    store = services.store
    exists = graph is None or store.reader.graph_exists(graph)
    return write(preconditions.expected_version(request, store.reader.version, exists))


def _done(
    services: Services,
    request: Request,
    commit: Commit,
    *,
    created: bool = False,
    location: str | None = None,
) -> WholeAnswer:
    answer = commit_answer(request, commit, 201 if created or location else 204)
    if location is not None or created:
        answer.headers["Location"] = location or own_url(services, request)
    return answer


@dataclass(frozen=True, slots=True)
class _Document:
    """An unparsed RDF document: the request body, or one file of a form."""

    body: bytes
    kind: RdfType


def quads_of_body(services: Services, request: Request, graph: GraphName | None) -> Iterator[Quad]:
    """Parse the quads of the request body; if ``graph`` is given, put default-graph quads into ``graph``.

    Raises:
        HttpError: 400 when the body has quads of a graph other than ``graph``; 413, 415.
        RdfSyntaxError: the RDF document is malformed; the error has the line and column.
    """
    settings = services.settings
    base = graph.value if isinstance(graph, NamedNode) else settings.base_iri
    left = settings.max_request_quads
    for document in _documents(request, settings.max_body_bytes):
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


def _documents(request: Request, limit: int) -> Iterator[_Document]:
    if request.media_type != _MULTIPART:
        yield _document(request.headers.get("Content-Type"), lambda: request.read(limit))
        return
    files = [file for _name, file in _files(request, limit).items(multi=True)]
    if not files:
        raise HttpError(400, "the form has no file", code="bad-request")
    for file in files:
        named = guess_rdf_format(file.filename or "")
        has_type = bool(file.mimetype) and file.mimetype != "application/octet-stream"
        with contextlib.closing(file):
            body = file.read()
        yield _Document(body, negotiation.rdf_type(file.content_type) if has_type or named is None else named)


def _files(request: Request, limit: int) -> MultiDict[str, FileStorage]:
    """Parse the files of a multipart form; large files are stored in temporary files."""
    limit = check_announced(request, limit, "the form")
    content_type, options = parse_options_header(request.headers.get("Content-Type"))
    source: IO[bytes] = io.BytesIO(request.body)
    if request.stream is not None:
        source = io.BufferedReader(_BoundedBody(request.stream, limit))
    _, _, files = FormDataParser().parse(source, content_type, None, options)
    return files


class _BoundedBody(io.RawIOBase):
    """A readable stream over a request body with a maximum size."""

    def __init__(self, body: LargeBody, most: int) -> None:
        super().__init__()
        self._body = body
        self._most = self._left = most

    def readable(self) -> bool:
        """Return True, because the body of a request is always readable."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read bytes of the request body into ``buffer``. Raises: HttpError 413 beyond the limit."""
        piece = self._body.read(len(buffer)) or b""
        self._left -= len(piece)
        if self._left < 0:
            raise too_large("the form", self._most, None)
        buffer[: len(piece)] = piece
        return len(piece)


def _document(content_type: str | None, read: Callable[[], bytes]) -> _Document:
    """Return an RDF document with its format; TriX and HexTuples are converted to N-Quads."""
    codec = codecs.READABLE.get(negotiation.content_media_type(content_type).essence)
    if codec is None:
        kind = negotiation.rdf_type(content_type)
        return _Document(read(), kind)
    return _Document(codecs.read(read(), codec), negotiation.rdf_type(negotiation.N_QUADS.media_type))


def _is_dataset(media_type: str) -> bool:
    return media_type in {offer.media_type for offer in negotiation.dataset_offers()}


def _no_graph(graph: GraphName) -> HttpError:
    return HttpError(404, f"there is no graph {graph}", code="no-such-graph")
