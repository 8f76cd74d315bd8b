"""The router: gives each input to the queries that read it; a failure stays alone."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import InitVar, dataclass, field
from itertools import count
from typing import TypeAlias

from pyoxigraph import NamedNode

from quadrill.store.changes.commit import Commit
from quadrill.store.errors import LimitError, QuadrillError
from quadrill.store.feeds.feed import Outbox
from quadrill.store.registry.records import QueryState

from ..durable.turns import TurnQueue
from ..errors import BudgetError
from ..groups.group import Group
from ..groups.registry import GroupRegistry, Joined
from ..inputs import NEVER, Arrival, StreamInput
from ..queries.catalogue import Pending, QueryCatalogue
from ..queries.prepare import PreparedQuery
from ..queries.running import RunningQuery
from ..settings import EngineSettings
from ..streams.accept import Acceptor, StreamState
from ..streams.dead_letters import Reason
from ..streams.movements import idle_in, tick, ticks_at
from ..streams.registry import StreamRegistry
from .turn_kinds import RefreshTurn

log = logging.getLogger("quadrill.continuous")

Readers: TypeAlias = dict[str, dict[RunningQuery | Group, None]]
"""Who takes the inputs of a stream, in the order of registration."""


@dataclass(slots=True, eq=False)
class Timetable:
    """When streams and refreshes are due. Everything is called in the loop.

    Attributes:
        _readers: who takes the inputs of a stream.
        _timers: queries whose static parts are refreshed by timer: when next, and how often.
        _due: when something is due for a stream, as of the last look.
    """

    _turns: TurnQueue
    _acceptor: Acceptor
    _streams: StreamRegistry
    _readers: Mapping[str, Iterable[RunningQuery | Group]]
    _timers: dict[str, tuple[int, int]] = field(default_factory=dict)
    _due: dict[str, int] = field(default_factory=dict)

    def set(self, running: RunningQuery) -> None:
        """Begin to wait for a query's next refresh, where its static parts are refreshed every so often."""
        refresh = running.prepared.refresh
        if isinstance(refresh, int) and running.state != "failed":
            self._timers[running.name] = self._turns.clock.steady_ms() + refresh, refresh
        else:
            self.cancel(running.name)

    def cancel(self, name: str) -> None:
        """Refresh the query of this name no more."""
        self._timers.pop(name, None)

    def look(self, every_ms: int = 0) -> None:
        """Move arrival-stamped streams, mark silent ones idle, refresh what is due.

        A stream is moved when something is due for one of its readers, and every ``every_ms`` in any case:
        each movement is a record of the journal and a turn.
        """
        now, steady = self._turns.clock.now_ms(), self._turns.clock.steady_ms()
        for state in self._streams:
            due, looked = self._due.get(state.iri), state.looked_steady
            if (due is not None and due <= now) or looked is None or steady - looked >= every_ms:
                state.looked_steady = steady
                tick(self._acceptor, self._turns, state, now)
        for name, (at, every) in list(self._timers.items()):
            if at <= steady:
                self._timers[name] = self._turns.clock.steady_ms() + every, every
                self._turns.submit(RefreshTurn(name, "timer"), "refresh", name=name, cause="timer")

    def wait_ms(self, at_most: int) -> int:
        """Milliseconds until something is due."""
        now = self._turns.clock.now_ms()
        steady = self._turns.clock.steady_ms()
        due = [now + at_most, *(now + at - steady for at, _ in self._timers.values())]
        self._due.clear()
        for state in self._streams:
            if ticks_at(state, NEVER) is not None:
                instants = [reader.timeline.next_due() for reader in self._readers.get(state.iri, ())]
                found = [ticks_at(state, instant) for instant in instants if instant is not None]
                if due_at := [at for at in found if at is not None]:
                    self._due[state.iri] = min(due_at)
            elif (left := idle_in(state, self._turns.clock)) is not None:
                self._due[state.iri] = now + left
        return max(1, min([*due, *self._due.values()]) - now)


@dataclass(eq=False)
class Router:
    """Gives inputs to the queries that read them. Everything is called in the loop, one thing at a time.

    Attributes:
        pending: the queries that cannot begin yet, as their static parts are still being read, by name.
        timetable: what is due by the clock.
        unfollowing: the queries that have to be told of every commit.
    """

    _turns: TurnQueue
    _acceptor: Acceptor
    _streams: StreamRegistry
    _catalogue: QueryCatalogue
    settings: InitVar[EngineSettings]
    outbox: InitVar[Outbox]
    pending: dict[str, Pending] = field(default_factory=dict)
    unfollowing: set[RunningQuery] = field(default_factory=set)
    # In the order of registration.
    _attached: dict[str, RunningQuery] = field(default_factory=dict)
    _places: dict[str, int] = field(default_factory=dict)
    _count: Iterator[int] = field(default_factory=count)
    # Queries with windows on variable streams, which may read every stream there is.
    _unbound: dict[RunningQuery, None] = field(default_factory=dict)
    # The streams that queries make.
    _outputs: dict[RunningQuery, StreamState] = field(default_factory=dict)
    # Those that take inputs by themselves, and groups that do for their members.
    _readers: Readers = field(default_factory=dict)

    def __post_init__(self, settings: EngineSettings, outbox: Outbox) -> None:
        self._groups = GroupRegistry(outbox, common_plans=settings.templates)
        self.timetable = Timetable(self._turns, self._acceptor, self._streams, self._readers)

    def readers(self, iri: str) -> list[str]:
        """The names of the queries that read a stream. May be called from any thread."""
        found: list[RunningQuery] = []
        for reader in list(self._readers.get(iri, ())):
            found += reader.members if isinstance(reader, Group) else [reader]
        return sorted((running.name for running in found), key=lambda name: self._places.get(name, 0))

    # --- queries --------------------------------------------------------------------------------

    def attach(self, running: RunningQuery, replay: Iterable[StreamInput]) -> int:
        """From now on the query gets inputs; those of ``replay``, what its streams retain, come first.

        Returns:
            How many elements ``replay`` gave.
        """
        now = self._turns.at
        self._enter(running)
        self._move([running], lambda running: running.begin(now))
        replayed = 0
        for event in replay:
            replayed += len(event.elements) if isinstance(event, Arrival) else 0
            if running.state != "failed":
                try:
                    running.handle((event,), now)
                except Exception as error:
                    self.fail(running, error)
        # What it was given is not what others were.
        running.timeline.inputs.first = None
        running.timeline.inputs.missed.clear()
        if running.state != "failed":
            self._take_places(self._groups.enter([running]))
        _derive_time(self._acceptor, running, self._outputs.get(running))
        self.timetable.set(running)
        self.deliver_derived()
        return replayed

    def adopt(self, queries: Iterable[RunningQuery]) -> None:
        """Queries go on where they were before a restart."""
        going_on = [running for running in queries if running.state != "failed"]
        for running in going_on:
            self._enter(running)
            self._index(running)
            self.timetable.set(running)
        self._take_places(self._groups.enter(going_on))

    def _enter(self, running: RunningQuery) -> None:
        before = self._attached.get(running.name)
        if before is not None and before is not running:
            self.forget(before)
        self._attached[running.name] = running
        self._places[running.name] = next(self._count)
        if running.statics is None:
            self.unfollowing.add(running)
        if not running.prepared.names_its_streams:
            self._unbound[running] = None
        iri = running.prepared.made_stream
        output = None if iri is None else self._streams.find(iri)
        if output is not None:
            self._outputs[running] = output
        _wait_for_disorder(self._streams, running.prepared, running.name)

    def reserve(self, pending: Pending) -> None:
        """From now on inputs are kept for a query that cannot begin yet."""
        self.pending[pending.name] = pending
        _wait_for_disorder(self._streams, pending.prepared, pending.name)

    def forget(self, running: RunningQuery) -> None:
        """The query gets no more inputs."""
        if self._attached.get(running.name) is running:
            del self._attached[running.name]
            self._leave_group(running)
            del self._places[running.name]
            self.unfollowing.discard(running)
            self._unbound.pop(running, None)
            if running.statics is not None:
                running.statics.stop()
            self.timetable.cancel(running.name)
            if output := self._outputs.pop(running, None):  # nothing comes until another query makes it
                self._acceptor.derive_time(output, None, idle=True)
        for readers in self._readers.values():
            readers.pop(running, None)

    def forget_name(self, name: str) -> None:
        """Give no more inputs to the query of this name."""
        running = self._attached.get(name)
        if running is not None:
            self.forget(running)

    def set_state(self, running: RunningQuery, state: QueryState) -> None:
        """Pause or resume a query, which may have failed since that was asked for."""
        if running.state == "failed":
            return
        running.evaluator.budget.stop = ""
        self.part(running)
        self._leave_group(running)
        running.settle()
        running.state = state
        if state == "running":
            self._move([running], lambda running: running.evaluate_now(self._turns.at, self._turns.at))
            self._take_places(self._groups.enter([running]))
            self.deliver_derived()

    def part(self, running: RunningQuery) -> None:
        """Set a query apart from its common plan: what comes next is for it alone."""
        self._groups.set_apart(running)
        self._fail_members()

    def change(self, running: RunningQuery, prepared: PreparedQuery) -> None:
        """Let a query have other settings, which may make it fit for a group or not any more."""
        self.part(running)
        self._leave_group(running)
        running.prepared = prepared
        running.evaluator.budget.limit(prepared.limits)
        if self._attached.get(running.name) is running:
            self._take_places(self._groups.enter([running]))
        self.timetable.set(running)

    def _leave_group(self, running: RunningQuery) -> None:
        """A query takes inputs by itself, if any more."""
        attached = self._attached.get(running.name) is running
        # Of one that has failed people ask where it stood.
        left = self._groups.leave(running, ended=not attached and running.state != "failed")
        if left is not None:
            del self._readers[left.stream][left]
        self._index(running)
        self._fail_members()

    def _take_places(self, joined: Iterable[Joined]) -> None:
        """Groups get inputs in the place of others."""
        for group, instead_of in joined:
            readers = self._readers[group.stream]
            for each in instead_of:
                readers.pop(each, None)
            readers[group] = None
        self._fail_members()

    def _fail_members(self) -> None:
        """What failed in a group stops alone."""
        failures = self._groups.failures.copy()
        self._groups.failures.clear()
        for running, error in failures:
            self.fail(running, error)

    # --- inputs ---------------------------------------------------------------------------------

    def dispatch(self, events: Sequence[StreamInput], now: int) -> None:
        """Give inputs that are in line to their readers, then what they made them derive to theirs.

        One reader gets all, then the next; where one makes a stream, which may be read beside these, all
        get the first, then the next.
        """
        derived, readers = self._acceptor.derived, self._readers
        if len(events) > 1 and self._outputs.keys() & _in_order(readers, events).keys():
            for event in events:
                self.dispatch((event,), now)
            return
        while True:
            if len(events) == 1:
                given = dict.fromkeys(readers.get(events[0].stream, ()), events)
            else:
                given = _in_order(readers, events)
            for pending in self.pending.values():
                for event in events:
                    pending.take(event)
            for reader, inputs in given.items():
                if isinstance(reader, Group):
                    reader.handle(inputs, now)
                    self._fail_members()
                    continue
                if reader.state != "failed":
                    try:
                        reader.handle(inputs, now)
                    except Exception as error:
                        self.fail(reader, error)
                if self._outputs and reader in self._outputs:
                    _derive_time(self._acceptor, reader, self._outputs[reader])
            for event in events:
                if type(event) is Arrival and event.admit_late:
                    of_readers = readers.get(event.stream, ())
                    self._streams.keep_missed(event, [each.timeline.inputs.missed for each in of_readers])
            for event in events if self._groups.waiting else ():
                waiting, mark = self._groups.waiting.get(event.stream), event.after.watermark()
                if waiting and mark is not None and waiting[0][0] <= mark:
                    self._take_places(self._groups.join(event.stream, mark))
            if not derived:
                return
            events = (derived.popleft(),)

    def commit(self, commit: Commit, moved: Sequence[str]) -> None:
        """A new version of the store is an input: of the queries, by name, whose tables it ``moved``."""
        if moved or self.unfollowing:
            told = self._alone(moved, self.unfollowing)
            self._move(told, lambda running: running.commit(commit, self._turns.at))
            self.deliver_derived()

    def sources_changed(self, key: str) -> None:
        """What was fetched from elsewhere is another content: an input of the queries that read it."""
        specs_of = {running: running.prepared.source_specs for running in self._attached.values()}
        read = [running for running, specs in specs_of.items() if any(spec.key == key for spec in specs)]
        self._move(read, lambda running: running.sources_changed(self._turns.at))
        self.deliver_derived()

    def step(self, moved: Iterable[str]) -> None:
        """Tables have moved on without a commit taking its turn."""
        self._move(self._alone(moved, ()), lambda running: running.take_steps(self._turns.at))
        self.deliver_derived()

    def _alone(self, names: Iterable[str], others: Iterable[RunningQuery]) -> list[RunningQuery]:
        """The queries of these names and the others, in the order of registration.

        Groups take the steps of members of common plans: these are not among them.
        """
        named = (self._attached.get(name) for name in names)
        moved = list({*others, *(running for running in named if running is not None)})
        if len(moved) > 1:
            moved.sort(key=lambda running: self._places[running.name])
        alone = self._groups.take_steps(moved, self._turns.at)
        self._fail_members()
        return alone

    def refresh(self, name: str, cause: str) -> None:
        """Refresh a query's static parts and tell what follows; nothing once it has ended."""
        running = self._attached.get(name)
        if running is None:
            return
        self.part(running)
        now = self._turns.at
        self._move([running], lambda running: running.refresh(now, cause, now))
        self.deliver_derived()

    def new_stream(self) -> None:
        """A stream was declared: windows on unbound variables read every stream there is."""
        for running in list(self._unbound):
            if running.timeline.windows.reads_every_stream:
                self._index(running)

    def _move(self, queries: Iterable[RunningQuery], work: Callable[[RunningQuery], object]) -> None:
        """Something moves queries, which may bind stream variables; one that fails stops alone."""
        for running in queries:
            try:
                work(running)
            except Exception as error:
                self.fail(running, error)
            self._index(running)
            _derive_time(self._acceptor, running, self._outputs.get(running))

    def fail(self, running: RunningQuery, error: Exception) -> None:
        """A query stops alone; the elements at which it did are kept as dead letters."""
        event = running.failed_at
        running.fail(error)
        trace = None if isinstance(error, QuadrillError) else error
        log.warning("the query %s has failed: %s", running.name, running.error, exc_info=trace)
        if isinstance(error, BudgetError) and not error.again:
            # A replay would come further, or to the same end once more.
            told = {"after": running.evaluations, "error": running.error, "code": error.code}
            self._turns.note_of_turn("failed", turn=self._turns.number, query=running.name, **told)
        if event is not None and (isinstance(error, BudgetError) or not isinstance(error, LimitError)):
            reason: Reason = "budget" if isinstance(error, BudgetError) else "failed"
            self._streams.keep_failed(event, running.timeline.instant, running.name, running.error, reason)
        self.forget(running)
        self._catalogue.note_failed(running.name, running.error)

    def _index(self, running: RunningQuery) -> None:
        """Enter a query as a reader of its streams, those of variables as static data binds them now."""
        attached = self._attached.get(running.name) is running
        if not attached or running.state == "failed" or running.companions is not None:
            return
        if running.timeline.windows.reads_every_stream:
            for state in self._streams:
                running.timeline.add_stream(state.iri)
        for iri in running.timeline.inputs.streams:
            self._readers.setdefault(iri, {})[running] = None

    def deliver_derived(self) -> None:
        """Give what queries derived in this turn to its readers."""
        derived = self._acceptor.derived
        if derived:
            self.dispatch((derived.popleft(),), self._turns.at)


def _in_order(
    readers: Readers, events: Sequence[StreamInput]
) -> dict[RunningQuery | Group, Sequence[StreamInput]]:
    """Who reads some inputs, each with those of its streams in their order."""
    given: dict[RunningQuery | Group, Sequence[StreamInput]] = {}
    by_stream: dict[str, list[StreamInput]] = {}
    for event in events:
        by_stream.setdefault(event.stream, []).append(event)
    for stream, inputs in by_stream.items():
        for reader in readers.get(stream, ()):
            if reader in given:
                streams = reader.timeline.inputs.views
                given[reader] = [event for event in events if event.stream in streams]
            else:
                given[reader] = inputs
    return given


def _derive_time(acceptor: Acceptor, running: RunningQuery, output: StreamState | None) -> None:
    """Move a derived stream's watermark with its query's; it is idle while all that the query reads is."""
    if output is not None and output.derived_from == running.name:
        inputs = running.timeline.inputs
        idle = not any(view.active and not view.idle for view in inputs.views.values())
        acceptor.derive_time(output, inputs.watermark, idle=idle)


def _wait_for_disorder(streams: StreamRegistry, prepared: PreparedQuery, name: str) -> None:
    """Let streams wait for disordered elements as long as a query asks for."""
    lateness: dict[str, int] = {}
    for window in prepared.query.windows:
        if isinstance(window.stream, NamedNode):
            iri = window.stream.value
            before = lateness.get(iri, prepared.registration.lateness)
            lateness[iri] = max(before, window.lateness_ms or 0)
    streams.wait_for(name, lateness)
