"""The SPARQL endpoint: evaluates one-shot queries and updates, in the server or in a worker process."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import Any, NamedTuple, NoReturn

from pyoxigraph import DefaultGraph, NamedNode

from quadrill.continuous.analysis.prepared import prepared
from quadrill.store.changes.commit import Commit, GraphName, graph_key
from quadrill.store.errors import QueryTextError
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.remote import FetchEndedError
from quadrill.store.sparql.codepoints import without_escapes
from quadrill.store.sparql.query import QueryResult
from quadrill.store.sparql.query_worker import WorkerRequest
from quadrill.store.sparql.skeletons import split_constants
from quadrill.store.sparql.update_plan import BufferedRowsError, UpdateRequest
from quadrill.store.sparql.update_worker import UpdateTask

from ..config import Settings
from ..http import negotiation
from ..http.answers import Output, WholeAnswer
from ..http.protocol import WHOLE, DatasetScope, SparqlCall, query_text, scope_of, update_seconds, update_text
from ..http.request import FastLaneThread
from ..prefixes import PrefixTable
from . import admission
from .admission import SlowTexts
from .answer import (
    VARY,
    AnswerLimits,
    AnswerPreferences,
    AnswerSink,
    BodyAnswer,
    ByteSink,
    EvaluatedAnswer,
    reading_timeout_error,
    timeout_error,
)
from .columns import with_ordered_columns
from .entailment import GraphOfSet, with_entailment
from .extensions import (
    FOR_UPDATES,
    Extended,
    WorkerQuery,
    aggregates_of,
    extended_for,
    functions_of,
    is_extended,
)
from .large_answers import LargeAnswers
from .look_ups import look_up
from .named import may_call_costly
from .nodes import is_node
from .processes import Process, Processes
from .query_faults import raise_better, refusal_of, refuse_unchecked
from .requests import limited_calls, request_of
from .short_answers import ShortAnswerLock
from .transcoder import Transcoder, transcoded
from .where_parts import IN_UPDATES, BufferLimits, ServerWherePart
from .workers import WorkerPool


class AdmittedQuery(NamedTuple):
    """A query text after the decision where to evaluate it, with its dataset.

    Attributes:
        text: the query text, sent or stored; code point escapes outside strings and IRIs are decoded.
        scope: the dataset and the time limit of the request.
        extension: the rewritten text for the store, if the query calls functions of this project or needs
            a correction; else None.
        sent: the form in which a worker process gets the query.
        heavy: True if the evaluation of the query may take long.
        counts: True if the query needs functions that limit the size of values such as those of CONCAT.
        elsewhere: True if a worker process instead of the server evaluates the query.
    """

    text: str
    scope: DatasetScope
    extension: Extended | None
    sent: WorkerQuery
    heavy: bool
    counts: bool
    elsewhere: bool


class SparqlEndpoint:
    """Evaluates queries and updates over one store; knows no web framework, safe to use from any thread.

    Attributes:
        processes: the list of running queries, updates and dumps.
        slow_texts: texts of queries that looked light and took more than a second.
        large_answers: the slots for large answers, which limit how many are computed at a time.
        short_answers: the lock that makes short answers one after the other.
    """

    def __init__(
        self,
        store: QuadStore,
        settings: Settings,
        prefixes: PrefixTable,
        workers: WorkerPool,
        graph_of_set: GraphOfSet,
    ) -> None:
        """Make a SPARQL endpoint over one store.

        Args:
            store: the store to query and update.
            settings: the server's settings, with the limits on time and size of answers.
            prefixes: the prefix table for graphs in Turtle and similar formats.
            workers: the pool of processes that evaluate heavy queries.
            graph_of_set: returns the graph of a rule set by its name.
        """
        self.processes = Processes()
        self.slow_texts = SlowTexts()
        # Serialising holds the interpreter lock most of the time, so more slots would not save time.
        self.large_answers = LargeAnswers(max(2, os.cpu_count() or 1))
        self.short_answers = ShortAnswerLock()
        self.store = store
        self.settings = settings
        self.prefixes = prefixes
        self._workers = workers
        self._graph_of_set = graph_of_set
        self._counted: tuple[int, int] = (-1, 0)

    def _is_merged(self, scope: DatasetScope) -> bool:
        """Return True if the default graph of a request is merged from several graphs."""
        if scope.union:
            return bool(self.store.reader.graph_names())
        default_graphs: set[GraphName] = {*(scope.default_graphs or ()), *scope.added_graphs}
        if scope.default_graphs is None and scope.named_graphs is None:
            default_graphs.add(DefaultGraph())
        return len(default_graphs) > 1

    def quads(self) -> int:
        """Return the number of quads in the store, cached per version, as counting many graphs is slow."""
        version = self.store.reader.version
        if self._counted[0] != version:
            self._counted = (version, self.store.reader.quad_count)
        return self._counted[1]

    def asked(self, call: SparqlCall, text: str | None = None) -> AdmittedQuery:
        """Decide where a request's query is evaluated; return it with its dataset and time limit.

        Args:
            call: the parameters of the request, and the query text unless ``text`` is given.
            text: the text of a stored query, which replaces the text of the request.

        Raises:
            HttpError: 400 for an invalid parameter, 413 for a text that is too long.
            NotFoundError: the parameter ``entailment`` names an unknown rule set.
            QueryTextError: the text breaks a rule of SPARQL that the store does not check.
        """
        settings = self.settings
        if text is None:
            text = query_text(call, settings)
        else:
            text = without_escapes(text)
        scope = scope_of(call, settings)
        scope = with_entailment(scope, text, settings.base_iri, self.store, self._graph_of_set)
        parts = split_constants(text)
        known = prepared(text, parts)
        refuse_unchecked(text, settings.base_iri, known)
        quads = self.quads()
        light = admission.is_light(known.shape, parts.constants, quads, self.store.reader.size_of_graph)
        grows = known.growth.is_much(parts)
        heavy = not light or grows or text in self.slow_texts.texts or may_call_costly(text)
        elsewhere = heavy and self._workers.takes(quads)
        counts = grows and not elsewhere
        extension, sent = extended_for(
            text,
            settings.base_iri,
            parts.body,
            merged=scope[1:] != WHOLE and self._is_merged(scope),
            is_node=partial(is_node, self.store.reader) if scope[1:] == WHOLE else None,
            counts=counts,
        )
        return AdmittedQuery(text, scope, extension, sent, heavy, counts, elsewhere)

    def look_up_answer(self, call: SparqlCall, accept: str | None) -> WholeAnswer | None:
        """Return the JSON answer to a look-up by constants; None if `answer` has to evaluate the query.

        Raises: HttpError: 400 for an invalid parameter, 413 for a query text that is too long.
        """
        settings = self.settings
        text, offers = query_text(call, settings), negotiation.result_offers()
        whole = not call.fields or scope_of(call, settings) == (settings.query_timeout, *WHOLE)
        if not whole or negotiation.best_offer(accept, offers) is not negotiation.JSON_RESULTS:
            return None
        found = look_up(text, self.store.reader)
        if found is None:
            return None
        body, rows, version = found
        most_rows, most_bytes = settings.max_result_rows, settings.max_result_bytes
        if 0 < most_rows < rows or 0 < most_bytes < len(body):
            return None
        return WholeAnswer(200, {"Content-Type": negotiation.JSON_RESULTS.header, **VARY}, body, version)

    def answer(
        self, asked: AdmittedQuery, client: AnswerPreferences, user: str, lane: FastLaneThread | None = None
    ) -> EvaluatedAnswer:
        """Return the answer to an admitted query; an error of the evaluation becomes the answer.

        Args:
            asked: the query after the decision where to evaluate it.
            client: the Accept header of the client, and whether it wants only the head.
            user: the name of the user, for the list of running evaluations.
            lane: the fast lane, if its thread is the caller; None for a worker thread.
        """
        settings = self.settings
        text, scope = asked.text, asked.scope
        if asked.elsewhere:
            return self._from_worker(asked, user, client)
        limits = _limits(scope.seconds, settings.max_result_bytes, settings.max_result_rows)
        process = self.processes.begin("query", text, user)
        answer = _InlineAnswer(self.processes, process, limits, client, self.large_answers)
        answer.endpoint, answer.asked, answer.lane = self, asked, lane
        return answer

    def stream(
        self,
        body: Callable[[ByteSink], None],
        seconds: float,
        process: Process,
        client: AnswerPreferences,
        *,
        computed_here: bool = True,
    ) -> BodyAnswer:
        """Return an answer whose body ``body`` writes; ``process`` is removed from the list at the end."""
        limits = _limits(seconds, self.settings.max_result_bytes, self.settings.max_result_rows)
        large_answers = self.large_answers if computed_here else None
        answer = BodyAnswer(self.processes, process, limits, client, large_answers)
        answer.body = body
        return answer

    def is_short_update(self, call: SparqlCall) -> bool:
        """Return True for an update that likely takes less than a millisecond."""
        text = call.direct
        return text is not None and not call.fields and admission.is_short_update(text)

    def register_update(
        self, call: SparqlCall, user: str, lane: FastLaneThread | None
    ) -> Callable[[], Commit]:
        """Register an update; the returned function, called once, makes the update as one atomic commit.

        Until its commit is logged, an update can be stopped between two solutions of its WHERE parts; a
        stopped update changes nothing. Parsing the text of an update may take as long as the setting
        ``query_timeout`` allows. A worker process, whose memory is limited, evaluates an update that may
        buffer many rows; the fast lane ``lane`` is released first.

        Raises:
            HttpError: 400 for an invalid parameter, 413 for a text that is too long.
            ReportedError: the text of the update is invalid, or the update fails.
        """
        text = update_text(call, self.settings)
        using, using_named = call.graphs("using-graph-uri"), call.graphs("using-named-graph-uri")
        seconds = update_seconds(call)
        reading_seconds = self.settings.query_timeout
        calls, reading = limited_calls(self.settings), True
        # No statement that may fail comes between `begin` and the `try`: an error would leave a stale entry
        # in the list of evaluations.
        process = self.processes.begin("update", text, user)

        def check() -> None:
            calls.check()
            process.check()
            if time.monotonic() > process.started + seconds:
                raise timeout_error(seconds, "update")
            if reading and time.monotonic() > process.started + reading_seconds:
                raise reading_timeout_error(reading_seconds)

        try:
            functions = functions_of(text)
            costly = may_call_costly(text) and self._workers.takes(self.quads())
            settings = self.settings
            calls.begun()
            commit = self.store.writer.enqueue_update(
                UpdateRequest(
                    text,
                    base_iri=settings.base_iri,
                    using_graphs=using,
                    using_named_graphs=using_named,
                    custom_functions=None if functions is None else calls.results(functions),
                    check=check,
                    where_parts=partial(
                        ServerWherePart, room=BufferLimits(self.quads), calls=calls, costly=costly
                    ),
                    custom_aggregates=aggregates_of(text),
                )
            )
            reading = False
        except BaseException:
            self.processes.end(process)
            raise

        def make() -> Commit:
            try:
                with suppress(BufferedRowsError):
                    return commit()
                if lane is not None:
                    lane.step_aside()
                task = UpdateTask(
                    text,
                    quads=self.store.limits.quads,
                    base_iri=settings.base_iri,
                    using_graphs=_names(using),
                    using_named_graphs=_names(using_named),
                    hosts=settings.remote_hosts,
                    remote_seconds=self.store.allowed_hosts.seconds,
                    remote_bytes=self.store.allowed_hosts.max_bytes,
                    extension=FOR_UPDATES if is_extended(text) else None,
                    where_parts=IN_UPDATES,
                )
                return self._workers.compute_update(task, process, seconds)
            finally:
                self.processes.end(process)

        return make

    def _from_worker(self, asked: AdmittedQuery, user: str, client: AnswerPreferences) -> EvaluatedAnswer:
        """Return the answer of a heavy query, which a worker process evaluates so that it can be killed."""
        settings, text, scope, sent = self.settings, asked.text, asked.scope, asked.sent
        wanted = WorkerRequest(
            copy="",
            version=0,
            text=with_ordered_columns(sent.text),
            extension=sent.extension,
            results_format=_format_name(client.accept, negotiation.result_offers()),
            graph_format=_format_name(client.accept, negotiation.graph_offers()),
            base_iri=settings.base_iri,
            default_graphs=_names(scope.default_graphs),
            named_graphs=_names(scope.named_graphs),
            union=scope.union,
            added_graphs=tuple(map(graph_key, scope.added_graphs)),
            hidden_graphs=tuple(map(graph_key, scope.hidden_graphs)),
            hosts=settings.remote_hosts,
            remote_seconds=self.store.allowed_hosts.seconds,
            remote_bytes=self.store.allowed_hosts.max_bytes,
            prefixes=dict(self.prefixes.all()),
        )
        process = self.processes.begin("query", text, user)

        def body(sink: Transcoder) -> None:
            def begin(head: dict[str, Any]) -> None:
                sink.begin(_begin(answer, head["kind"] == "graph", head["version"]))

            try:
                self._workers.run(wanted, sink, begin, process, scope.seconds)
            except QueryTextError as refused:
                raise_located(refused, asked, settings.base_iri)

        answer = self.stream(transcoded(body), scope.seconds, process, client, computed_here=False)
        return answer


class _InlineAnswer(EvaluatedAnswer):
    """The answer of a query that is evaluated within the server, in the thread that sends the answer."""

    __slots__ = ("asked", "endpoint", "lane")

    endpoint: SparqlEndpoint
    asked: AdmittedQuery
    lane: FastLaneThread | None

    def send(self, output: Output) -> WholeAnswer | None:
        """Produce and send the answer; if the query is light, hold the lock for short answers."""
        if self.asked.heavy:
            return super().send(output)
        with self.endpoint.short_answers.hold(self.lane) as self.hold:
            return super().send(output)

    def produce(self, sink: AnswerSink) -> None:
        """Evaluate the query, write its result to ``sink``, and record the text of a slow query."""
        endpoint, asked, text = self.endpoint, self.asked, self.asked.text
        request = request_of(text, asked.scope, asked.extension, asked.counts, endpoint.settings)
        if "service" in request.text.lower():
            request = request._replace(ended=sink.is_over)
        try:
            try:
                result = endpoint.store.reader.query(request)
            except QueryTextError as refused:
                raise_located(refused, self.asked, endpoint.settings.base_iri)
            try:
                self._write(result, sink)
            except BaseException:
                result.close()
                raise
        except FetchEndedError:
            sink.note_end()
            raise
        finally:
            # A query is slow by its longest time between two blocks of the answer, in which it cannot be
            # stopped; the time of sending does not count.
            endpoint.slow_texts.ended(text, max(sink.stalled_seconds, time.monotonic() - sink.resumed))

    def _write(self, result: QueryResult, sink: AnswerSink) -> None:
        graph = result.kind == "graph"
        chosen = _begin(self, graph, result.version)
        format_ = chosen.rdf if graph else chosen.results
        assert format_ is not None
        prefixes = negotiation.prefixes_for(chosen, self.endpoint.prefixes.all()) if graph else None
        if chosen.convert is None:
            sink.begin(chosen)
            result.serialize_to(sink, format_, prefixes=prefixes)  # type: ignore[arg-type]  # it only calls write
        else:
            transcoder = Transcoder(sink)
            transcoder.begin(chosen)
            result.serialize_to(transcoder, format_, prefixes=prefixes)  # type: ignore[arg-type]
            transcoder.finish()


def raise_located(refused: QueryTextError, asked: AdmittedQuery, base_iri: str) -> NoReturn:
    """Raise the error of a query that the store refused, with its place in the text that the client sent."""
    if asked.extension is not None and asked.extension.text != asked.text:
        refused = refusal_of(asked.text, base_iri) or refused
    raise_better(refused, asked.text, base_iri)


def _begin(answer: EvaluatedAnswer, graph: bool, version: int) -> negotiation.Offer:
    """Choose the answer's format by Accept header and kind of result, and set the HTTP headers."""
    offers = negotiation.graph_offers() if graph else negotiation.result_offers()
    chosen = negotiation.choose(answer.client.accept, offers)
    answer.headers["Content-Type"] = chosen.header
    answer.version = version
    return chosen


_limits = lru_cache(maxsize=64)(AnswerLimits)


def _format_name(accept: str | None, offers: Sequence[negotiation.Offer]) -> str | None:
    found = negotiation.best_offer(accept, offers)
    if found is None:
        return None
    # A worker process writes an answer in one of Oxigraph's formats, and the server converts the format.
    written = (*negotiation.RESULT_OFFERS, *negotiation.GRAPH_OFFERS)
    return next(each.name for each in written if (each.rdf, each.results) == (found.rdf, found.results))


def _names(graphs: Sequence[NamedNode] | None) -> tuple[str, ...] | None:
    return None if graphs is None else tuple(graph.value for graph in graphs)
