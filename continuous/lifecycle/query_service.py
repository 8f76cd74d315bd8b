"""The operations of an engine on queries: register, inspect, change, drop, and read their feeds."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from quadrill.store.errors import ConflictError
from quadrill.store.feeds.feed import Feed
from quadrill.store.results import one_line

from ..algebra.flows import FlowEdge
from ..errors import EngineStoppedError, FeedGoneError, reason_of
from ..evaluate.evaluator import Evaluator
from ..inputs import NEVER
from ..language.registration import Registration
from ..queries.catalogue import EvaluatorBuild, PendingQuery, QueryEntry, flows_of
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..scheduler.sequencer import TASK_WAIT_S
from ..scheduler.task_kinds import PauseTask, RefreshTask, SettingsTask
from ..static.table_reading import Progress, entered
from .equal_queries import require_equal
from .lifecycle import QueryLifecycle
from .parts import EngineParts
from .starting import cancel_evaluation
from .unused_streams import remove_unused_streams, streams_of

T = TypeVar("T")
log = logging.getLogger("quadrill.continuous")

_CANCEL_AFTER_S = 0.5
"""Seconds after which a running evaluation is cancelled when a client pauses or drops its query."""
_VIEW_WAIT_S = 5.0
"""Seconds that a drop waits for pending writes of the query's view."""
_INSPECT_BATCH = 250
_CONCURRENT_CLOSE = (LookupError, RuntimeError)
"""Errors that a concurrent read of a query may raise when the query's tables are closed during the read."""


class QueryService:
    """The operations of an engine on queries, for example registration and drop.

    Any thread may call any operation on queries. Operations with a query name raise NotFoundError if no query
    has the name.
    """

    def __init__(self, parts: EngineParts, lifecycle: QueryLifecycle) -> None:
        self.parts = parts
        self.lifecycle = lifecycle

    def register(self, registration: Registration, *, replace: bool = False) -> tuple[str, bool]:
        """Register a query; return its name and whether it is new.

        The steps of a registration, each a function of the result of the step before:

        1. `language.parse` translates the text to an algebra with windows and clauses;
        2. `queries.prepare` decides report, output and names from the text and the options;
        3. `lifecycle.prepare` finds the remote sources, and `sources.acquired` fetches them;
        4. `_register` checks and claims name, streams and view;
        5. an evaluator rewrites the algebra (`algebra.rewrites`), splits off the static parts
           (`algebra.static`), reads their rows or finds a table, and plans the rest (`plan.physical`), or
           falls back to the recomputing evaluator;
        6. `_begin` writes the registration to the registry, under the lock of registrations, and
           begins the query, or lets the query wait for its static rows.

        Args:
            registration: text and options.
            replace: True to drop the query that has the name, also an equal one; its feed continues with a
                reset event. Otherwise an equal query stays as it is (`queries.same` says what is equal).

        Raises:
            QueryTextError, UnsupportedError, InputError: the text or an option is wrong.
            ConflictError: the name is taken by another text or other options, or the stream or graph that the
                query would make is taken.
            LimitError: the maximum number of queries is registered, or the static parts are too large.
            NotFoundError: a stream is not declared, and the settings do not let queries declare streams.
        """
        self.parts.tasks.require_open()
        prepared = self.lifecycle.prepare(registration)
        existing = self.parts.catalogue.find(prepared.name) if prepared.name is not None else None
        if existing is not None and not replace:
            require_equal(self.lifecycle, existing, prepared.under_name(existing.name))
        # Remote sources are fetched outside of the lock, so a slow endpoint delays only this registration.
        specs = prepared.source_specs
        with self.parts.sources.acquired(specs) if specs else nullcontext():
            self.parts.sequencer.drain()
            return self._register(prepared, replace=replace)

    def _register(self, prepared: PreparedQuery, *, replace: bool) -> tuple[str, bool]:
        """Register a query under a claimed name; while it reads static parts, other registrations proceed."""
        parts = self.parts
        with ExitStack() as claims:
            name = claims.enter_context(parts.catalogue.claimed(prepared.name))
            prepared = prepared.under_name(name)
            with parts.admin:
                if self._is_registered(prepared, name, replace=replace):
                    return name, False
            wait_s: float | None = parts.settings.registration_wait_ms / 1000
            if prepared.into_graph is not None:
                # The graph of a view stays claimed until the query begins, so the registration waits for the
                # static parts.
                claims.enter_context(parts.views.claimed(prepared.into_graph, name))
                wait_s = None
            build = EvaluatorBuild(self.lifecycle.evaluator_maker(prepared), parts.threads)
            wait([build], wait_s)
            is_used = False
            try:
                with parts.admin:
                    # The checks of the registration are repeated, because another query may have begun while
                    # the evaluator was built.
                    if not self._is_registered(prepared, name, replace=replace):
                        self._begin(prepared, name, build)
                        is_used = True
                    return name, True
            finally:
                if not is_used:
                    build.release()

    def _is_registered(self, prepared: PreparedQuery, name: str, *, replace: bool) -> bool:
        """Return True if the same query is registered already; raise an error if the query cannot be."""
        existing = self.parts.catalogue.find(name)
        if existing is not None and not replace:
            require_equal(self.lifecycle, existing, prepared)
            return True
        self.parts.catalogue.check_room(existing)
        self.lifecycle.check_streams(prepared)
        return False

    def _begin(self, prepared: PreparedQuery, name: str, build: EvaluatorBuild) -> None:
        """Write a query to the registry and begin it; undo all steps if one step fails."""
        parts, lifecycle = self.parts, self.lifecycle
        evaluator = build.result() if build.done() else None
        existing = parts.catalogue.find(name)
        replacing, before = existing is not None, () if existing is None else streams_of(existing)
        parts.tasks.require_writable()
        rollback = Rollback(lifecycle)
        with rollback.on_failure():
            # The registry is written first, because it decides after a crash which queries exist.
            rollback.keep(name, replacing=replacing)
            record = parts.catalogue.write_registration(name, prepared.registration, replacing=replacing)
            if existing is not None:
                rollback.replace(existing)
                lifecycle.detach(existing)
            feed = existing.feed if existing is not None else lifecycle.new_feed(name)
            entry = QueryEntry(name, prepared.registration, feed, record.created_ms)
            rollback.begin(entry, prepared, replacing=replacing)
            parts.catalogue.add(entry)
            if evaluator is not None:
                lifecycle.run(entry, prepared, evaluator, reset=replacing)
            else:
                lifecycle.reserve(entry, prepared, build, reset=replacing)
        if before:
            remove_unused_streams(parts, before)

    def _begun_entry(self, name: str) -> QueryEntry:
        entry = self.parts.catalogue.get(name)
        if entry.pending is not None:
            raise ConflictError(
                f"the static parts of the query {name} are still being read",
                code="materialising",
                hint="GET /queries/{name} returns the progress; DELETE cancels the registration",
            )
        return entry

    def validate(self, registration: Registration) -> RunningQuery:
        """Return the query that a registration would create; the caller must close its evaluator.

        Raises: the errors of `register`.
        """
        prepared = self.lifecycle.prepare(registration)
        self.parts.sources.check_allowed(prepared.source_specs)
        with self.parts.admin:
            self.lifecycle.check_streams(prepared)
            if prepared.into_graph is not None:
                self.parts.views.check(prepared.into_graph, prepared.name or "")
        with entered(Progress(limited=True)):
            return self.trial(prepared, self.lifecycle.evaluator_maker(prepared)(), 1)

    def trial(self, prepared: PreparedQuery, evaluator: Evaluator, events: int) -> RunningQuery:
        """Create an unregistered query whose feed keeps ``events`` events and publishes them immediately."""
        name, settings = prepared.name or "", self.parts.settings
        now = self.parts.clock.now_ms()
        return RunningQuery(name, prepared, evaluator, Feed(name, history=events), settings, created_ms=now)

    def prepared(self, name: str) -> PreparedQuery | None:
        """Return the prepared query with this name; None for a query that does not exist or cannot run."""
        entry = self.parts.catalogue.find(name)
        return None if entry is None else entry.prepared

    def entailed_by(self, rule_set: str, *, with_windows: bool = False) -> list[str]:
        """Return the names of the queries whose registration names a rule set, or of those with windows."""
        entries = self.parts.starting.entries_of(self.parts.catalogue)
        found = [each for each in entries if each.registration.evaluation.entailment == rule_set]
        return [
            each.name
            for each in found
            if not with_windows or ((prepared := each.prepared) is not None and prepared.rules is not None)
        ]

    def flows(self) -> list[FlowEdge]:
        """Return what each query reads and makes, of those that make a stream or a view."""
        return flows_of(self.parts.catalogue.entries())

    def names(self) -> list[str]:
        """Return the names of all queries, in the order in which they last began."""
        return [entry.name for entry in self.parts.starting.entries_of(self.parts.catalogue)]

    def inspect(self, name: str, read: Callable[[QueryEntry, PendingQuery | RunningQuery | None], T]) -> T:
        """Return the result of ``read`` for a query, between two tasks if possible (`Sequencer.inspect`).

        The function ``read`` gets the query's entry, and the waiting or running query or None. If the query
        is being registered, replaced or dropped, the description waits for the end of that operation.
        """
        if self.parts.starting.active:
            return read(self.parts.starting.entry(name), None)
        for lock, passing in ((nullcontext(), _CONCURRENT_CLOSE), (self.parts.admin, ())):
            with lock, suppress(*passing):
                # Another thread may drop the query during the read, so each attribute is read only once.
                entry = self.parts.catalogue.get(name)
                pending, running = entry.pending, entry.running
                if pending is not None:
                    return read(entry, pending)
                if running is None and entry.state in ("failed", "paused"):
                    return read(entry, None)
                if running is not None:
                    result = self.parts.sequencer.inspect(partial(read, entry, running))
                    if entry.running is running:
                        return result
        return read(self.parts.catalogue.get(name), None)

    def inspect_all(self, read: Callable[[list[QueryEntry]], list[T]]) -> Iterator[T]:
        """Return the results of ``read`` for all queries, in batches between which the engine runs."""
        entries = self.parts.starting.entries_of(self.parts.catalogue)
        for begin in range(0, len(entries), _INSPECT_BATCH):
            yield from self.parts.sequencer.inspect(partial(read, entries[begin : begin + _INSPECT_BATCH]))

    def patch(self, name: str, changes: dict[str, Any]) -> None:
        """Pause or resume a query, or change its refresh or its limits.

        Raises:
            InputError: a member cannot be changed, or has a wrong value.
            ConflictError: the static parts of the query are still being read, or a failed query is paused.
            ReportedError: the query cannot be restarted.
        """
        if self.parts.starting.active and self.parts.starting.patch(name, changes):
            cancel_evaluation(self.parts.catalogue.find(name), 0.0)
            return
        is_behind = self.parts.router.laggards.is_behind
        found = self.parts.catalogue.find(name)
        stopped = changes == {"state": "paused"} and cancel_evaluation(found, _CANCEL_AFTER_S, is_behind)
        with self.parts.admin:
            entry = self._begun_entry(name)
            if stopped and entry.running is not None:
                self._pause_cancelled(entry, entry.running)
                return
            state, registration = self.parts.catalogue.parse_changes(entry, changes)
            self.parts.tasks.require_writable()
            if registration != entry.registration:
                entry.registration = registration
                self.parts.catalogue.update(entry)
                running = entry.running
                if running is not None:
                    task, options = SettingsTask(running, registration), registration.options()
                    self.parts.sequencer.perform(task, "registration", name=name, options=options)
            running = entry.running
            if running is None or running.state == "failed":
                if state == "running":
                    self.lifecycle.restart(entry)
            elif state is not None and state != running.state:
                self.parts.catalogue.set_state(entry, state, None)
                self.parts.sequencer.perform(PauseTask(running, state), "state", name=name, state=state)

    def _pause_cancelled(self, entry: QueryEntry, running: RunningQuery) -> None:
        """Pause a query whose evaluation was cancelled; its windows are lost, so it restarts empty."""
        with suppress(TimeoutError):
            self.parts.sequencer.call(int, TASK_WAIT_S)
        self.parts.sequencer.perform(PauseTask(running, "paused"), "state", name=entry.name, state="paused")
        if running.state == "failed":
            entry.running = None
        self.parts.catalogue.set_state(entry, "paused", running.error)

    def refresh(self, name: str) -> None:
        """Refresh the static parts of a query now.

        Raises:
            ConflictError: the query has failed, or its static parts are still being read.
        """
        running = self._begun_entry(name).running
        if running is None or running.state == "failed":
            raise ConflictError(f"the query {name} has failed", code="query-failed")
        self.parts.sources.refresh(running.prepared.source_specs)
        self.parts.tasks.require_writable()
        self.parts.sequencer.perform(RefreshTask(name, "request"), "refresh", name=name, cause="request")

    def replay(self, name: str, from_ms: int | None = None) -> dict[str, Any]:
        """Evaluate a query again over the retained elements of its streams, into a new epoch of its feed.

        For the repeated evaluation, the windows begin empty; the feed gets a reset event, and its ids
        continue. The retained elements are processed in the order in which they were accepted, with the
        present version of the static parts. A stream that the query derives gets only elements of instants
        after the stream's newest element. A paused or failed query is running afterwards. ``from_ms`` is
        the event time of the first element, by default that of the oldest retained element, which the result
        contains as ``retained_from``.

        Raises:
            ReportedError: the query cannot restart; the running query continues.
        """
        self.parts.tasks.require_open()
        with self.parts.admin:
            entry = self._begun_entry(name)
            task = self.lifecycle.restart(entry, NEVER if from_ms is None else from_ms)
        elements, running = sum(self.parts.sequencer.finish(task) or ()), task.running
        with self.parts.tasks.lock:
            states = map(self.parts.streams.find, running.timeline.inputs.streams)
            oldest = [each.retained.oldest for each in states if each is not None]
        return {
            "name": name,
            "from": from_ms,
            "retained_from": min((at for at in oldest if at is not None), default=None),
            "elements": elements,
            "first_id": entry.feed.history.epoch_id + 1,
            "state": running.state,
        }

    def drop(self, name: str, *, with_graph: bool = False) -> None:
        """Drop a query and end its feed; ``with_graph`` also deletes the graph of its view."""
        if self.parts.starting.active and self.parts.starting.stop(name, None):
            cancel_evaluation(self.parts.catalogue.find(name), 0.0)
            return
        cancel_evaluation(self.parts.catalogue.find(name), _CANCEL_AFTER_S)
        if name in self.parts.views.by_name:
            self.parts.views.wait(time.monotonic() + _VIEW_WAIT_S)
        with self.parts.admin:
            entry = self.parts.catalogue.get(name)
            self.parts.tasks.require_writable()
            view, streams = self.parts.views.by_name.get(name), streams_of(entry)
            self.parts.catalogue.remove(entry)
            self.lifecycle.detach(entry, dropped=True)
            entry.feed.close()
            if streams:
                remove_unused_streams(self.parts, streams)
        # The lock of registrations is released before the view's graph is deleted; if another query has made
        # a view of the same graph meanwhile, the deletion raises an error.
        if view is not None and with_graph and self.parts.store.reader.graph_exists(view.graph):
            self.parts.store.writer.delete_graph(view.graph, cause=f"view {name}")

    def current_answer(self, name: str) -> dict[str, Any]:
        """Return a query's current answer: SPARQL Results JSON, quads or a boolean.

        The answer also has the members ``at`` and ``version``.

        Raises:
            FeedGoneError: the query was dropped.
            ConflictError: the query has failed, or has not begun.
        """
        line, entry = self.feed(name).current(), self.parts.catalogue.get(name)
        if entry.state == "failed" and entry.pending is None:
            raise ConflictError(f"the query {name} has failed: {entry.error}", code="query-failed")
        if line is not None:
            document: dict[str, Any] = json.loads(line)
            return document
        running = self._begun_entry(name).running
        if running is None:
            raise ConflictError(f"the query {name} is {entry.state} and has no answer")
        return _empty_answer(running)

    def empty_answer(self, name: str) -> str | None:
        """Return a query's answer before its first evaluation as a JSON line; None before it has begun."""
        entry = self.parts.catalogue.find(name)
        if entry is None or entry.running is None or entry.pending is not None:
            return None
        return one_line(_empty_answer(entry.running))

    def feed(self, name: str) -> Feed:
        """Return the feed of a query.

        Raises:
            FeedGoneError: the query was dropped.
        """
        entry = self.parts.catalogue.find(name)
        if entry is None and self.parts.catalogue.was_dropped(name):
            raise FeedGoneError(f"the query {name} was dropped")
        return (entry or self.parts.catalogue.get(name)).feed


def _empty_answer(running: RunningQuery) -> dict[str, Any]:
    return {"at": None, "version": running.static.version, **running.emission.empty}


# --- registrations that fail ----------------------------------------------------------------------


class Rollback:
    """The undo steps of one registration, run newest first under the lock of registrations (`admin`)."""

    def __init__(self, lifecycle: QueryLifecycle) -> None:
        self._lifecycle = lifecycle
        self._parts = lifecycle.parts
        self._steps = ExitStack()

    @contextmanager
    def on_failure(self) -> Iterator[None]:
        """Run the undo steps if the ``with`` block raises an error; errors of steps are only logged."""
        with self._steps:
            yield
            self._steps.pop_all()

    def _add(self, name: str, step: Callable[..., Any], *args: Any) -> None:
        self._steps.callback(_run_undo, name, partial(step, *args))

    def keep(self, name: str, *, replacing: bool) -> None:
        """Add an undo step that restores the registry; call this before the registry is written."""
        undo = self._parts.catalogue.undo_of_write(name, replacing=replacing)
        self._add(name, undo)

    def replace(self, entry: QueryEntry) -> None:
        """Add an undo step that restarts a query with a new epoch; call this before the query is replaced."""
        self._add(entry.name, self._begin_again, entry, entry.pending is not None)

    def begin(self, entry: QueryEntry, prepared: PreparedQuery, *, replacing: bool) -> None:
        """Add undo steps that end a new query and remove the streams that its registration declares."""
        made = () if prepared.made_stream is None else (prepared.made_stream,)
        missing = [iri for iri in (*prepared.streams, *made) if self._parts.streams.find(iri) is None]
        self._add(entry.name, remove_unused_streams, self._parts, missing)
        self._add(entry.name, self._end, entry, replacing)

    # --- steps ----------------------------------------------------------------------------------

    def _end(self, entry: QueryEntry, replacing: bool) -> None:
        parts = self._parts
        parts.catalogue.discard(entry)
        self._lifecycle.undo_begin(entry, dropped=not replacing)
        if not replacing:
            entry.feed.close()

    def _begin_again(self, entry: QueryEntry, was_pending: bool) -> None:
        self._parts.catalogue.add(entry)
        if entry.state != "running" and not was_pending:
            return
        try:
            self._lifecycle.restart(entry)
        except EngineStoppedError:
            raise
        except Exception as error:
            self._parts.catalogue.set_state(entry, "failed", reason_of(error)[0])
            raise


def _run_undo(name: str, step: Callable[[], Any]) -> None:
    try:
        step()
    except Exception:
        log.exception("Could not undo a step of the failed registration of the query %s", name)
