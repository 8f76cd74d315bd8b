"""The router: delivers each input to the queries that read it, and isolates the failure of one query."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from time import monotonic
from typing import TypeAlias

from pyoxigraph import NamedNode

from quadrill.store.errors import LimitError, ReportedError
from quadrill.store.feeds.feed import Outbox
from quadrill.store.registry.records import QueryState

from ..durable.tasks import TaskQueue
from ..errors import BudgetError
from ..groups.group import QueryGroup
from ..groups.registry import GroupJoin, GroupRegistry
from ..inputs import Arrival, StreamInput
from ..queries.catalogue import PendingQuery, QueryCatalogue
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..settings import EngineSettings
from ..slices import SLICE, yield_control
from ..static.table import TableFrontier as Frontier
from ..streams.accept import Acceptor, StreamState
from ..streams.dead_letters import Reason
from ..streams.derived import DerivedStreams
from ..streams.registry import StreamRegistry
from .backlog import Reader
from .change_dispatcher import ChangeDispatcher
from .lagging_readers import LaggingReaders
from .shares import FairShares
from .timetable import Timetable

log = logging.getLogger("quadrill.continuous")

Readers: TypeAlias = dict[str, dict[RunningQuery | QueryGroup, None]]
"""The queries and groups that read each stream, by stream IRI, in the order of registration."""


class Router:
    """Delivers accepted inputs to the queries that read their streams.

    Only the engine's thread calls the router, except for `readers`.

    Attributes:
        pending: the queries that cannot begin yet because their static parts are still being read, by name.
        timetable: the work that is due by the clock.
        commit_readers: the queries that are notified of every commit, because they have no tables.
        shares: runs the work of readers in time slices.
    """

    def __init__(
        self,
        tasks: TaskQueue,
        acceptor: Acceptor,
        derived: DerivedStreams,
        streams: StreamRegistry,
        catalogue: QueryCatalogue,
        settings: EngineSettings,
        outbox: Outbox,
        frontier: Frontier,
    ) -> None:
        """Create a router without queries; ``frontier`` is the engine's version and task."""
        self._tasks = tasks
        self._acceptor = acceptor
        self._derived = derived
        self._streams = streams
        self._catalogue = catalogue
        self.pending: dict[str, PendingQuery] = {}
        self.commit_readers: set[RunningQuery] = set()
        # The attached queries by name, in the order of registration.
        self._attached: dict[str, RunningQuery] = {}
        self._positions: dict[str, int] = {}
        self._count: Iterator[int] = count()
        # Queries with a variable for the stream of a window, which may read any stream.
        self._variable_queries: dict[RunningQuery, None] = {}
        # The derived stream of each query, and the query of each derived stream.
        self._output_streams: dict[RunningQuery, StreamState] = {}
        self._producers: dict[str, RunningQuery] = {}
        # The readers of each stream: single queries, and groups on behalf of their members.
        self._readers: Readers = {}
        self._groups = GroupRegistry(outbox, shared_plans=settings.templates)
        sliced = settings.threaded or not settings.slice_ms
        self.shares = FairShares(
            self._tasks,
            frontier,
            settings.slice_ms / 1000 if sliced else None,
            self._producers,
            self._readers,
            self._groups.group_of,
        )
        self.changes = ChangeDispatcher(self, self._tasks, self._groups, self._attached, self._positions)
        self._groups.shares = self.shares if sliced else None
        most = settings.backlog_elements
        self.laggards = LaggingReaders(self, self.shares, self._groups, self._tasks, most)
        self.timetable = Timetable(self._tasks, self._acceptor, self._streams, self._readers)

    def readers(self, iri: str) -> list[str]:
        """Return the names of the queries that read a stream.

        Any thread may ask for the readers of a stream.
        """
        queries: list[RunningQuery] = []
        for reader in list(self._readers.get(iri, ())):
            queries += reader.members if isinstance(reader, QueryGroup) else [reader]
        return sorted((running.name for running in queries), key=lambda name: self._positions.get(name, 0))

    # --- queries --------------------------------------------------------------------------------

    def attach(self, running: RunningQuery, replay: Iterable[StreamInput], kept: list[int]) -> None:
        """Attach a query, which processes the retained inputs in ``replay`` before live inputs.

        After the replay of retained inputs, the number of replayed elements is appended to ``kept``.
        """
        self._enter(running)
        if self.shares.slice_s is None:
            self._begin(running, (replay, kept), self._tasks.at)
        else:
            self.shares.run_work(self._begin, [(running, (replay, kept))], self._tasks.at)
        self.deliver_derived()

    def _begin(
        self, running: RunningQuery, inputs: tuple[Iterable[StreamInput], list[int]], now: int
    ) -> None:
        """Run the first job of a query: the initial evaluation, the replay and the entry into a group."""
        replay, kept = inputs
        self.apply_to_query(running, RunningQuery.begin, now)
        replayed = 0
        try:
            for event in replay:
                replayed += len(event.elements) if isinstance(event, Arrival) else 0
                if running.state != "failed":
                    try:
                        running.handle((event,), now)
                    except Exception as error:
                        self.fail(running, error)
                    if (moment := monotonic()) > SLICE.until:
                        yield_control(moment)
        finally:
            running.is_replaying = False
        # The query's inputs differ from those of other queries, so it must not share a timeline with them.
        running.timeline.inputs.first = None
        running.timeline.inputs.missed.clear()
        if running.state != "failed" and running not in self.shares.backlogs:
            self._install_groups(self._groups.enter([running]))
        _derive_time(self._derived, running, self._output_streams.get(running))
        if isinstance(running.prepared.refresh, int):
            self.timetable.set(running)
        kept.append(replayed)

    def adopt(self, queries: Iterable[RunningQuery]) -> None:
        """Attach queries that were restored from a checkpoint; the queries continue at their last instant."""
        healthy = [running for running in queries if running.state != "failed"]
        for running in healthy:
            self._enter(running)
            self.index(running)
            self.timetable.set(running)
        self._install_groups(self._groups.enter(healthy))

    def _enter(self, running: RunningQuery) -> None:
        before = self._attached.get(running.name)
        if before is not None and before is not running:
            self.forget(before)
        self._attached[running.name] = running
        self._positions[running.name] = next(self._count)
        if running.static.statics is None:
            self.commit_readers.add(running)
        if not running.prepared.names_its_streams:
            self._variable_queries[running] = None
        iri = running.prepared.made_stream
        output = None if iri is None else self._streams.find(iri)
        if output is not None:
            self._output_streams[running] = output
            self._producers[output.iri] = running
        _require_lateness(self._streams, running.prepared, running.name)

    def reserve(self, pending: PendingQuery) -> None:
        """Collect inputs for a query that cannot begin yet."""
        self.pending[pending.name] = pending
        _require_lateness(self._streams, pending.prepared, pending.name)

    def forget(self, running: RunningQuery) -> None:
        """Detach a query and discard its backlog."""
        if self._attached.get(running.name) is running:
            self.laggards.stop(running)
            del self._attached[running.name]
            self._leave_group(running)
            del self._positions[running.name]
            self.commit_readers.discard(running)
            self._variable_queries.pop(running, None)
            if running.static.statics is not None:
                running.static.statics.stop()
            self.timetable.cancel(running.name)
            output = self._output_streams.pop(running, None)
            if output is not None and self._producers.get(output.iri) is running:
                del self._producers[output.iri]
            if output is not None:  # The derived stream gets no input until another query derives it.
                self._derived.move_time(output, None, idle=True)
        for readers in self._readers.values():
            readers.pop(running, None)

    def forget_name(self, name: str) -> None:
        """Detach the query with this name, if there is one."""
        running = self._attached.get(name)
        if running is not None:
            self.forget(running)

    def set_state(self, running: RunningQuery, state: QueryState) -> None:
        """Pause or resume a query; do nothing if the query has failed.

        A lagging query that is paused fails, because its place in the input order is lost; when
        this query is resumed, it restarts with empty windows.
        """
        if running.state == "failed":
            return
        running.evaluator.budget.stop = ""
        if state == "paused" and self.shares.backlog_owner(running) in self.shares.backlogs:
            message = f"the query {running.name} was paused while it was behind"
            self.fail(running, BudgetError(message, again=False, code="cancelled"))
            return
        self.shares.run_work(self._set_state, [(running, state)], self._tasks.at)
        self.deliver_derived()

    def _set_state(self, running: RunningQuery, state: QueryState, now: int) -> None:
        self.leave_shared_plan(running)
        self._leave_group(running)
        running.bring_up_to_date()
        running.state = state
        if state == "running":
            self.apply_to_query(running, lambda running, now: running.evaluate_now(now, now), now)
            self._install_groups(self._groups.enter([running]))

    def leave_shared_plan(self, running: RunningQuery) -> None:
        """Take a query out of its shared plan, so that the next work affects this query only."""
        self._groups.set_apart(running)
        self.fail_members()

    def change(self, running: RunningQuery, prepared: PreparedQuery) -> None:
        """Give a query other settings, after which it may join or leave a group."""
        self.shares.run_work(self._change, [(running, prepared)], self._tasks.at)

    def _change(self, running: RunningQuery, prepared: PreparedQuery, _: int) -> None:
        self.leave_shared_plan(running)
        self._leave_group(running)
        running.prepared = prepared
        running.costs.always = running.costs.due = prepared.registration.costs.of_minutes
        running.evaluator.budget.limit(prepared.limits)
        if self._attached.get(running.name) is running:
            self._install_groups(self._groups.enter([running]))
        self.timetable.set(running)

    def _leave_group(self, running: RunningQuery) -> None:
        """Take a query out of its group; if the query is still attached, it becomes a reader of its own."""
        attached = self._attached.get(running.name) is running
        group = self._groups.group_of(running)
        # A failed query keeps its group's timeline, because clients may still read its position.
        empty_group = self._groups.leave(running, ended=not attached and running.state != "failed")
        if empty_group is not None:
            del self._readers[empty_group.stream][empty_group]
        self.index(running)
        if attached and group is not None and group in self.shares.backlogs:
            self.shares.hand_over(group, running, self.changes.job_after_leaving)
        self.fail_members()

    def _install_groups(self, joined: Iterable[GroupJoin]) -> None:
        """Register groups as readers of streams instead of the queries that joined them."""
        for group, instead_of in joined:
            readers = self._readers[group.stream]
            for each in instead_of:
                readers.pop(each, None)
            readers[group] = None
        self.fail_members()

    def fail_members(self) -> None:
        """Mark the group members that failed during a group's work as failed queries."""
        failures = self._groups.failures.copy()
        self._groups.failures.clear()
        for running, error in failures:
            self.fail(running, error)

    # --- inputs ---------------------------------------------------------------------------------

    def dispatch(self, events: Sequence[StreamInput], now: int) -> None:
        """Deliver queued inputs to their readers, then deliver the inputs that queries derived.

        Each reader gets all of the queued inputs for its streams at once. If one of the readers derives a
        stream, every reader gets the first input before any gets the second, because a query may read that
        stream and one of these inputs.
        """
        derived, readers = self._derived.inputs, self._readers
        if len(events) > 1 and self._output_streams.keys() & _in_order(readers, events).keys():
            for event in events:
                self.dispatch((event,), now)
            return
        while True:
            if len(events) == 1:
                inputs_of_readers = dict.fromkeys(readers.get(events[0].stream, ()), events)
            else:
                inputs_of_readers = _in_order(readers, events)
            for pending in self.pending.values():
                for event in events:
                    pending.collect(event)
            sliced = self.shares.slice_s is not None
            if sliced:
                self.shares.run_work(self._handle, inputs_of_readers.items(), now)
            for reader, inputs in () if sliced else inputs_of_readers.items():
                if (
                    isinstance(reader, QueryGroup)
                    or reader.state == "failed"
                    or reader in self._output_streams
                ):
                    self._handle(reader, inputs, now)
                    continue
                try:
                    reader.handle(inputs, now)
                except Exception as error:
                    self.fail(reader, error)
            for event in events:
                if type(event) is Arrival and event.admit_late:
                    of_readers = readers.get(event.stream, ())
                    self._streams.keep_missed(event, [each.timeline.inputs.missed for each in of_readers])
            for event in events if self._groups.waiting else ():
                waiting, mark = self._groups.waiting.get(event.stream), event.after.watermark()
                if waiting and mark is not None and waiting[0][0] <= mark:
                    self._install_groups(self._groups.join(event.stream, mark))
            if not derived:
                return
            events = (derived.popleft(),)

    def _handle(self, reader: Reader, inputs: Sequence[StreamInput], now: int) -> None:
        """Let one reader process the inputs of its streams."""
        if isinstance(reader, QueryGroup):
            reader.handle(inputs, now)
            self.fail_members()
            for running in [each for each in self.shares.backlogs if each in reader.members]:
                # A member with a private backlog leaves the group, so that the other members need not wait
                # for it.
                self._leave_group(running)
            return
        if reader.state != "failed":
            try:
                reader.handle(inputs, now)
            except Exception as error:
                self.fail(reader, error)
        if self._output_streams and reader in self._output_streams:
            _derive_time(self._derived, reader, self._output_streams[reader])

    def new_stream(self) -> None:
        """Register queries with unbound stream variables as readers of a newly declared stream."""
        for running in list(self._variable_queries):
            if running.timeline.windows.reads_every_stream:
                self.index(running, everywhere=running in self.shares.backlogs)

    def apply_to_query(
        self, running: RunningQuery, work: Callable[[RunningQuery, int], object], now: int
    ) -> None:
        """Run work that may bind stream variables of a query; the query fails if the work raises an error."""
        if running.state == "failed":
            return
        try:
            work(running, now)
        except Exception as error:
            self.fail(running, error)
        self.index(running)
        _derive_time(self._derived, running, self._output_streams.get(running))

    def fail(self, running: RunningQuery, error: Exception) -> None:
        """Mark one query as failed, and store the elements at which it failed as dead letters."""
        event = running.failure.at
        running.fail(error)
        trace = None if isinstance(error, ReportedError) else error
        log.warning("The query %s has failed: %s", running.name, running.error, exc_info=trace)
        if isinstance(error, BudgetError) and not error.again:
            # A failure that depends on time gets a journal record, because a replay could not reproduce it.
            details = {"after": running.last.evaluations, "error": running.error, "code": error.code}
            self._tasks.record_outcome("failed", turn=self._tasks.number, query=running.name, **details)
        if event is not None and (isinstance(error, BudgetError) or not isinstance(error, LimitError)):
            reason: Reason = "budget" if isinstance(error, BudgetError) else "failed"
            self._streams.keep_failed(event, running.timeline.instant, running.name, running.error, reason)
        self.forget(running)
        self._catalogue.note_failed(running.name, running.error)

    def index(self, running: RunningQuery, *, everywhere: bool = False) -> None:
        """Register a query as a reader of its streams and of those that its variables are bound to.

        With ``everywhere``, register the query for every stream that a variable may be bound to by the time
        of the input.
        """
        attached = self._attached.get(running.name) is running
        if not attached or running.state == "failed" or running.group.siblings is not None:
            return
        unbound = everywhere and running in self._variable_queries
        if running.timeline.windows.reads_every_stream and not everywhere:
            for state in self._streams:
                running.timeline.add_stream(state.iri)
        for iri in [each.iri for each in self._streams] if unbound else running.timeline.inputs.streams:
            self._readers.setdefault(iri, {})[running] = None

    def drop_unread_streams(self, running: RunningQuery) -> None:
        """Unregister a query as a reader of streams that it has no window on."""
        if running in self._variable_queries:
            self.index(running)
            for iri, readers in self._readers.items():
                if iri not in running.timeline.inputs.views:
                    readers.pop(running, None)

    # --- streams --------------------------------------------------------------------------------

    def deliver_derived(self) -> None:
        """Deliver the elements that queries derived to the readers of the derived streams."""
        derived = self._derived.inputs
        if derived:
            self.dispatch((derived.popleft(),), self._tasks.at)


def _in_order(
    readers: Readers, events: Sequence[StreamInput]
) -> dict[RunningQuery | QueryGroup, Sequence[StreamInput]]:
    """Return the readers of some inputs, each with the inputs of its streams in order."""
    inputs_of_readers: dict[RunningQuery | QueryGroup, Sequence[StreamInput]] = {}
    by_stream: dict[str, list[StreamInput]] = {}
    for event in events:
        by_stream.setdefault(event.stream, []).append(event)
    for stream, inputs in by_stream.items():
        for reader in readers.get(stream, ()):
            if reader in inputs_of_readers:
                streams = reader.timeline.inputs.views
                inputs_of_readers[reader] = [event for event in events if event.stream in streams]
            else:
                inputs_of_readers[reader] = inputs
    return inputs_of_readers


def _derive_time(derived: DerivedStreams, running: RunningQuery, output: StreamState | None) -> None:
    """Set a derived stream's watermark and idleness to those of the query that derives it."""
    if output is not None and output.derived_from == running.name:
        inputs = running.timeline.inputs
        idle = not any(view.active and not view.idle for view in inputs.views.values())
        derived.move_time(output, inputs.watermark, idle=idle)


def _require_lateness(streams: StreamRegistry, prepared: PreparedQuery, name: str) -> None:
    """Raise the lateness of streams to the lateness that a query asks for."""
    lateness: dict[str, int] = {}
    for window in prepared.query.windows:
        if isinstance(window.stream, NamedNode):
            iri = window.stream.value
            before = lateness.get(iri, prepared.registration.lateness)
            lateness[iri] = max(before, window.lateness_ms or 0)
    streams.wait_for(name, lateness)
