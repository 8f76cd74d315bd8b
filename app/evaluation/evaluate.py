"""Evaluates queries and updates for a client: dataset, format, limits, lane; knows no web framework."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.sparql.query import QueryRequest, QueryResult
from quadrill.store.sparql.query_worker import WorkerRequest

from ..config import Settings
from ..http import admission as lanes
from ..http import negotiation
from ..http.codecs import Transcoder, transcoded
from ..http.columns import with_ordered_columns
from ..http.protocol import WHOLE, Call, Scope, query_text, scope_of, update_seconds, update_text
from ..http.streaming import ROW_MARKS, Answer, AnswerSink, BodyAnswer, Client, Limits, Sink, timeout_error
from ..wiring import Services
from .extensions import FOR_WORKERS, Extended, extended, functions_of, is_extended
from .processes import Process
from .query_faults import told_better

VARY = "Accept, Accept-Encoding"


def client_of(
    settings: Settings, accept: str | None, accept_encoding: str | None, *, head_only: bool = False
) -> Client:
    """What the headers of a request say of its answer."""
    return Client(
        accept,
        {"Content-Type": negotiation.JSON_RESULTS.header, "Vary": VARY},
        settings.gzip and negotiation.accepts_gzip(accept_encoding),
        head_only,
    )


def answer_query(
    services: Services, call: Call, client: Client, user: str, text: str | None = None
) -> Answer:
    """The answer to a query within the dataset and the time that the call's parameters name.

    Args:
        services: what to ask.
        call: the parameters, and the text unless ``text`` is given.
        client: what the answer has to be like.
        user: who asks, for the list of processes.
        text: a query that is kept here, in place of the call's own.

    Raises:
        HttpError: 400 or 413 for a parameter that is wrong; everything else becomes the answer.
    """
    settings = services.settings
    if text is None:
        text = query_text(call, settings)
    scope = scope_of(call, settings)
    asked = extended(text, settings.base_iri) if is_extended(text) else None
    quads = services.quads()
    heavy = not lanes.is_light(text, quads) or text in services.slow_texts.texts
    process = services.processes.begin("query", text, user)
    if heavy and services.workers.takes(quads):
        return _in_worker(services, text, scope, asked, process, client)
    limits = _limits(scope.seconds, settings.max_result_bytes, settings.max_result_rows)
    answer = _Inline(services.processes, process, limits, client)
    answer.services, answer.text, answer.scope, answer.asked = services, text, scope, asked
    return answer


class _Inline(Answer):
    """The answer of a query that is evaluated within the server, in the thread that sends it."""

    __slots__ = ("asked", "scope", "services", "text")

    services: Services
    text: str
    scope: Scope
    asked: Extended | None

    def produce(self, sink: AnswerSink) -> None:
        """Evaluate, and remember when it took long."""
        services, text, scope, asked = self.services, self.text, self.scope, self.asked
        written = text if asked is None else asked.text
        if "*" in written:
            written = with_ordered_columns(written)
        request = QueryRequest(written, services.settings.base_iri)
        if scope[1:] != WHOLE:
            _, default_graphs, named_graphs, union = scope
            request = request._replace(default_graphs=default_graphs, named_graphs=named_graphs, union=union)
        if asked is not None:
            request = request._replace(custom_functions=asked.functions, custom_aggregates=asked.aggregates)
        try:
            with told_better(text, services.settings.base_iri):
                result = services.store.answer(request)
            try:
                self._write(result, sink)
            except BaseException:
                result.close()
                raise
        finally:
            # From one block to the next nothing can stop it; sending does not count.
            seconds = max(sink.stalled_seconds, time.monotonic() - sink.resumed)
            if seconds >= lanes.SLOW_SECONDS:
                services.slow_texts.ended(text, seconds)

    def _write(self, result: QueryResult, sink: AnswerSink) -> None:
        graph = result.kind == "graph"
        chosen = _begin(self, graph, result.version)
        format_ = chosen.rdf if graph else chosen.results
        assert format_ is not None
        prefixes = negotiation.prefixes_for(chosen, self.services.prefixes.all()) if graph else None
        if chosen.codec is None:
            sink.row_mark = ROW_MARKS.get(chosen.name, b"")
            result.serialize_to(sink, format_, prefixes=prefixes)  # type: ignore[arg-type]  # it only calls write
        else:
            transcoder = Transcoder(sink)
            transcoder.begin(chosen)
            result.serialize_to(transcoder, format_, prefixes=prefixes)  # type: ignore[arg-type]
            transcoder.finish()


def _in_worker(
    services: Services, text: str, scope: Scope, asked: Extended | None, process: Process, client: Client
) -> Answer:
    """The answer of a query that may be heavy: a worker process evaluates it and can be killed."""
    settings = services.settings
    wanted = WorkerRequest(
        copy="",
        version=0,
        text=with_ordered_columns(text),
        extension=None if asked is None else FOR_WORKERS,
        results_format=_format_name(client.accept, negotiation.RESULT_OFFERS),
        graph_format=_format_name(client.accept, negotiation.ALL_GRAPH_OFFERS),
        base_iri=settings.base_iri,
        default_graphs=_names(scope.default_graphs),
        named_graphs=_names(scope.named_graphs),
        union=scope.union,
        hosts=settings.remote_hosts,
        prefixes=dict(services.prefixes.all()),
    )

    def body(sink: Transcoder) -> None:
        def begin(head: dict[str, Any]) -> None:
            sink.begin(_begin(answer, head["kind"] == "graph", head["version"]))

        with told_better(text, settings.base_iri):
            services.workers.run(wanted, sink, begin, process, scope.seconds)

    answer = answered(services, transcoded(body), scope.seconds, process, client)
    return answer


def _begin(answer: Answer, graph: bool, version: int) -> negotiation.Offer:
    """The kind of the result is known, and with it the format: what the headers say of it."""
    offers = negotiation.ALL_GRAPH_OFFERS if graph else negotiation.RESULT_OFFERS
    chosen = negotiation.choose(answer.client.accept, offers)
    answer.headers["Content-Type"] = chosen.header
    answer.headers["ETag"] = f'"{version}"'
    return chosen


def answered(
    services: Services, body: Callable[[Sink], None], seconds: float, process: Process, client: Client
) -> BodyAnswer:
    """An answer of any size within the limits of the settings; ``process`` ends with it."""
    settings = services.settings
    limits = _limits(seconds, settings.max_result_bytes, settings.max_result_rows)
    answer = BodyAnswer(services.processes, process, limits, client)
    answer.body = body
    return answer


_limits = lru_cache(maxsize=64)(Limits)


def update(services: Services, call: Call, user: str) -> Commit:
    """Make an update; one commit, all or nothing.

    It can be stopped between the solutions of its WHERE parts, until it is logged: then nothing is applied.

    Raises:
        HttpError: 400 or 413 for a parameter that is wrong.
        QuadrillError: the store refuses the text or cannot make it.
    """
    services.engine.require_room()
    settings = services.settings
    text = update_text(call, settings)
    using, using_named = call.graphs("using-graph-uri"), call.graphs("using-named-graph-uri")
    seconds = update_seconds(call)
    process = services.processes.begin("update", text, user)

    def check() -> None:
        if process.error is not None:
            raise process.error
        if time.monotonic() > process.started + seconds:
            raise timeout_error(seconds, "update")

    try:
        return services.store.update(
            text,
            base_iri=settings.base_iri,
            using_graphs=using,
            using_named_graphs=using_named,
            custom_functions=functions_of(text),
            check=check,
            cause="update",
        )
    finally:
        services.processes.end(process)


def _format_name(accept: str | None, offers: Sequence[negotiation.Offer]) -> str | None:
    found = negotiation.best_offer(accept, offers)
    if found is None:
        return None
    return found.name if found.codec is None else negotiation.N_QUADS.name


def _names(graphs: Sequence[NamedNode] | None) -> tuple[str, ...] | None:
    return None if graphs is None else tuple(graph.value for graph in graphs)
