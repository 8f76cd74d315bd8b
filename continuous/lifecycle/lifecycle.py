"""The steps by which a registered query begins, restarts and ends; a live engine and a replay share them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import ConflictError
from quadrill.store.feeds.feed import Feed
from quadrill.store.quads.views import View
from quadrill.store.registry.records import QueryRecord

from ..errors import EngineStoppedError, reason_of
from ..evaluate.evaluator import Evaluator
from ..language.registration import NO_INFERRED, Registration, check_constants
from ..queries.catalogue import EvaluatorBuild, PendingQuery, QueryEntry
from ..queries.prepare import PreparedQuery, prepare
from ..queries.running import RunningQuery
from ..remote.query import QuerySources
from ..remote.spec import SourceSpec, specs_of
from ..scheduler.sequencer import TASK_WAIT_S
from ..scheduler.task_kinds import AttachTask, CallTask
from ..static.rule_graphs import NamedRules
from ..streams.accept import StreamState
from .parts import EngineParts

log = logging.getLogger("quadrill.continuous")


_GRACE = 4.0
"""Factor by which a replay extends the time limit of evaluations.

A query's evaluation that was in time before the restart must not time out in the replay.
"""
_MOST_RESTARTS, _RESTART_SPAN_MS = 3, 600_000
"""Maximum automatic restarts of a query within a time span in milliseconds; the next failure is final."""


class QueryLifecycle:
    """The lifecycle of one engine's queries: their begin, restart and end.

    Each begin, change and end of a query is a task in the engine's input order.
    """

    def __init__(self, parts: EngineParts) -> None:
        self.parts = parts

    def prepare(
        self,
        registration: Registration,
        name: str | None = None,
        specs: tuple[SourceSpec, ...] | None = None,
        entailed: NamedRules | None = None,
    ) -> PreparedQuery:
        """Prepare a registration, and find the remote sources that the query reads.

        Args:
            registration: text and options.
            name: the name of the query, if the query has one already.
            specs: the remote sources of an earlier registration; None finds the sources now, because a graph
                is remote only if the store does not hold the graph.
            entailed: the rule set that the query named earlier, although the set may be gone or replaced;
                None looks the set up.

        Raises:
            QueryTextError, UnsupportedError, InputError: the text or an option is wrong.
            NotFoundError: the registration names an unknown rule set.
        """
        prepared = prepare(registration, self.parts.settings, self.parts.texts)
        if name is not None:
            prepared = prepared.under_name(name)
        else:
            check_constants(prepared.query)
        asked = registration.evaluation.entailment
        if asked is not None:
            settings = self.parts.settings
            if asked == NO_INFERRED:
                prepared = prepared.over(None)
            elif entailed is not None:
                prepared = prepared.over(entailed.into, entailed.definition)
            else:
                prepared = prepared.over(settings.graph_of_set(asked), settings.definition_of_set(asked))
        query, store = prepared.query, self.parts.store
        if specs is None:
            timed, allows = isinstance(prepared.refresh, int), store.allowed_hosts.allows
            specs = specs_of(query, store.reader.graph_exists, lambda iri: timed or allows(iri))
        if not specs:
            return prepared
        return replace(prepared, sources=QuerySources(specs, self.parts.sources, query.base_iri))

    def evaluator_maker(self, prepared: PreparedQuery) -> Callable[[], Evaluator]:
        """Return a function that creates the evaluator of a query over the newest version of the store."""
        return partial(self.parts.make_evaluator, prepared, self.parts.store, self.quoted_asserted(prepared))

    def quoted_asserted(self, prepared: PreparedQuery) -> frozenset[NamedNode]:
        """Return the streams of a query whose annotated triples count as asserted."""
        streams = self._streams_read(prepared)
        return frozenset(NamedNode(each.iri) for each in streams if each.record.quoted_asserted)

    def self_contained(self, prepared: PreparedQuery) -> frozenset[str]:
        """Return the IRIs of a query's streams that declare each solution to come from one element."""
        return frozenset(each.iri for each in self._streams_read(prepared) if each.record.self_contained)

    def _streams_read(self, prepared: PreparedQuery) -> list[StreamState]:
        """Return the streams that a query reads; all streams if it has a variable for a stream."""
        if not prepared.names_its_streams:
            return list(self.parts.streams)
        states = map(self.parts.streams.find, prepared.streams)
        return [each for each in states if each is not None]

    def new_feed(self, name: str) -> Feed:
        """Create an empty feed for a query."""
        settings = self.parts.settings
        return Feed(
            name,
            history=settings.feed_history,
            subscriber_buffer=settings.subscriber_buffer,
            waiting=self.parts.outbox.feeds,
            epoch=self.parts.tasks.epoch,
        )

    def check_streams(self, prepared: PreparedQuery) -> None:
        """Raise an error if a query may not read or derive its streams or graphs."""
        self.parts.catalogue.refuse_solution_streams(prepared)
        self.parts.catalogue.refuse_cycles(prepared)
        self._check_entailment(prepared)
        if prepared.made_stream is not None:
            self.parts.streams.check_output(prepared.made_stream, prepared.name)
        if not self.parts.settings.auto_declare:
            for iri in prepared.streams:
                self.parts.streams.get(iri)

    def _check_entailment(self, prepared: PreparedQuery) -> None:
        """Raise an error if a query cannot use the rule set that it names as it is now.

        The set may have been removed, moved or replaced since the preparation of the query. The definition of
        a PUT under way is checked as well, because the PUT has not checked this query.
        """
        graph, name = prepared.entailed_graph, prepared.registration.evaluation.entailment
        if graph is None or name is None:
            return
        settings = self.parts.settings
        # The candidate is read first: a PUT that ends between the two calls has replaced the definition.
        for definition in (settings.candidate_of_set(name), settings.definition_of_set(name)):
            if definition is not None:
                prepared.require_for_windows(definition)
        if settings.graph_of_set(name) != graph:
            raise ConflictError(
                f"the rule set {name} has another graph now",
                code="in-progress",
                hint="repeat the registration",
            )

    def run(
        self,
        entry: QueryEntry,
        prepared: PreparedQuery,
        evaluator: Evaluator,
        *,
        paused: bool = False,
        reset: bool = False,
        replay_from: int | None = None,
    ) -> AttachTask:
        """Attach a query by a task, and wait briefly for it; the query gets inputs accepted after the task.

        Args:
            entry: the entry of the query; a query that ran under the same name ends in the same task.
            prepared: the query.
            evaluator: the evaluator of the query.
            paused: True if the query begins paused.
            reset: True if the feed of an earlier query continues, with a reset event.
            replay_from: the event time from which the query processes retained elements first; by default the
                time of the registration's ``start``.

        Returns:
            The task, whose result is a list with the number of retained elements that the query
            processed first.
        """
        for iri in prepared.streams:
            self.open_stream(iri)
        running = self.make_running(entry, prepared, evaluator, paused=paused)
        registration, parts = prepared.registration, self.parts
        read = self._streams_read(prepared)
        running.dropped_before = {each.iri: each.counts.lost for each in read if each.counts.lost}
        start = registration.start_from if replay_from is None else replay_from
        members = {**members_of(entry, prepared), "paused": paused, "reset": reset}
        members["looked_up"] = running.static.looked_up()
        if replay_from is not None:
            members["from"] = replay_from
        parts.tasks.follow_commits()
        with parts.tasks.lock:
            kept = {} if start is None else parts.streams.kept_now()
            entry.in_journal = True
            task = parts.tasks.submit(AttachTask(running, reset, replay_from, kept), "attach", **members)
            running.begun = begun_of(entry.pending, start, parts.tasks.order)
        # An automatic restart runs in the engine's thread between two tasks, so the restart cannot wait for
        # its own task.
        with suppress(TimeoutError):
            parts.sequencer.finish(task, TASK_WAIT_S)
        return task

    def make_running(
        self, entry: QueryEntry, prepared: PreparedQuery, evaluator: Evaluator, *, paused: bool
    ) -> RunningQuery:
        """Create the running query of a catalogue entry, without attaching it to its streams."""
        self.parts.catalogue.index_flows(prepared)
        self.parts.texts.keep(prepared.analysis)
        emit = None
        if prepared.made_stream is not None:
            output = self.parts.streams.open_output(prepared.made_stream, entry.name)
            emit = partial(self.parts.derived.add, output)
        running = RunningQuery(
            entry.name,
            prepared,
            evaluator,
            entry.feed,
            self.parts.settings,
            created_ms=entry.created_ms,
            emit_element=emit,
            tasks=self.parts.tasks,
        )
        self.parts.attachments.read_sources(entry.name, prepared)
        if prepared.into_graph is not None:
            running.view = View(entry.name, prepared.into_graph)
        if paused:
            running.state = "paused"
        if self.parts.tasks.replayed_versions is not None:
            running.evaluator.budget.grace = _GRACE
        entry.running = running
        return running

    # --- while static parts are read ------------------------------------------------------------

    def reserve(
        self, entry: QueryEntry, prepared: PreparedQuery, build: EvaluatorBuild, *, reset: bool
    ) -> None:
        """By a task, start to collect inputs for a query that still reads its static parts."""
        for iri in prepared.streams:
            self.open_stream(iri)
        entry.pending = pending = self.parts.attachments.new_pending(entry.name, prepared)
        pending.build = build
        members = {**members_of(entry, prepared), "paused": False, "reset": reset}
        task = CallTask(partial(self.parts.attachments.begin_waiting, entry, pending))
        entry.in_journal = True
        self.parts.tasks.follow_commits()
        with self.parts.tasks.lock:
            # Elements accepted after the task that reserves a query are collected for the query, so they must
            # not be in `retained` too.
            self.parts.attachments.keep_retained(pending)
            self.parts.tasks.submit(task, "reserve", **members)
            pending.begun = self.parts.tasks.order
        with suppress(TimeoutError):
            self.parts.sequencer.finish(task, TASK_WAIT_S)
        build.add_done_callback(lambda made: self._on_build_done(entry, pending, made, reset=reset))

    def resume_build(self, entry: QueryEntry, pending: PendingQuery) -> None:
        """After a replay, read the static parts of a query that is still waiting for them."""
        maker, reset = self.evaluator_maker(pending.prepared), entry.feed.events > 0
        pending.build = build = EvaluatorBuild(maker, self.parts.threads)
        build.add_done_callback(lambda made: self._on_build_done(entry, pending, made, reset=reset))

    def _on_build_done(
        self, entry: QueryEntry, pending: PendingQuery, made: Future[Evaluator], *, reset: bool
    ) -> None:
        """Attach a query whose evaluator is built, or mark it as failed, in the thread of the build."""
        with self.parts.admin:
            if self.parts.catalogue.find(entry.name) is not entry or entry.pending is not pending:
                return
            try:
                try:
                    self.run(entry, pending.prepared, made.result(), reset=reset)
                except EngineStoppedError:
                    raise
                except Exception as error:
                    self.parts.tasks.require_open()
                    self._fail_build(entry, pending, error)
            except EngineStoppedError:
                log.info("The next start reads the static parts of the query %s again", entry.name)

    def _fail_build(self, entry: QueryEntry, pending: PendingQuery, error: Exception) -> None:
        reason = error if pending.problem is None else pending.problem
        log.warning("The query %s cannot begin: %s", entry.name, reason)
        message, code = reason_of(reason)
        task = CallTask(partial(self.parts.attachments.fail_pending, entry, message, code))
        self.parts.sequencer.perform(task, "unready", name=entry.name, error=message, code=code)

    def open_stream(self, name_or_iri: str) -> StreamState:
        """Return the stream with a name or IRI; declare the stream if it does not exist."""
        with self.parts.admin:
            state, new = self.parts.streams.open(name_or_iri)
        if new:
            self.announce_stream(state)
        return state

    def announce_stream(self, state: StreamState) -> None:
        """By a task, register queries whose windows read every stream as readers of a new stream."""
        created = state.record.created_ms
        task = CallTask(self.parts.router.new_stream)
        self.parts.tasks.submit(task, "stream", stream=state.iri, created=created)
        self.parts.sequencer.drain()

    # --- the end --------------------------------------------------------------------------------

    def detach(self, entry: QueryEntry, *, dropped: bool = False) -> None:
        """End a query by a task; ``dropped`` ends its feed, too."""
        running, pending = entry.running, entry.pending
        if running is None and pending is None and not dropped:
            return
        entry.running = entry.pending = None
        if pending is not None:
            pending.cancel()
        task = CallTask(partial(self.parts.attachments.detach, entry, running, dropped))
        self.parts.sequencer.perform(task, "detach", name=entry.name, dropped=dropped)

    def undo_begin(self, entry: QueryEntry, *, dropped: bool) -> None:
        """End a query whose registration failed; add a record only if the journal has its begin."""
        running, pending = entry.running, entry.pending
        entry.running = entry.pending = None
        if pending is not None:
            pending.cancel()
        task = CallTask(partial(self.parts.attachments.detach, entry, running, dropped))
        if entry.in_journal:
            self.parts.sequencer.perform(task, "detach", name=entry.name, dropped=dropped)
        else:
            with suppress(TimeoutError):
                self.parts.sequencer.call(task.work, TASK_WAIT_S)

    def restore(
        self, record: QueryRecord, before: tuple[int, int, int] | None = None, feed: Feed | None = None
    ) -> None:
        """Begin a query of the registry; a query that cannot begin is marked as failed, with the reason.

        Args:
            record: the registration.
            before: number, place and last event id of an earlier feed of the query; the ids are not reused.
            feed: an earlier feed that continues with a reset event.
        """
        reset = feed is not None or before is not None
        if feed is None:
            feed = self.new_feed(record.name)
        if before is not None:
            number, place, last_id = before
            feed.restore([number, last_id, place, place, last_id, 0], [])
            feed.begin_epoch(self.parts.tasks.epoch)
        entry = self.parts.catalogue.add_restored(record, feed)
        if entry.state == "failed" or self.parts.catalogue.pause_at_start(entry):
            return
        try:
            prepared, evaluator = self.rebuild(entry)
            self.run(entry, prepared, evaluator, paused=record.state == "paused", reset=reset)
        except Exception as error:
            log.warning("The query %s cannot be restored: %s", record.name, error)
            self.parts.catalogue.set_state(entry, "failed", reason_of(error)[0])

    def rebuild(self, entry: QueryEntry) -> tuple[PreparedQuery, Evaluator]:
        """Prepare a query again with its current remote sources, and build a new evaluator.

        Raises:
            ReportedError: the query cannot begin.
        """
        running = entry.running
        prepared = self.prepare(
            entry.registration, entry.name, None if running is None else running.prepared.source_specs
        )
        self.check_streams(prepared)
        return prepared, self.evaluator_maker(prepared)()

    def restart(self, entry: QueryEntry, replay_from: int | None = None) -> AttachTask:
        """Restart a query with empty windows and a new epoch of its feed.

        With ``replay_from`` the restarted query first processes retained elements from this event time on.

        Raises:
            ReportedError: the query cannot begin; the query that was running continues.
        """
        prepared, evaluator = self.rebuild(entry)
        self.parts.tasks.require_writable()
        self.parts.catalogue.set_state(entry, "running", None)
        # The query's entry moves to the end of the catalogue, because a recovery finds the queries in the
        # order in which they began.
        self.parts.catalogue.add(entry)
        return self.run(entry, prepared, evaluator, reset=True, replay_from=replay_from)

    def restart_failed(self) -> None:
        """Restart failed queries if the settings allow automatic restarts.

        Failed queries are restarted between two tasks.
        """
        failed = self.parts.catalogue.failed
        while failed:
            entry = failed.popleft()
            if self.parts.catalogue.find(entry.name) is not entry or entry.state != "failed":
                continue
            now = self.parts.clock.steady_ms()
            entry.restarts = [at for at in entry.restarts if now - at < _RESTART_SPAN_MS]
            if len(entry.restarts) >= _MOST_RESTARTS:
                log.error("The query %s has failed too often and is not restarted again", entry.name)
                continue
            entry.restarts.append(now)
            try:
                self.restart(entry)
            except Exception as error:
                log.warning("The query %s cannot restart: %s", entry.name, error)
                self.parts.catalogue.set_state(entry, "failed", reason_of(error)[0])


def begun_of(pending: PendingQuery | None, start: int | None, order: int) -> int | None:
    """Return the place in the input order after which a query takes inputs, as `RunningQuery.begun`.

    Args:
        pending: the object that has collected inputs for the query; None without one.
        start: the event time of the first retained element that the query processes; None without any.
        order: the place at which the query was attached.
    """
    if start is not None:
        return 0
    return pending.begun if pending is not None and pending.collects else order


def members_of(entry: QueryEntry, prepared: PreparedQuery | None) -> dict[str, Any]:
    """Return the members of a journal record or checkpoint from which the query can be created again.

    ``prepared`` is None if the query could not be prepared; the members then name no remote sources.
    """
    registration = entry.registration if prepared is None else prepared.registration
    return {
        "name": entry.name,
        "text": registration.query,
        "dialect": registration.dialect,
        "options": registration.options(),
        "created": entry.created_ms,
        "dropped_before": None if entry.running is None else entry.running.dropped_before,
        "begun": None if entry.running is None else entry.running.begun,
        "entailed": None if prepared is None or (graph := prepared.entailed_graph) is None else graph.value,
        "rules": _rules_of(entry, prepared),
        "sources": [] if prepared is None else [spec.to_json() for spec in prepared.source_specs],
    }


def _rules_of(entry: QueryEntry, prepared: PreparedQuery | None) -> dict[str, Any] | None:
    """Return the rule set whose consequences the query's windows include, as the query sees it now."""
    if prepared is None or prepared.rules is None:
        return None
    graphs = None if entry.running is None else entry.running.evaluator.statics.steps.rules
    definition = prepared.rules.definition if graphs is None else graphs.definition
    return None if definition is None else definition.members()
