"""The engine: streams, registered queries and their feeds behind one object.

Whatever moves a query (elements, heartbeats, ticks, commits) is accepted in one order and worked off by one
thread in that order, so results are a function of what was accepted. Other threads only accept, ask and wait.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyoxigraph import NamedNode

from quadrill.store.changes import Commit
from quadrill.store.errors import ConflictError, NotFoundError, QuadrillError
from quadrill.store.registry.records import QueryRecord, QueryState

from . import describe
from .accept import Acceptor, fingerprint_of
from .catalogue import Entry, QueryCatalogue
from .choice import EvaluatorChoice
from .clock import Clock
from .dispatch import Dispatcher
from .errors import EngineStoppedError, FeedGoneError, InputError
from .feeds import Feed
from .ingest.decode import DecodeOptions, decode
from .ingest.times import instant_ms
from .inputs import StreamInput
from .journal import Journal
from .keeper import Keeper
from .loop import Ticket, WorkLoop
from .prepare import Evaluator, PreparedQuery, prepare
from .registration import Registration
from .running import RunningQuery
from .settings import EngineSettings
from .streambook import StreamBook
from .streams import StreamState
from .turns import Turns

if TYPE_CHECKING:
    from quadrill.store.quads import QuadStore
    from quadrill.store.registry import Registry

log = logging.getLogger("quadrill.continuous")

MakeEvaluator = Callable[["PreparedQuery", "QuadStore", frozenset[NamedNode]], Evaluator]


def reference_evaluator(
    prepared: PreparedQuery, store: QuadStore, quoted_asserted: frozenset[NamedNode]
) -> Evaluator:
    """The evaluator by definition; ``quoted_asserted`` are the streams with that option."""
    from .reference import EvaluationOptions, ReferenceEvaluator

    registration = prepared.registration
    options = EvaluationOptions(
        name=prepared.name or "",
        window_default_graph=registration.window_default_graph,
        strict_dataset=registration.strict_dataset,
        quoted_asserted=quoted_asserted,
        base_iri=prepared.query.base_iri,
    )
    return ReferenceEvaluator(prepared.query, store, options)


class Engine:
    """Runs continuous queries over streams and a quad store. Every method may be called from any thread."""

    def __init__(
        self,
        store: QuadStore,
        registry: Registry | None,
        *,
        clock: Clock,
        settings: EngineSettings | None = None,
        make_evaluator: MakeEvaluator | None = None,
        journal: Journal | None = None,
    ) -> None:
        """Make an engine that is not running yet.

        Args:
            store: the background dataset; its commits are inputs.
            registry: where queries and streams are kept over restarts; None keeps them in memory only.
            clock: read for arrival stamps, idle time-outs and timers, never by an operator.
            settings: limits and defaults.
            make_evaluator: gives a query its evaluator; by default the native one where it can serve.
            journal: keeps inputs, windows and feeds over restarts and crashes; the engine closes it.
        """
        self._store = store
        self._registry = registry
        self._clock = clock
        self.settings = settings or EngineSettings()
        self._make_evaluator: MakeEvaluator = make_evaluator or EvaluatorChoice()
        self._turns = turns = Turns(clock, journal)
        self._loop = WorkLoop(threaded=self.settings.threaded, tick=self._tick, settle=turns.settle)
        self._acceptor = Acceptor(clock, self.settings, self._enqueue, lambda: self._loop.weight, journal)
        turns.connect(self._loop, self._acceptor)
        self._book = StreamBook(registry, clock, self.settings, self._acceptor.lock)
        self._acceptor.on_stamped = self._book.stamp
        self._catalogue = QueryCatalogue(registry, clock, self.settings)
        self._dispatcher = Dispatcher(
            self._acceptor, self._book, turns, self._query_failed, self._refresh_timed
        )
        self._keeper = None if journal is None else Keeper(self, journal)
        # Registrations, drops and declarations come one at a time.
        self._admin = threading.RLock()
        self._unsubscribe: Callable[[], None] | None = None

    # --- life -----------------------------------------------------------------------------------

    def start(self) -> None:
        """Restore streams and queries from the registry and begin to work."""
        if self._unsubscribe is not None:
            return
        if self._keeper is not None:
            self._keeper.recover()
        self._unsubscribe = self._store.subscribe(self._on_commit)
        self._loop.start()
        with self._admin:
            if self._keeper is not None:
                self._keeper.reconcile()
                self._loop.call(self._keeper.after_start)
                return
            self._turns.version = self._store.version
            self._book.restore()
            for record in self._catalogue.stored():
                self._restore(record)

    def stop(self) -> None:
        """Work off what was accepted, end every feed's subscribers, stop."""
        if self._unsubscribe is not None:
            self._unsubscribe()
            self._unsubscribe = None
        self._turns.stop()
        self._loop.stop()
        if self._keeper is not None:
            self._keeper.close()
        for entry in self._catalogue.entries():
            entry.feed.close()

    @property
    def running(self) -> bool:
        """True while the engine works."""
        return self._unsubscribe is not None and self._loop.alive

    def journal_state(self) -> dict[str, Any] | None:
        """Size and health of what keeps inputs and feeds; None without.

        ``trouble`` is why nothing is accepted now, None when all is well; ``recovery`` tells of the start.
        """
        journal = self._turns.journal
        if journal is None or self._keeper is None:
            return None
        return {
            "records": journal.last,
            "earliest": journal.log.earliest,
            "waiting": journal.last - journal.log.durable,
            "bytes": journal.log.size(),
            "trouble": journal.log.failure or self._turns.trouble,
            "settle_seconds": self._turns.settle_seconds,
            "settles": self._turns.settles,
            "checkpoint_seconds": self._keeper.took,
            "recovery": self._keeper.report,
        }

    def sync(self, timeout: float | None = 30.0) -> None:
        """Wait until everything accepted so far is processed and its results are in the feeds.

        Raises:
            TimeoutError: it took longer than ``timeout`` seconds.
        """
        self._store.wait_delivered(self._store.version, timeout or 3600.0)
        self._loop.call(lambda: None, timeout)

    def tick(self) -> None:
        """Look at the clock now: arrival-stamped streams, idle marks, refresh timers. For tests."""
        self._turns.retry()
        self._loop.call(self._dispatcher.look_at_clock)
        self._loop.call(lambda: None)

    # --- streams --------------------------------------------------------------------------------

    def declare_stream(
        self, iri: str | None = None, *, name: str | None = None, **options: Any
    ) -> tuple[dict[str, Any], bool]:
        """Declare a stream or change its options; its description and whether it is new.

        Raises:
            InputError: a wrong option, neither name nor IRI.
            ConflictError: the name belongs to another IRI or the other way round.
        """
        with self._admin:
            state, created = self._book.declare(iri, name, options)
            if created:
                self._tell_new_stream(state)
            return self.stream(state.iri), created

    def drop_stream(self, name_or_iri: str) -> None:
        """Forget a stream and what it retains.

        Raises:
            NotFoundError: there is none.
            ConflictError: a query reads or makes it.
        """
        with self._admin:
            state = self._book.get(name_or_iri)
            readers = self._reader_names(state.iri)
            if readers:
                raise ConflictError(
                    f"stream {state.name} is read by {', '.join(readers)}",
                    code="stream-in-use",
                    hint="Drop the queries first",
                )
            if state.derived_from is not None:
                raise ConflictError(
                    f"stream {state.name} is made by the query {state.derived_from}", code="stream-in-use"
                )
            self._book.remove(state)
            members = {"stream": state.iri, "created": state.record.created_ms}
            self._turns.call("unstream", members, lambda: None)

    def stream(self, name_or_iri: str) -> dict[str, Any]:
        """The description of one stream.

        Raises:
            NotFoundError: there is none.
        """
        state = self._book.get(name_or_iri)
        with self._acceptor.lock:
            return describe.describe_stream(state, self._reader_names(state.iri), self._clock.now_ms())

    def streams(self) -> list[dict[str, Any]]:
        """The descriptions of all streams, by name."""
        names = sorted(state.name for state in self._book)
        return [self.stream(name) for name in names if self._book.find(name) is not None]

    def dead_letters(self, name_or_iri: str) -> list[dict[str, Any]]:
        """The late elements kept of a stream, oldest first."""
        state = self._book.get(name_or_iri)
        with self._acceptor.lock:
            return describe.describe_dead_letters(state)

    def push(
        self,
        stream_ref: str,
        body: bytes,
        media_type: str,
        *,
        at: int | str | None = None,
        each: str | None = None,
        partial: bool = False,
        wait: bool = False,
        idempotency_key: str | None = None,
        timeout: float | None = 60.0,
    ) -> dict[str, Any]:
        """Accept the elements of a body; the JSON answer of the push.

        Args:
            stream_ref: name or IRI; an unknown stream is declared.
            body: the bytes.
            media_type: value of Content-Type, parameters included.
            at: the event time of every element that has none of its own line.
            each: ``triple`` makes one element of each triple.
            partial: accept the good elements and list the bad ones.
            wait: answer once every result that the push causes is in the feeds.
            idempotency_key: the same key and body get the same answer and nothing is accepted twice.
            timeout: seconds to wait at most.

        Raises:
            RdfSyntaxError, InputError, MediaTypeError, LimitError: the push is wrong; nothing was accepted.
            IdempotencyError: the key was used with another body.
            BackPressureError: the queue is full.
            NotFoundError: an unknown stream where streams are not declared by themselves.
        """
        self._check_running()
        self._turns.require_writable()
        fingerprint = fingerprint_of(body, media_type, at=at, each=each, partial=partial)
        state = self._open_stream(stream_ref)
        again = self._acceptor.remembered(state.iri, idempotency_key, fingerprint)
        if again is not None:
            self._wait_durable()
            return again.to_json()
        if state.derived_from is not None:
            raise ConflictError(
                f"stream {state.name} is made by the query {state.derived_from}, nothing else can enter it",
                code="derived-stream",
            )
        options = DecodeOptions(
            base_iri=self.settings.base_iri,
            at=None if at is None else instant_ms(at, "at"),
            each_triple=each == "triple",
            timestamp_property=state.timestamp_property,
            partial=partial,
        )
        decoded = decode(body, media_type, options)
        receipt, ticket = self._acceptor.push(
            state, decoded, partial=partial, key=idempotency_key, fingerprint=fingerprint
        )
        self._wait_durable()
        if wait and ticket is not None:
            ticket.wait(timeout)
        return receipt.to_json()

    def heartbeat(self, stream_ref: str, at_ms: int, *, wait: bool = False) -> None:
        """Move a stream's watermark without data.

        Raises:
            InputError: too far in the future.
            NotFoundError: an unknown stream where streams are not declared by themselves.
        """
        self._check_running()
        state = self._open_stream(stream_ref)
        if state.derived_from is not None:
            raise ConflictError(
                f"the watermark of stream {state.name} follows the query {state.derived_from}",
                code="derived-stream",
            )
        self._turns.require_writable()
        ticket = self._acceptor.heartbeat(state, at_ms)
        self._wait_durable()
        if wait:
            ticket.wait(60.0)

    # --- queries --------------------------------------------------------------------------------

    def register(self, registration: Registration, *, replace: bool = False) -> tuple[dict[str, Any], bool]:
        """Register a query; its description and whether it is new.

        Args:
            registration: text and options.
            replace: drop the query that has the name, if any; its feed goes on with a reset.

        Raises:
            QueryTextError, UnsupportedError, InputError: the text or an option is wrong.
            ConflictError: the name is taken by another text or other options.
        """
        self._check_running()
        prepared = prepare(registration, self.settings, _parse)
        with self._admin:
            name = prepared.name or self._catalogue.free_name()
            prepared = prepared.under_name(name)
            existing = self._catalogue.find(name)
            if existing is not None and not replace:
                self._catalogue.require_same(existing, prepared.registration)
                return self.describe(name), False
            self._catalogue.check_room(existing)
            self._check_streams(prepared)
            evaluator = self._evaluator(prepared)
            self._turns.require_writable()
            # The registry first: it decides after a crash what there is.
            record = self._catalogue.keep(name, prepared.registration, replacing=existing is not None)
            if existing is not None:
                self._detach(existing)
            feed = existing.feed if existing is not None else self._new_feed(name)
            entry = Entry(name, prepared.registration, feed, record.created_ms)
            self._catalogue.add(entry)
            self._run(entry, prepared, evaluator, reset=existing is not None)
            return self.describe(name), True

    def validate(self, registration: Registration) -> dict[str, Any]:
        """What registering would give: description, plan and warnings; nothing is registered."""
        prepared = prepare(registration, self.settings, _parse)
        with self._admin:
            self._check_streams(prepared)
        evaluator = self._evaluator(prepared)
        trial = RunningQuery(
            prepared.name or "",
            prepared,
            evaluator,
            Feed("", history=1),
            self.settings,
            created_ms=self._clock.now_ms(),
        )
        document = describe.describe_prepared(prepared, self._book.find)
        shown = describe.describe_running(trial, self._book.find, self._clock.now_ms())
        for member in ("engine", "streams", "windows", "version"):
            document[member] = shown[member]
        document["static_parts"] = shown["static_parts"]
        document["algebra"] = describe.algebra_text(prepared.query)
        text = describe.query_text(prepared.query)
        document["plan"] = describe.explain_text(document, document["algebra"], text)
        return document

    def describe(self, name: str) -> dict[str, Any]:
        """The description of a query.

        Raises:
            NotFoundError: no such query.
        """
        entry = self._catalogue.get(name)
        if entry.running is None:
            return self._catalogue.describe_failed(entry)
        with self._loop.pause():
            return describe.describe_running(entry.running, self._book.find, self._clock.now_ms())

    def queries(self) -> list[dict[str, Any]]:
        """The descriptions of all queries in the order of their registration."""
        found = []
        for entry in self._catalogue.entries():
            try:
                found.append(self.describe(entry.name))
            except NotFoundError:  # dropped in the meantime
                continue
        return found

    def explain(self, name: str, analyze: bool = False, as_json: bool | None = None) -> dict[str, Any] | str:
        """The plan of a query: text, or a document with live figures.

        Args:
            name: the query.
            analyze: with live figures.
            as_json: a document rather than text; by default when analyzing.
        """
        document = self.describe(name)
        entry = self._catalogue.get(name)
        if entry.running is None:
            algebra, text = f"none: {document['error']}", ""
        else:
            query = entry.running.prepared.query
            algebra, text = describe.algebra_text(query), describe.query_text(query)
            document["plan"] = entry.running.plan
        if not (analyze if as_json is None else as_json):
            return describe.explain_text(document, algebra, text)
        return describe.explain_document(document, algebra, analyze=analyze)

    def patch(self, name: str, changes: dict[str, Any]) -> dict[str, Any]:
        """Pause or resume a query, change how its static parts are refreshed or its memory limit.

        Raises:
            InputError: another member or a wrong value.
            NotFoundError: no such query.
        """
        with self._admin:
            entry = self._catalogue.get(name)
            state, registration = self._catalogue.changed(entry, changes)
            if registration != entry.registration:
                entry.registration = registration
                self._catalogue.update(entry)
                running = entry.running
                if running is not None:
                    self._turns.call(
                        "registration",
                        {"name": name, "options": registration.options()},
                        lambda: self._set_registration(running, registration),
                    )
            if state == "paused" and entry.running is not None and entry.running.state == "running":
                self._set_state(entry, entry.running, "paused")
            elif state == "running":
                self._resume(entry)
            return self.describe(name)

    def refresh(self, name: str) -> dict[str, Any]:
        """Refresh a query's static parts now; its description.

        Raises:
            NotFoundError: no such query.
            ConflictError: the query has failed.
        """
        entry = self._catalogue.get(name)
        running = entry.running
        if running is None or running.state == "failed":
            raise ConflictError(f"the query {name} has failed", code="query-failed")
        self._turns.call(
            "refresh",
            {"name": name, "cause": "request"},
            lambda: self._dispatcher.refresh(running, "request"),
        )
        return self.describe(name)

    def drop(self, name: str) -> None:
        """Drop a query; its feed ends.

        Raises:
            NotFoundError: no such query.
        """
        with self._admin:
            entry = self._catalogue.get(name)
            self._turns.require_writable()
            self._catalogue.remove(entry)
            self._detach(entry, dropped=True)
            entry.feed.close()

    def current_answer(self, name: str) -> dict[str, Any]:
        """The current answer: SPARQL Results JSON with ``at`` and ``version``, or quads, or a boolean.

        Raises:
            FeedGoneError: the query was dropped.
            NotFoundError: the name was never used.
        """
        import json

        feed = self.feed(name)
        line = feed.current()
        if line is not None:
            document: dict[str, Any] = json.loads(line)
            return document
        running = self._catalogue.get(name).running
        if running is None:
            raise ConflictError(f"the query {name} has failed and has no answer", code="query-failed")
        return running.empty_answer()

    def feed(self, name: str) -> Feed:
        """The feed of a query.

        Raises:
            FeedGoneError: the query was dropped.
            NotFoundError: the name was never used.
        """
        entry = self._catalogue.find(name)
        if entry is not None:
            return entry.feed
        if self._catalogue.was_dropped(name):
            raise FeedGoneError(f"the query {name} was dropped")
        return self._catalogue.get(name).feed

    # --- registration in detail -----------------------------------------------------------------

    def _evaluator(self, prepared: PreparedQuery) -> Evaluator:
        asserted = frozenset(NamedNode(state.iri) for state in self._book if state.record.quoted_asserted)
        return self._make_evaluator(prepared, self._store, asserted)

    def _new_feed(self, name: str) -> Feed:
        settings = self.settings
        return Feed(
            name,
            history=settings.feed_history,
            subscriber_buffer=settings.subscriber_buffer,
            outbox=None if self._keeper is None else self._turns.outbox,
        )

    def _check_streams(self, prepared: PreparedQuery) -> None:
        """What a query reads and makes must be possible."""
        self._catalogue.refuse_solution_streams(prepared)
        self._catalogue.refuse_cycles(prepared)
        self._book.check_output(prepared)
        self._book.require_known(prepared)

    def _run(
        self,
        entry: Entry,
        prepared: PreparedQuery,
        evaluator: Evaluator,
        *,
        paused: bool = False,
        reset: bool = False,
    ) -> None:
        """Attach a query in its turn: it sees what is accepted from now on."""
        for state in self._book.open_for(prepared):
            self._tell_new_stream(state)
        running = self._make_running(entry, prepared, evaluator, paused=paused)
        registration = prepared.registration
        members = {
            "name": entry.name,
            "text": registration.query,
            "dialect": registration.dialect,
            "options": registration.options(),
            "created": entry.created_ms,
            "paused": paused,
            "reset": reset,
        }
        self._turns.call("attach", members, lambda: self._attach(running, reset=reset))

    def _make_running(
        self, entry: Entry, prepared: PreparedQuery, evaluator: Evaluator, *, paused: bool
    ) -> RunningQuery:
        emit = None
        if prepared.makes_stream:
            emit = self._dispatcher.emitter(self._book.open_output(prepared, entry.name))
        running = RunningQuery(
            entry.name,
            prepared,
            evaluator,
            entry.feed,
            self.settings,
            created_ms=entry.created_ms,
            emit_element=emit,
        )
        running.before_refresh = self._turns.before_refresh
        running.after_refresh = self._turns.after_refresh
        if paused:
            running.state = "paused"
        entry.running = running
        return running

    def _attach(self, running: RunningQuery, *, reset: bool) -> None:
        """In its turn: the query begins."""
        self._turns.name_feed(running.feed)
        if reset:
            running.feed.reset()
        start = running.prepared.registration.start_from
        if start is None:
            self._dispatcher.attach(running, None)
        else:
            self._dispatcher.attach(running, lambda: self._retained(running, start))

    def _retained(self, running: RunningQuery, start: int) -> Iterable[StreamInput]:
        """What the streams of a query retain, without what waits in the queue and comes anyway."""
        return self._book.retained(running.timeline.streams, start, self._loop.waiting_orders())

    def _detach(self, entry: Entry, *, dropped: bool = False) -> None:
        running = entry.running
        if running is None and not dropped:
            return
        entry.running = None
        members = {"name": entry.name, "dropped": dropped}
        self._turns.call("detach", members, lambda: self._leave(entry, running, dropped=dropped))

    def _leave(self, entry: Entry, running: RunningQuery | None, *, dropped: bool) -> None:
        """In its turn: the query ends."""
        if running is not None:
            self._dispatcher.forget(running)
            self._book.release(running.name)
        if dropped:
            self._turns.drop_feed(entry.feed)

    def _query_failed(self, running: RunningQuery) -> None:
        entry = self._catalogue.find(running.name)
        if entry is not None:
            self._catalogue.set_state(entry, "failed", running.error)

    def _restore(
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
            feed = self._new_feed(record.name)
        if before is not None:
            number, place, last_id = before
            feed.restore([number, last_id, place, place, last_id], [])
        entry, registration = self._catalogue.restored(record, feed)
        if registration is None or record.state == "failed":
            return
        try:
            prepared = prepare(registration, self.settings, _parse).under_name(record.name)
            self._check_streams(prepared)
            evaluator = self._evaluator(prepared)
            self._run(entry, prepared, evaluator, paused=record.state == "paused", reset=reset)
        except Exception as error:
            log.warning("the query %s cannot be restored: %s", record.name, error)
            self._catalogue.set_state(entry, "failed", _sentence(error))

    def _resume(self, entry: Entry) -> None:
        running = entry.running
        if running is not None and running.state == "paused":
            self._set_state(entry, running, "running")
            return
        if running is not None and running.state == "running":
            return
        # A failed query begins anew, with new windows.
        prepared = prepare(entry.registration, self.settings, _parse).under_name(entry.name)
        evaluator = self._evaluator(prepared)
        self._detach(entry)
        self._catalogue.set_state(entry, "running", None)
        self._run(entry, prepared, evaluator, reset=True)

    def _set_state(self, entry: Entry, running: RunningQuery, state: QueryState) -> None:
        members = {"name": entry.name, "state": state}
        self._turns.call("state", members, lambda: self._dispatcher.set_state(running, state))
        self._catalogue.set_state(entry, state, None)

    def _set_registration(self, running: RunningQuery, registration: Registration) -> None:
        running.prepared = replace(running.prepared, registration=registration)
        self._dispatcher.set_timer(running)

    # --- inputs ---------------------------------------------------------------------------------

    def _enqueue(self, event: StreamInput, order: int) -> Ticket[None]:
        elements = getattr(event, "elements", ())
        at = self._clock.now_ms()
        return self._loop.submit(
            lambda: self._turns.run(order, at, lambda: self._dispatcher.dispatch(event)),
            weight=len(elements),
            order=order,
        )

    def _on_commit(self, commit: Commit) -> None:
        """Called by the store in a writer's thread: the commit takes its turn as an input."""
        members = {"version": commit.version, "at": commit.at_ms}
        try:
            self._turns.submit("commit", members, lambda: self._commit(commit))
        except EngineStoppedError:
            return

    def _commit(self, commit: Commit) -> None:
        self._turns.version = max(self._turns.version, commit.version)
        self._dispatcher.commit(commit)

    def _refresh_timed(self, running: RunningQuery) -> None:
        members = {"name": running.name, "cause": "timer"}
        self._turns.submit("refresh", members, lambda: self._dispatcher.refresh(running, "timer"))

    def _tick(self) -> float:
        """Look at the clock; the seconds until the next look is due. Called by the loop."""
        self._turns.retry()
        if self._keeper is not None and self._keeper.due():
            self._keeper.checkpoint()
        self._dispatcher.look_at_clock()
        return self._dispatcher.wait_ms(self.settings.tick_ms) / 1000

    def _tell_new_stream(self, state: StreamState) -> None:
        members = {"stream": state.iri, "created": state.record.created_ms}
        self._turns.call("stream", members, lambda: self._dispatcher.new_stream(state.iri))

    def _wait_durable(self) -> None:
        if self._turns.journal is not None:
            self._turns.journal.wait()

    def _open_stream(self, stream_ref: str) -> StreamState:
        """The stream of a reference, declared by itself when it is new."""
        state = self._book.find(stream_ref)
        if state is not None:
            return state
        with self._admin:
            state, created = self._book.open(stream_ref)
        if created:
            self._tell_new_stream(state)
        return state

    def _reader_names(self, iri: str) -> list[str]:
        return [running.name for running in self._dispatcher.readers(iri)]

    def _check_running(self) -> None:
        if not self.running:
            raise EngineStoppedError("the engine is not running")


def _sentence(error: Exception) -> str:
    return error.message if isinstance(error, QuadrillError) else f"{type(error).__name__}: {error}"


def _parse(text: str, **options: Any) -> Any:
    from .language.parser import parse

    return parse(text, **options)


__all__ = ["Engine", "EngineSettings", "InputError", "Registration", "reference_evaluator"]
