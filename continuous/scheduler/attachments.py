"""How queries begin, wait for their static parts and end, in a live engine as in a replay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from quadrill.store.feeds.feed import Outbox
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.views import ViewRegistry
from quadrill.store.results import one_line

from ..durable.tasks import TaskQueue
from ..inputs import StreamInput
from ..language.registration import Registration
from ..queries.catalogue import PendingQuery, QueryCatalogue, QueryEntry
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..remote.described import period_of
from ..remote.source_registry import SourceRegistry
from ..settings import EngineSettings
from ..streams.registry import StreamRegistry
from .router import Router
from .task_kinds import AttachTask


@dataclass(slots=True, eq=False)
class Attachments:
    """Begins and ends queries, which become readers of their streams.

    The sequencer or a replay calls the methods that begin and end queries; `new_pending`, `keep_retained` and
    `read_sources` are also called by threads that register queries.

    Attributes:
        last_retained_read: the journal record of the newest task that read the retained elements of streams.
    """

    _store: QuadStore
    _tasks: TaskQueue
    _router: Router
    _streams: StreamRegistry
    _catalogue: QueryCatalogue
    _sources: SourceRegistry
    _views: ViewRegistry
    _outbox: Outbox
    _settings: EngineSettings
    last_retained_read: int = 0

    # --- beginning ------------------------------------------------------------------------------

    def attach(self, task: AttachTask) -> list[int]:
        """Begin a query, or let it wait for its static parts; return how many retained elements it processed.

        The number of processed retained elements is the only item of the returned list, which gets it when
        they are processed. A query that cannot begin gets the state ``failed``. A query whose replay of
        retained elements breaks off stays attached, and the error is raised.
        """
        try:
            return self._attach(task)
        except Exception as error:
            if task.replay_from is not None:
                raise
            self.end_waiting(task.running.name)
            self._router.fail(task.running, error)
            if self._tasks.replayed_versions is not None:
                # A replay continues after such an error, because the journal has the outcome of the query.
                return []
            raise

    def _attach(self, task: AttachTask) -> list[int]:
        running, replay_from = task.running, task.replay_from
        self._router.forget_name(running.name)
        if running.view is not None or running.name in self._views.by_name:
            self._views.adopt(running.name, running.view)
        self._outbox.name(running.feed, self._tasks.number)
        if task.reset:
            running.feed.reset()
        start = running.prepared.registration.start_from if replay_from is None else replay_from
        pending = self.end_waiting(running.name)
        if pending is None:
            pending = self.new_pending(running.name, running.prepared)
            if start is not None:
                self.last_retained_read = self._tasks.number
                pending.retained = self._streams.kept_now() if task.kept is None else task.kept
        pending.running, pending.start, pending.is_replay = running, start, replay_from is not None
        if replay_from is not None:
            self._streams.forget_failed(running.name, replay_from)
        if running.static.statics is None or running.static.statics.known(
            self._tasks.version_to_read(running.name)
        ):
            return self._begin(running, pending)
        # A static part is being reloaded, so the query begins in the task that has the new rows.
        pending.task = self._tasks.number
        self._router.reserve(pending)
        entry = self._catalogue.find(running.name)
        if entry is not None:
            entry.pending = pending
        return []

    def begin_ready_queries(self) -> None:
        """Begin the queries that were waiting for tables to be reloaded, if all their rows are known now."""
        for pending in list(self._router.pending.values()):
            running = pending.running
            if running is not None and running.static.statics is not None and running.static.statics.known():
                version = running.static.statics.steps.frontier.version
                self._tasks.record_outcome("seen", turn=pending.task, query=running.name, version=version)
                self.end_waiting(running.name)
                self._begin(running, pending)

    def _begin(self, running: RunningQuery, pending: PendingQuery) -> list[int]:
        """Attach a query, which first processes retained elements and the inputs collected for it."""
        kept = list[int]()
        if pending.problem is not None:
            self._router.attach(running, (), kept)
            self._router.fail(running, pending.problem)
        elif pending.start is None:
            self._router.attach(running, pending.inputs, kept)
        else:
            running.is_replaying = pending.is_replay
            self._router.attach(running, self._first_inputs(running, pending, pending.start), kept)
        return kept

    def _first_inputs(
        self, running: RunningQuery, pending: PendingQuery, start: int
    ) -> Iterator[StreamInput]:
        yield from self._streams.retained(running.timeline.inputs.streams, start, pending.retained)
        running.is_replaying = False
        yield from pending.inputs

    # --- waiting for static parts ---------------------------------------------------------------

    def new_pending(self, name: str, prepared: PreparedQuery) -> PendingQuery:
        """Create the object that collects inputs for a query whose static parts are still being read."""
        self._catalogue.index_flows(prepared)
        collects = prepared.registration.start != "when-ready"
        return PendingQuery(name, prepared, self._settings.waiting_elements, collects)

    def keep_retained(self, pending: PendingQuery) -> None:
        """Store the retained elements that a query with ``start: {"from": ...}`` processes first.

        The caller holds the input lock, and submits the task of `begin_waiting` before it releases the lock.
        A replay of the journal needs no lock, because no input is accepted during it.
        """
        if pending.prepared.registration.start_from is not None:
            pending.retained = self._streams.kept_now()

    def begin_waiting(self, entry: QueryEntry, pending: PendingQuery) -> None:
        """Collect inputs for a query from now on, until the query can begin."""
        self._router.forget_name(entry.name)
        self._outbox.name(entry.feed, self._tasks.number)
        if pending.prepared.registration.start_from is not None:
            self.last_retained_read = self._tasks.number
        self._router.reserve(pending)

    def end_waiting(self, name: str) -> PendingQuery | None:
        """Stop collecting inputs for the query ``name``; return the `PendingQuery` that did, or None."""
        pending = self._router.pending.pop(name, None)
        entry = self._catalogue.find(name)
        if entry is not None and entry.pending is pending:
            entry.pending = None
        return pending

    def fail_pending(self, entry: QueryEntry, reason: str, code: str) -> None:
        """Mark a query as failed because its static parts cannot be read."""
        self.end_waiting(entry.name)
        self._streams.release(entry.name)
        line = one_line({"at": None, "error": reason, "code": code})
        entry.feed.publish([("error", line)])
        self._catalogue.set_state(entry, "failed", reason)

    def fail(self, running: RunningQuery, error: Exception) -> None:
        """Mark a query as failed, unless it has failed already, was dropped or has restarted."""
        entry = self._catalogue.find(running.name)
        if entry is not None and entry.running is running and running.state != "failed":
            self._router.fail(running, error)

    # --- changes and the end of queries ---------------------------------------------------------

    def change(self, running: RunningQuery, registration: Registration) -> None:
        """Give a running query other settings."""
        self._router.change(running, replace(running.prepared, registration=registration))
        self.read_sources(running.name, running.prepared)

    def read_sources(self, name: str, prepared: PreparedQuery) -> None:
        """Fetch the remote sources of a query as often as the query asks for.

        If the query has no period, the period comes from a description of the source in the store, or else
        from the settings.
        """
        specs = prepared.source_specs
        periods = {spec: period_of(self._store.reader, spec, prepared.refresh) for spec in specs}
        if periods or name in self._sources.readers:
            self._sources.read_by(name, periods)

    def detach(self, entry: QueryEntry, running: RunningQuery | None, dropped: bool) -> None:
        """End a query; with ``dropped``, end its feed, too."""
        self._router.pending.pop(entry.name, None)
        self._streams.release(entry.name)
        if running is not None:
            self._router.forget(running)
            self._router.deliver_derived()
            if running.static.statics is not None:
                running.static.statics.close()
        if dropped:
            self._sources.read_by(entry.name, {})
            self._views.close(entry.name)
            self._outbox.drop(entry.feed)
            if running is not None:
                running.evaluator.close()
