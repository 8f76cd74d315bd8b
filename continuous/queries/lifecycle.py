"""How a registered query begins, pauses, goes on and ends, each in its turn; the replay does the same."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from pyoxigraph import NamedNode

from quadrill.store.errors import QuadrillError
from quadrill.store.registry.records import QueryRecord, QueryState

from ..algebra.rewrites import prepare as rewritten
from ..errors import EngineStoppedError
from ..evaluate.evaluator import Evaluator
from ..inputs import StreamInput
from ..output.feed import Feed
from ..output.results import one_line
from ..output.view_content import ViewContent
from ..output.view_registry import View
from ..parts import EngineParts
from ..remote.described import described_every_ms
from ..remote.periods import Period
from ..remote.query import QuerySources
from ..remote.spec import SourceSpec, remote_graphs_of, services_of, specs_of
from ..streams.retained import LogRecord
from .catalogue import Entry
from .pending_registration import Making, Pending
from .prepare import PreparedQuery, prepare
from .registration import Registration
from .running import RunningQuery

log = logging.getLogger("quadrill.continuous")


_MOST_RESTARTS, _RESTART_SPAN_MS = 3, 600_000
"""A query that fails a fourth time within ten minutes stays failed."""


class QueryLifecycle:
    """The life of the queries of one engine. Whatever moves a query takes its turn."""

    def __init__(self, parts: EngineParts) -> None:
        self.parts = parts

    def prepare(self, registration: Registration) -> PreparedQuery:
        """Read a text with its options; raises QueryTextError, UnsupportedError or InputError."""
        return prepare(registration, self.parts.settings, _parse)

    def with_sources(
        self, prepared: PreparedQuery, known: list[dict[str, Any]] | None = None
    ) -> PreparedQuery:
        """The query with what it reads from other servers.

        Args:
            prepared: the query.
            known: what was found out when it was registered; by default it is found out now. Whether a graph
                is remote depends on what the store holds.
        """
        query, store = prepared.query, self.parts.store
        if known is not None:
            specs: tuple[SourceSpec, ...] = tuple(map(SourceSpec.from_json, known))
        else:
            timed, allows = isinstance(prepared.refresh, int), store.allowed_hosts.allows
            graphs = remote_graphs_of(query, store.graph_exists, lambda iri: timed or allows(iri))
            # Rewriting brings no SERVICE call along.
            calls = next(services_of(query.root), None) is not None
            specs = specs_of(query, rewritten(query) if calls else query.root, graphs)
        if not specs:
            return prepared
        return replace(prepared, sources=QuerySources(specs, self.parts.sources, query.base_iri))

    def read_sources(self, name: str, prepared: PreparedQuery) -> None:
        """What a query reads from other servers is fetched as often as it asks for.

        Where it does not say, a description of the source in the data does, or else the setting.
        """
        asked = prepared.refresh
        periods: dict[SourceSpec, Period | None] = {}
        for spec in prepared.source_specs:
            if asked == "trigger":
                described = described_every_ms(self.parts.store, spec)
                periods[spec] = None if described is None else Period(described or None, "description")
            else:
                periods[spec] = Period(asked if isinstance(asked, int) else None, "query")
        self.parts.sources.read_by(name, periods)

    def evaluator(self, prepared: PreparedQuery) -> Evaluator:
        """What computes the answers of a query, over the present version of the store."""
        asserted = frozenset(
            NamedNode(state.iri) for state in self.parts.streams if state.record.quoted_asserted
        )
        return self.parts.make_evaluator(prepared, self.parts.store, asserted)

    def new_feed(self, name: str) -> Feed:
        """An empty feed."""
        settings = self.parts.settings
        return Feed(
            name,
            history=settings.feed_history,
            subscriber_buffer=settings.subscriber_buffer,
            outbox=None if self.parts.sequencer.journal is None else self.parts.sequencer.outbox,
        )

    def check_streams(self, prepared: PreparedQuery) -> None:
        """What a query reads and makes must be possible."""
        self.parts.catalogue.refuse_solution_streams(prepared)
        self.parts.catalogue.refuse_cycles(prepared)
        self.parts.streams.check_output(prepared)
        self.parts.streams.require_known(prepared)

    def run(
        self,
        entry: Entry,
        prepared: PreparedQuery,
        evaluator: Evaluator,
        *,
        paused: bool = False,
        reset: bool = False,
        replay_from: int | None = None,
    ) -> int:
        """Attach a query in its turn: it sees what is accepted from now on.

        Args:
            entry: whose it is; what ran under its name before ends in the same turn.
            prepared: the query.
            evaluator: computes its answers.
            paused: it begins paused.
            reset: its feed goes on, with a reset.
            replay_from: the event time from which retained elements come first; by default that of ``start``.

        Returns:
            How many retained elements came first.
        """
        self._open_streams(prepared)
        running = self.make_running(entry, prepared, evaluator, paused=paused)
        registration = prepared.registration
        start = registration.start_from if replay_from is None else replay_from
        members = {**members_of(entry, prepared), "paused": paused, "reset": reset}
        members["looked_up"] = running.static.looked_up()
        if replay_from is not None:
            members["from"] = replay_from
        kept: dict[str, list[LogRecord]] = {}

        def begin() -> int:
            return self.attach(running, reset=reset, replay_from=replay_from, kept=kept)

        def noted() -> None:
            if start is not None:
                kept.update(self.parts.streams.kept_now())

        if self.parts.loop.inside:
            # A restart: its turn comes after this one.
            self.parts.sequencer.submit("attach", members, begin, noted)
            return 0
        return self.parts.sequencer.enter("attach", members, begin, noted)

    def make_running(
        self, entry: Entry, prepared: PreparedQuery, evaluator: Evaluator, *, paused: bool
    ) -> RunningQuery:
        """A query that is not attached yet, as its entry's."""
        self.parts.catalogue.note_result(prepared)
        emit = None
        if prepared.makes_stream:
            emit = self.parts.router.emitter(self.parts.streams.open_output(prepared, entry.name))
        running = RunningQuery(
            entry.name,
            prepared,
            evaluator,
            entry.feed,
            self.parts.settings,
            created_ms=entry.created_ms,
            emit_element=emit,
            notes=self.parts.sequencer,
        )
        self.read_sources(entry.name, prepared)
        if prepared.into_graph is not None:
            content = ViewContent(prepared.into_graph, evaluator.construct)
            running.view = View(entry.name, prepared.into_graph, content)
        if paused:
            running.state = "paused"
        entry.running = running
        return running

    def attach(
        self,
        running: RunningQuery,
        *,
        reset: bool,
        replay_from: int | None = None,
        kept: dict[str, list[LogRecord]] | None = None,
    ) -> int:
        """In its turn: the query begins, see `run`. ``kept`` is what its streams retained at its place."""
        self.parts.router.forget_name(running.name)
        self.parts.views.adopt(running.name, running.view)
        self.parts.sequencer.name_feed(running.feed)
        if reset:
            running.feed.reset()
        start = running.prepared.registration.start_from if replay_from is None else replay_from
        pending = self.end_waiting(running.name)
        if start is not None and pending is None:
            self.parts.sequencer.repeated = self.parts.sequencer.number
        if replay_from is not None:
            self.parts.streams.forget_failed(running.name, replay_from)
        repeats = replay_from is not None
        if running.statics is not None and not running.statics.known():
            self._put_off(running, pending, start, kept, repeats=repeats)
            return 0
        if pending is not None:
            return self._attach_late(running, pending, start, repeats=repeats)
        if start is None:
            return self.parts.router.attach(running, None)
        running.repeats = repeats
        try:
            return self.parts.router.attach(
                running, lambda: self.parts.streams.retained(running.timeline.streams, start, kept)
            )
        finally:
            running.repeats = False

    def _put_off(
        self,
        running: RunningQuery,
        pending: Pending | None,
        start: int | None,
        kept: dict[str, list[LogRecord]] | None,
        *,
        repeats: bool,
    ) -> None:
        """The rows of a static part are read anew just now: the query begins in the turn that has them."""
        if pending is None:
            pending = self.pending(running.name, running.prepared)
            if start is not None:
                pending.kept = self.parts.streams.kept_now() if kept is None else kept
        self.parts.router.reserve(pending)
        entry = self.parts.catalogue.find(running.name)
        if entry is not None:
            entry.pending = pending

        def begin() -> None:
            if running.statics is not None and running.statics.known():
                self.end_waiting(running.name)
                self._attach_late(running, pending, start, repeats=repeats)

        pending.begin = begin

    def _attach_late(
        self, running: RunningQuery, pending: Pending, start: int | None, *, repeats: bool
    ) -> int:
        """A query had to wait for its static parts: first comes what was kept for it meanwhile."""

        def inputs() -> Iterator[StreamInput]:
            if start is not None:
                running.repeats = repeats
                yield from self.parts.streams.retained(running.timeline.streams, start, pending.kept)
                running.repeats = False
            yield from pending.inputs

        if pending.problem is None:
            return self.parts.router.attach(running, inputs)
        self.parts.router.attach(running, None)
        self.parts.router.fail(running, pending.problem)
        return 0

    # --- while static parts are read ------------------------------------------------------------

    def pending(self, name: str, prepared: PreparedQuery) -> Pending:
        """What keeps the inputs of a query whose static parts are still being read."""
        self.parts.catalogue.note_result(prepared)
        collects = not prepared.registration.when_ready
        return Pending(name, prepared, self.parts.settings.waiting_elements, collects)

    def reserve(self, entry: Entry, prepared: PreparedQuery, making: Making, *, reset: bool) -> None:
        """In a turn of its own: from now on what arrives for the query is kept until it can begin."""
        self._open_streams(prepared)
        entry.pending = pending = self.pending(entry.name, prepared)
        pending.making = making
        members = {**members_of(entry, prepared), "paused": False, "reset": reset}
        self.parts.sequencer.enter("reserve", members, lambda: self.begin_waiting(entry, pending))
        making.then(lambda: self._made(entry, pending, reset=reset))

    def make(self, entry: Entry, pending: Pending) -> None:
        """A replay has found a query that still waits: its static parts are read again."""
        pending.making = making = Making(
            lambda: self.evaluator(pending.prepared), threaded=self.parts.settings.threaded
        )
        making.then(lambda: self._made(entry, pending, reset=entry.feed.last_id > 0))

    def begin_waiting(self, entry: Entry, pending: Pending) -> None:
        """In its turn, see `reserve`."""
        self.parts.router.forget_name(entry.name)
        self.parts.sequencer.name_feed(entry.feed)
        if pending.prepared.registration.start_from is not None:
            pending.kept = self.parts.streams.kept_now()
        self.parts.router.reserve(pending)

    def end_waiting(self, name: str) -> Pending | None:
        """In its turn: nothing is kept for the query any more."""
        pending = self.parts.router.unreserve(name)
        entry = self.parts.catalogue.find(name)
        if entry is not None and entry.pending is pending:
            entry.pending = None
        return pending

    def give_up(self, entry: Entry, message: str, code: str) -> None:
        """In its turn: the static parts cannot be read, the query has failed."""
        self.end_waiting(entry.name)
        self.parts.streams.release(entry.name)
        entry.feed.publish([("error", one_line({"at": None, "error": message, "code": code}))])
        self.parts.catalogue.set_state(entry, "failed", message)

    def _made(self, entry: Entry, pending: Pending, *, reset: bool) -> None:
        """In the thread that made it, or failed to: the query begins, or has failed."""
        assert pending.making is not None
        with self.parts.admin:
            if self.parts.catalogue.find(entry.name) is not entry or entry.pending is not pending:
                return
            try:
                try:
                    self.run(entry, pending.prepared, pending.making.result(), reset=reset)
                except EngineStoppedError:
                    raise
                except Exception as error:
                    self.parts.require_running()
                    self._unready(entry, pending, error)
            except EngineStoppedError:
                log.info("the static parts of %s are read again at the next start", entry.name)

    def _unready(self, entry: Entry, pending: Pending, error: Exception) -> None:
        reason = error if pending.problem is None else pending.problem
        log.warning("the query %s cannot begin: %s", entry.name, reason)
        message, code = sentence_of(reason), getattr(reason, "code", "internal")
        members = {"name": entry.name, "error": message, "code": code}
        self.parts.sequencer.enter("unready", members, lambda: self.give_up(entry, message, code))

    def _open_streams(self, prepared: PreparedQuery) -> None:
        for state in self.parts.streams.open_for(prepared):
            self.parts.tell_new_stream(state)

    # --- the end --------------------------------------------------------------------------------

    def detach(self, entry: Entry, *, dropped: bool = False) -> None:
        """End a query in its turn; ``dropped`` ends its feed, too."""
        running, pending = entry.running, entry.pending
        if running is None and pending is None and not dropped:
            return
        entry.running = entry.pending = None
        if pending is not None:
            pending.call_off()
        members = {"name": entry.name, "dropped": dropped}
        self.parts.sequencer.enter("detach", members, lambda: self.leave(entry, running, dropped=dropped))

    def leave(self, entry: Entry, running: RunningQuery | None, *, dropped: bool) -> None:
        """In its turn: the query ends."""
        if self.parts.router.unreserve(entry.name) is not None:
            self.parts.streams.release(entry.name)
        if running is not None:
            self.parts.router.forget(running)
            self.parts.streams.release(running.name)
            if running.statics is not None:
                running.statics.abandon()
        if dropped:
            self.parts.sources.read_by(entry.name, {})
            self.parts.views.close(entry.name)
            self.parts.sequencer.drop_feed(entry.feed)
            if running is not None:
                running.evaluator.close()

    def restore(
        self, record: QueryRecord, before: tuple[int, int, int] | None = None, feed: Feed | None = None
    ) -> None:
        """A query of the registry; one that cannot run is shown as failed with the reason.

        Args:
            record: the registration.
            before: number, place and last id of an earlier feed of the query; its ids are not given again.
            feed: goes on with a reset.
        """
        reset = feed is not None or before is not None
        if feed is None:
            feed = self.new_feed(record.name)
        if before is not None:
            number, place, last_id = before
            feed.restore([number, last_id, place, place, last_id], [])
        entry, registration = self.parts.catalogue.restored(record, feed)
        if registration is None or record.state == "failed":
            return
        try:
            prepared = self.with_sources(self.prepare(registration).under_name(record.name))
            self.check_streams(prepared)
            evaluator = self.evaluator(prepared)
            self.run(entry, prepared, evaluator, paused=record.state == "paused", reset=reset)
        except Exception as error:
            log.warning("the query %s cannot be restored: %s", record.name, error)
            self.parts.catalogue.set_state(entry, "failed", sentence_of(error))

    def resume(self, entry: Entry) -> None:
        """A paused query goes on, a failed one begins anew."""
        running = entry.running
        if running is not None and running.state == "paused":
            self.set_state(entry, running, "running")
            return
        if running is not None and running.state == "running":
            return
        self.begin_anew(entry)

    def begin_anew(self, entry: Entry, replay_from: int | None = None) -> int:
        """New windows and a new epoch of the feed; with ``replay_from`` retained elements come first.

        Returns:
            How many retained elements came first.

        Raises:
            QuadrillError: it cannot; what ran goes on.
        """
        running = entry.running
        known = None if running is None else _sources_of(running.prepared)
        prepared = self.with_sources(self.prepare(entry.registration).under_name(entry.name), known)
        self.check_streams(prepared)
        evaluator = self.evaluator(prepared)
        self.parts.sequencer.require_writable()
        self.parts.catalogue.set_state(entry, "running", None)
        # The order of the queries is that of their beginnings, as a recovery finds them.
        self.parts.catalogue.add(entry)
        return self.run(entry, prepared, evaluator, reset=True, replay_from=replay_from)

    def restart_failed(self) -> None:
        """Queries that failed begin anew where the settings say so. Called between inputs."""
        while self.parts.failed:
            entry = self.parts.failed.popleft()
            if self.parts.catalogue.find(entry.name) is not entry or entry.state != "failed":
                continue
            now = self.parts.clock.steady_ms()
            entry.restarts = [at for at in entry.restarts if now - at < _RESTART_SPAN_MS]
            if len(entry.restarts) >= _MOST_RESTARTS:
                log.error("the query %s has failed too often and stays failed", entry.name)
                continue
            entry.restarts.append(now)
            try:
                self.begin_anew(entry)
            except Exception as error:
                log.warning("the query %s cannot begin anew: %s", entry.name, error)
                self.parts.catalogue.set_state(entry, "failed", sentence_of(error))

    def set_state(self, entry: Entry, running: RunningQuery, state: QueryState) -> None:
        """Pause a query or let it go on, in its turn."""
        members = {"name": entry.name, "state": state}
        self.parts.sequencer.require_writable()
        self.parts.catalogue.set_state(entry, state, None)
        self.parts.sequencer.enter("state", members, lambda: self.parts.router.set_state(running, state))

    def set_registration(self, running: RunningQuery, registration: Registration) -> None:
        """In its turn: other settings."""
        prepared = replace(running.prepared, registration=registration)
        self.parts.router.change(running, lambda: setattr(running, "prepared", prepared))
        self.read_sources(running.name, running.prepared)
        self.parts.router.set_timer(running)


def members_of(entry: Entry, prepared: PreparedQuery | None) -> dict[str, Any]:
    """What the journal and checkpoints need to make the query again; None where it could not be prepared."""
    registration = entry.registration if prepared is None else prepared.registration
    return {
        "name": entry.name,
        "text": registration.query,
        "dialect": registration.dialect,
        "options": registration.options(),
        "created": entry.created_ms,
        "sources": [] if prepared is None else _sources_of(prepared),
    }


def _sources_of(prepared: PreparedQuery) -> list[dict[str, Any]]:
    """What a query reads from other servers."""
    return [spec.to_json() for spec in prepared.source_specs]


def sentence_of(error: Exception) -> str:
    """What a failed query shows as its reason."""
    return error.message if isinstance(error, QuadrillError) else f"{type(error).__name__}: {error}"


def _parse(text: str, **options: Any) -> Any:
    from ..language.parser import parse

    return parse(text, **options)


__all__ = ["QueryLifecycle", "members_of", "sentence_of"]
