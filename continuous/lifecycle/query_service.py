"""What can be asked of an engine about queries: register, look at, change, drop, and their feeds."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar

from quadrill.store.errors import ConflictError
from quadrill.store.feeds.feed import Feed
from quadrill.store.results import one_line

from ..durable.tasks import Task
from ..errors import EngineStoppedError, FeedGoneError, reason_of
from ..evaluate.evaluator import Evaluator
from ..inputs import NEVER
from ..language.registration import Registration
from ..queries.catalogue import EvaluatorBuild, PendingQuery, QueryEntry
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..scheduler.sequencer import TASK_WAIT_S
from ..scheduler.task_kinds import PauseTask, RefreshTask, SettingsTask
from ..static.table_reading import Progress, entered
from .lifecycle import QueryLifecycle
from .parts import EngineParts
from .starting import cancel_evaluation

T = TypeVar("T")
log = logging.getLogger("quadrill.continuous")

_CANCEL_AFTER_S = 0.5
"""An evaluation that takes longer than this is called off by who pauses or drops its query."""
_VIEW_WAIT_S = 5.0
"""How long a drop waits for what its view has still to write."""
_INSPECT_BATCH = 250
_CONCURRENT_CLOSE = (LookupError, RuntimeError)
"""What a look may meet where tables are let go of meanwhile."""


class QueryService:
    """The operations of an engine on queries. Every method may be called from any thread.

    Methods that are given a name raise NotFoundError where no query has it.
    """

    def __init__(self, parts: EngineParts, lifecycle: QueryLifecycle) -> None:
        self.parts = parts
        self.lifecycle = lifecycle

    def register(self, registration: Registration, *, replace: bool = False) -> tuple[str, bool]:
        """Register a query; its name and whether it is new.

        The steps, each a function of the one before:

        1. `language.parse` makes the text an algebra with its windows and clauses;
        2. `queries.prepare` decides report, output and names from the text and the options;
        3. `lifecycle.prepare` adds what is read from other servers, and `sources.acquired` fetches it;
        4. name, streams and view are checked and claimed (`_register`);
        5. an evaluator rewrites the algebra (`algebra.rewrites`), splits off its static parts
           (`algebra.static`), whose rows it reads or finds, and plans the rest (`plan.physical`), or falls
           back to recomputing the answer;
        6. under the lock of registrations the registry keeps the query, and it begins to run, or when its
           static rows are there (`_begin`).

        Args:
            registration: text and options.
            replace: drop the query that has the name, if any; its feed goes on with a reset.

        Raises:
            QueryTextError, UnsupportedError, InputError: the text or an option is wrong.
            ConflictError: the name is taken by another text or other options.
        """
        self.parts.tasks.require_open()
        prepared = self.lifecycle.prepare(registration)
        existing = self.parts.catalogue.find(prepared.name) if prepared.name is not None else None
        if existing is not None and not replace:
            self.parts.catalogue.require_same(existing, prepared.under_name(existing.name).registration)
        # An endpoint that hangs holds up this registration, no other one.
        specs = prepared.source_specs
        with self.parts.sources.acquired(specs) if specs else nullcontext():
            self.parts.sequencer.drain()
            return self._register(prepared, replace=replace)

    def _register(self, prepared: PreparedQuery, *, replace: bool) -> tuple[str, bool]:
        """One registration of a name at a time; while its static parts are read others go on."""
        parts = self.parts
        with ExitStack() as claims:
            name = claims.enter_context(parts.catalogue.claimed(prepared.name))
            prepared = prepared.under_name(name)
            with parts.admin:
                if self._is_registered(prepared, name, replace=replace):
                    return name, False
            wait_s: float | None = parts.settings.registration_wait_ms / 1000
            if prepared.into_graph is not None:
                # The graph of a view is claimed until its query begins, so that it is waited for.
                claims.enter_context(parts.views.claimed(prepared.into_graph, name))
                wait_s = None
            build = EvaluatorBuild(self.lifecycle.evaluator_maker(prepared), parts.threads)
            wait([build], wait_s)
            used = False
            try:
                with parts.admin:
                    # What else began meanwhile may be in the way.
                    if not self._is_registered(prepared, name, replace=replace):
                        self._begin(prepared, name, build)
                        used = True
                    return name, True
            finally:
                if not used:
                    build.release()

    def _is_registered(self, prepared: PreparedQuery, name: str, *, replace: bool) -> bool:
        """True when the same query has the name already; raises where the query cannot take it."""
        existing = self.parts.catalogue.find(name)
        if existing is not None and not replace:
            self.parts.catalogue.require_same(existing, prepared.registration)
            return True
        self.parts.catalogue.check_room(existing)
        self.lifecycle.check_streams(prepared)
        return False

    def _begin(self, prepared: PreparedQuery, name: str, build: EvaluatorBuild) -> None:
        """Register a query and begin it; if any step fails, nothing of it is left."""
        parts, lifecycle = self.parts, self.lifecycle
        evaluator = build.result() if build.done() else None
        existing = parts.catalogue.find(name)
        replacing = existing is not None
        parts.tasks.require_writable()
        rollback = Rollback(lifecycle)
        with rollback.on_failure():
            # The registry first: it decides after a crash which queries exist.
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

    def _begun_entry(self, name: str) -> QueryEntry:
        entry = self.parts.catalogue.get(name)
        if entry.pending is not None:
            raise ConflictError(
                f"the static parts of the query {name} are still being read",
                code="materialising",
                hint="GET /queries/{name} tells how far it is; DELETE calls it off",
            )
        return entry

    def validate(self, registration: Registration) -> RunningQuery:
        """What registering would make, known to nobody; whoever asks closes its evaluator.

        Raises: as `register`.
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
        """A query that runs by itself, known to nobody; its feed keeps so many events, seen at once."""
        name, settings = prepared.name or "", self.parts.settings
        now = self.parts.clock.now_ms()
        return RunningQuery(name, prepared, evaluator, Feed(name, history=events), settings, created_ms=now)

    def prepared(self, name: str) -> PreparedQuery | None:
        """What the text of a registered query means; None where there is no such query, or it failed."""
        entry = self.parts.catalogue.find(name)
        return None if entry is None else entry.prepared

    def names(self) -> list[str]:
        """The names of all queries in the order of their registration."""
        return [entry.name for entry in self.parts.starting.entries_of(self.parts.catalogue)]

    def inspect(self, name: str, look: Callable[[QueryEntry, PendingQuery | RunningQuery | None], T]) -> T:
        """What ``look`` finds of a query, which stands still meanwhile: it waits or runs, or neither (None).

        One that is being registered or dropped, or whose place another takes just now, is waited for.
        """
        if self.parts.starting.active:
            return look(self.parts.starting.entry(name), None)
        for lock, passing in ((nullcontext(), _CONCURRENT_CLOSE), (self.parts.admin, ())):
            with lock, suppress(*passing):
                # Any thread may come here, so that each member is read once: a drop takes them away.
                entry = self.parts.catalogue.get(name)
                pending, running = entry.pending, entry.running
                if pending is not None:
                    return look(entry, pending)
                if running is None and entry.state in ("failed", "paused"):
                    return look(entry, None)
                if running is not None:
                    found = self.parts.sequencer.inspect(partial(look, entry, running))
                    if entry.running is running:
                        return found
        return look(self.parts.catalogue.get(name), None)

    def inspect_all(self, look: Callable[[list[QueryEntry]], list[T]]) -> Iterator[T]:
        """What ``look`` finds of all queries, so many at a time, between which the engine works."""
        entries = self.parts.starting.entries_of(self.parts.catalogue)
        for begin in range(0, len(entries), _INSPECT_BATCH):
            yield from self.parts.sequencer.inspect(partial(look, entries[begin : begin + _INSPECT_BATCH]))

    def patch(self, name: str, changes: dict[str, Any]) -> None:
        """Pause or resume a query, change how its static parts are refreshed or its memory limit.

        Raises:
            InputError: another member or a wrong value.
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
        """A query whose evaluation was called off is paused without its windows: it begins anew later."""
        with suppress(TimeoutError):
            self.parts.sequencer.call(int, TASK_WAIT_S)
        self.parts.sequencer.perform(PauseTask(running, "paused"), "state", name=entry.name, state="paused")
        if running.state == "failed":
            entry.running = None
        self.parts.catalogue.set_state(entry, "paused", running.error)

    def refresh(self, name: str) -> None:
        """Refresh a query's static parts now.

        Raises:
            ConflictError: the query has failed.
        """
        running = self._begun_entry(name).running
        if running is None or running.state == "failed":
            raise ConflictError(f"the query {name} has failed", code="query-failed")
        self.parts.sources.refresh(running.prepared.source_specs)
        self.parts.tasks.require_writable()
        self.parts.sequencer.perform(RefreshTask(name, "request"), "refresh", name=name, cause="request")

    def replay(self, name: str, from_ms: int | None = None) -> dict[str, Any]:
        """Evaluate a query once more over what its streams retain, into a new epoch of its feed.

        Windows begin empty, the feed gets a reset and its ids go on. The elements take the order in which
        they were accepted; the static parts are those of the present version. A stream that the query makes
        gets only instants that it has not got yet. A paused or failed query runs again. ``from_ms`` is the
        event time to begin at, by default that of the oldest retained element: ``retained_from``.

        Raises:
            ReportedError: it cannot begin anew; what ran goes on.
        """
        self.parts.tasks.require_open()
        with self.parts.admin:
            entry = self._begun_entry(name)
            task = self.lifecycle.restart(entry, NEVER if from_ms is None else from_ms)
        elements, running = sum(self.parts.sequencer.finish(task) or ()), task.running
        with self.parts.tasks.lock:
            found = map(self.parts.streams.find, running.timeline.inputs.streams)
            oldest = [each.retained.oldest for each in found if each is not None]
        return {
            "name": name,
            "from": from_ms,
            "retained_from": min((at for at in oldest if at is not None), default=None),
            "elements": elements,
            "first_id": entry.feed.epoch_id + 1,
            "state": running.state,
        }

    def drop(self, name: str, *, with_graph: bool = False) -> None:
        """Drop a query; its feed ends. Its view's graph is everybody's then, or goes, too, ``with_graph``."""
        if self.parts.starting.active and self.parts.starting.stop(name, None):
            cancel_evaluation(self.parts.catalogue.find(name), 0.0)
            return
        cancel_evaluation(self.parts.catalogue.find(name), _CANCEL_AFTER_S)
        if name in self.parts.views.by_name:
            self.parts.views.wait(time.monotonic() + _VIEW_WAIT_S)
        with self.parts.admin:
            entry = self.parts.catalogue.get(name)
            self.parts.tasks.require_writable()
            view = self.parts.views.by_name.get(name)
            self.parts.catalogue.remove(entry)
            self.lifecycle.detach(entry, dropped=True)
            entry.feed.close()
        # Others go on meanwhile: a query that makes the same graph by now keeps it.
        if view is not None and with_graph and self.parts.store.reader.graph_exists(view.graph):
            self.parts.store.writer.delete_graph(view.graph, cause=f"view {name}")

    def current_answer(self, name: str) -> dict[str, Any]:
        """The current answer: SPARQL Results JSON with ``at`` and ``version``, or quads, or a boolean.

        Raises:
            FeedGoneError: the query was dropped.
            ConflictError: it has failed, or not begun.
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
        """The line of the current answer before the first evaluation; None before the query has begun."""
        entry = self.parts.catalogue.find(name)
        if entry is None or entry.running is None or entry.pending is not None:
            return None
        return one_line(_empty_answer(entry.running))

    def feed(self, name: str) -> Feed:
        """The feed of a query.

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
    """Undo steps of one registration, newest first; called while registrations are locked (`admin`)."""

    def __init__(self, lifecycle: QueryLifecycle) -> None:
        self._lifecycle = lifecycle
        self._parts = lifecycle.parts
        self._steps = ExitStack()

    @contextmanager
    def on_failure(self) -> Iterator[None]:
        """Run the undo steps if the block raises; an undo step that fails is logged and the others run."""
        with self._steps:
            yield
            self._steps.pop_all()

    def _add(self, name: str, step: Callable[..., Any], *args: Any) -> None:
        self._steps.callback(_run_undo, name, partial(step, *args))

    def keep(self, name: str, *, replacing: bool) -> None:
        """Before the registry takes the query: have it hold afterwards what it holds now."""
        undo = self._parts.catalogue.undo_of_write(name, replacing=replacing)
        self._add(name, undo)

    def replace(self, entry: QueryEntry) -> None:
        """Before a running query is replaced: have it begin again, in a new epoch of its feed."""
        self._add(entry.name, self._begin_again, entry, entry.pending is not None)

    def begin(self, entry: QueryEntry, prepared: PreparedQuery, *, replacing: bool) -> None:
        """Before a query begins: end it, and remove the streams that only its registration declared."""
        made = () if prepared.made_stream is None else (prepared.made_stream,)
        missing = [iri for iri in (*prepared.streams, *made) if self._parts.streams.find(iri) is None]
        self._add(entry.name, self._remove_streams, missing)
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

    def _remove_streams(self, iris: Iterable[str]) -> None:
        """Remove streams that nobody has pushed to and no query reads."""
        parts = self._parts
        for iri in iris:
            state = parts.streams.find(iri)
            if state is None or parts.router.readers(state.iri):
                continue
            with parts.tasks.lock:
                had_inputs = state.counts.accepted or state.last_input_ms is not None
                unused = not had_inputs and state.derived_from is None
                if unused and not state.record.declared:
                    parts.streams.remove(state)
                    created = state.record.created_ms
                    parts.tasks.submit(Task(), "unstream", stream=state.iri, created=created)
        parts.sequencer.drain()


def _run_undo(name: str, step: Callable[[], Any]) -> None:
    try:
        step()
    except Exception:
        log.exception("Could not undo a step of the failed registration of the query %s", name)
