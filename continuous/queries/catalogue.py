"""The registered queries by name, in memory and in the registry: running, paused, failed or waiting to begin.

A query whose static parts take long to read is registered immediately, and its inputs are collected:

    register ── read within a moment ──► attached, running
        └─ takes longer ─► task "reserve": state `materialising`, inputs are collected
                               └─ tables complete ─► task "attach": the query processes the collected inputs

A separate thread reads a query's static parts, so neither other queries nor other registrations wait.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from quadrill.store.errors import (
    ConflictError,
    InputError,
    LimitError,
    NotFoundError,
    QueryTextError,
    ReportedError,
)
from quadrill.store.feeds.feed import Feed
from quadrill.store.registry import Registry
from quadrill.store.registry.records import QueryRecord, QueryState
from quadrill.store.threads import Threads

from ..algebra.flows import FlowEdge, find_cycle, is_read
from ..algebra.graphs import Flow
from ..clock import Clock
from ..durable.tasks import weight_of
from ..evaluate.evaluator import Evaluator
from ..inputs import Arrival, LogRecord, StreamInput
from ..language.registration import Registration
from ..settings import EngineSettings
from ..static.table_reading import Progress, entered
from .prepare import PreparedQuery
from .running import RunningQuery

_REBUILD_AFTER = 1_000


class EvaluatorBuild(Future[Evaluator]):
    """The build of an evaluator, which takes as long as the reading of its static parts.

    Attributes:
        progress: the progress of the evaluator's tables.
    """

    def __init__(self, make: Callable[[], Evaluator], threads: Threads) -> None:
        """Start the build within the limits of static rows, in a thread if the engine uses threads."""
        super().__init__()
        self.progress = Progress(limited=True)
        self._make = make
        if threads.threaded:
            threads.start(self._run, "quadrill-materialise")
        else:
            self._run()

    def _run(self) -> None:
        try:
            with entered(self.progress):
                evaluator = self._make()
        except BaseException as error:
            self.set_exception(error)
        else:
            self.set_result(evaluator)

    def release(self) -> None:
        """Cancel the build of an unused evaluator; close the evaluator if it is built anyway."""
        self.progress.called_off = True
        self.add_done_callback(lambda made: None if made.exception() else made.result().close())


@dataclass(eq=False)
class PendingQuery:
    """A query that waits for its static parts.

    Attributes:
        max_elements: the maximum of collected elements.
        collects: True if inputs are collected; False for ``start: when-ready``.
        retained: with ``start: {"from": ...}``, the retained inputs of its streams at the registration.
        build: the build of its evaluator; None while no thread builds one, as in a replay.
        inputs: the inputs that arrived since the registration.
        elements: the weight of the elements in ``inputs``.
        problem: the error because of which the query cannot begin; None if there is none.
        running: the query itself if it only waits for a table that is being reloaded, since the task
            ``task``.
        start: the event time from which the query processes retained elements first; None for no such
            elements.
        is_replay: True if the retained elements were evaluated before.
        begun: the place in the order of all streams' inputs after which inputs are collected.
    """

    name: str
    prepared: PreparedQuery
    max_elements: int
    collects: bool = True
    retained: dict[str, list[LogRecord]] = field(default_factory=dict)
    build: EvaluatorBuild | None = None
    inputs: list[StreamInput] = field(default_factory=list)
    elements: int = 0
    problem: LimitError | None = None
    running: RunningQuery | None = None
    task: int = 0
    start: int | None = None
    is_replay: bool = False
    begun: int | None = None
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._streams = frozenset(self.prepared.streams) if self.prepared.names_its_streams else None

    def reads(self, stream: str) -> bool:
        """Return True if the waiting query reads a stream, or may read it through a stream variable."""
        return self._streams is None or stream in self._streams

    def collect(self, event: StreamInput) -> None:
        """Collect an input for the waiting query; give up the query if it has collected too many elements."""
        if not self.collects or self.problem is not None or not self.reads(event.stream):
            return
        self.inputs.append(event)
        if isinstance(event, Arrival):
            self.elements += weight_of(event.elements)
        if self.elements > self.max_elements:
            self.problem = LimitError(
                f"more than {self.max_elements} elements arrived "
                f"while the static parts of {self.name} were read",
                limit=self.max_elements,
                hint='Raise the setting max_waiting_elements, or register with "start": "when-ready"',
            )
            self.inputs.clear()
            self.cancel()

    def cancel(self) -> None:
        """Cancel the build of the waiting query's evaluator."""
        if self.build is not None:
            self.build.progress.called_off = True


def is_awaited(stream: str, pending: Mapping[str, PendingQuery]) -> bool:
    """Return True while a pending query collects inputs of a stream.

    Any thread may ask whether a query collects inputs.
    """
    return any(each.collects and each.reads(stream) for each in list(pending.values()))


@dataclass(slots=True, eq=False)
class QueryEntry:
    """One registered query, as an entry of the catalogue.

    Attributes:
        running: the attached query, which may be paused or failed; None before the query is attached, after
            it is detached, if it could not be restored, and if the settings paused it at the start.
        pending: the object that collects inputs while static parts are read for the first time; else None.
        in_journal: True if the journal may have a record that begins the query.
        restarts: the times of automatic restarts after a failure, in milliseconds of the monotonic clock.
    """

    name: str
    registration: Registration
    feed: Feed
    created_ms: int
    running: RunningQuery | None = None
    pending: PendingQuery | None = None
    in_journal: bool = False
    state: QueryState = "running"
    error: str | None = None
    restarts: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.feed.created_ms = self.created_ms

    @property
    def prepared(self) -> PreparedQuery | None:
        """The prepared query of the running or waiting query; None if there is neither."""
        query = self.running or self.pending
        return None if query is None else query.prepared


def unknown_query(name: str) -> NotFoundError:
    """Return the error for a name that no query has."""
    return NotFoundError(f"no query named {name} is registered", code="unknown-query")


class QueryCatalogue:
    """The registered queries by name, and the names of dropped queries."""

    def __init__(self, registry: Registry | None, clock: Clock, settings: EngineSettings) -> None:
        self._registry = registry
        self._clock = clock
        self._settings = settings
        self._entries: dict[str, QueryEntry] = {}
        # The names of dropped queries, if there is no registry that stores them.
        self._dropped: set[str] = set()
        # The result IRIs of queries, and the streams and graphs that queries read, possibly also those of
        # dropped queries.
        self._result_iris: set[str] = set()
        self._flows_read: set[Flow] = set()
        self._removed = 0
        self._lock = threading.Lock()
        # The names for which a registration is running, and the last number of a generated query name.
        self._claims = threading.Condition()
        self._claimed: set[str] = set()
        self._generated = 0
        # Failed queries that are to be restarted.
        self.failed: deque[QueryEntry] = deque()

    def entries(self) -> list[QueryEntry]:
        """Return all entries of the catalogue, in the order in which the queries last began."""
        with self._lock:
            return list(self._entries.values())

    def state_size(self) -> int:
        """Return the number of quads in the windows of all queries; a quad counts once per window."""
        running = [each.running for each in self.entries()]
        return sum(each.timeline.state_size() for each in running if each is not None)

    def find(self, name: str) -> QueryEntry | None:
        """Return the entry of the query with this name; None if there is no such query."""
        return self._entries.get(name)

    def get(self, name: str) -> QueryEntry:
        """Return the entry of the query with this name.

        Raises:
            NotFoundError: no query has the name.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_query(name)
        return entry

    def was_dropped(self, name: str) -> bool:
        """Return True if a query with this name was dropped and no query has the name now."""
        return name in self._dropped if self._registry is None else self._registry.queries.was_dropped(name)

    @contextlib.contextmanager
    def claimed(self, wanted: str | None) -> Iterator[str]:
        """Reserve a name for one registration at a time: the wanted name, or a generated one such as q-1."""
        with self._claims:
            name = wanted or self._free_name()
            self._claims.wait_for(lambda: name not in self._claimed)
            self._claimed.add(name)
        try:
            yield name
        finally:
            with self._claims:
                self._claimed.discard(name)
                self._claims.notify_all()

    def _free_name(self) -> str:
        # Generated query names are never reused, so the search for a name starts after the last generated
        # number.
        while True:
            self._generated += 1
            name = f"q-{self._generated}"
            if not (name in self._entries or name in self._claimed or self.was_dropped(name)):
                return name

    # --- checks of registrations ------------------------------------------------------------------

    def check_room(self, existing: QueryEntry | None) -> None:
        """Raise LimitError if a new query would exceed the maximum number of queries."""
        most = self._settings.max_queries
        if existing is None and len(self._entries) >= most:
            raise LimitError(f"{len(self._entries)} queries are registered, the limit is {most}", limit=most)

    def index_flows(self, prepared: PreparedQuery) -> None:
        """Remember the result IRI of a query and the streams and graphs that it reads, for later checks."""
        if prepared.result_iri is not None:
            self._result_iris.add(prepared.result_iri)
        self._flows_read |= prepared.reads().flows()

    def refuse_solution_streams(self, prepared: PreparedQuery) -> None:
        """Raise QueryTextError if a window reads the feed of a SELECT query."""
        for iri in prepared.streams:
            known = [entry.prepared for entry in self.entries()] if iri in self._result_iris else []
            for other in (*known, prepared):
                if other is not None and other.result_iri == iri and other.query.form != "construct":
                    name = other.name or "itself"
                    raise QueryTextError(
                        f"<{iri}> is the feed of solutions of the query {name}; "
                        "a window can read RDF streams only",
                        hint=f"Register {name} with CONSTRUCT instead of SELECT to make its results a stream",
                    )

    def refuse_cycles(self, prepared: PreparedQuery) -> None:
        """Raise InputError if a query would read its own result, even through other queries or rule sets."""
        results = _made_by(prepared)
        if not results:
            return
        reads = prepared.reads().flows()
        sets = [edge for flows in self._settings.flows_of_sets for edge in flows()]
        # A result that no query reads cannot be part of a cycle, so this common case skips the search for
        # cycles.
        made = [
            each
            for each in results
            if any(is_read(each, flows) for flows in (reads, self._flows_read, *(read for read, _ in sets)))
        ]
        if not made:
            return
        edges = flows_of(entry for entry in self.entries() if entry.name != prepared.name)
        if (cycle := find_cycle(made, reads, [*edges, *sets])) is not None:
            (_, made_iri), (kind, read_iri) = cycle
            hint = "GRAPH ?g reads every graph; FROM NAMED names them"
            raise InputError(
                f"the query would read its own output: <{made_iri}> leads to <{read_iri}>",
                code="cycle",
                hint=None if kind == "stream" else hint,
            )

    def parse_changes(
        self, entry: QueryEntry, changes: dict[str, Any]
    ) -> tuple[QueryState | None, Registration]:
        """Return the requested state (or None) and the registration with changed settings.

        Raises:
            InputError: a member cannot change while the query is registered, or has a wrong value.
            ConflictError: a failed query cannot be paused.
        """
        limits = ("memory", "max_rows", "max_time")
        sums = ("max_rows_per_minute", "max_cpu_per_minute", "max_bytes_per_minute")
        changeable = ("state", "refresh", *limits, *sums)
        unknown = sorted(set(changes) - set(changeable))
        if unknown:
            raise InputError(
                f"{unknown[0]} cannot be changed while the query is registered",
                hint=f"{', '.join(changeable)} can; else PUT with ?replace=true (register --replace)",
            )
        state = changes.get("state")
        if state not in (None, "running", "paused"):
            raise InputError(f"state is {state!r}, it must be running or paused")
        if state == "paused" and entry.state == "failed":
            raise ConflictError(f"the query {entry.name} has failed, it cannot pause", code="query-failed")
        settings = {key: value for key, value in changes.items() if key != "state"}
        return state, entry.registration.changed(settings)

    # --- adding and removing queries --------------------------------------------------------------

    def add(self, entry: QueryEntry) -> None:
        """Add a query's entry, replacing the entry of the same name; the new entry comes last."""
        with self._lock:
            self._entries.pop(entry.name, None)
            self._entries[entry.name] = entry
            self._dropped.discard(entry.name)

    def write_registration(self, name: str, registration: Registration, *, replacing: bool) -> QueryRecord:
        """Write a query's registration to the registry and return the record."""
        now, options = self._clock.now_ms(), registration.options()
        record = QueryRecord(name, registration.query, registration.dialect, options, created_ms=now)
        if self._registry is not None:
            (self._registry.queries.put if replacing else self._registry.queries.add)(record)
        return record

    def undo_of_write(self, name: str, *, replacing: bool) -> Callable[[], object]:
        """Return a function that undoes a name's next `write_registration` and restores its dropped mark."""
        registry, dropped = self._registry, self.was_dropped(name)
        if registry is None:
            return partial(self._dropped.add if dropped else self._dropped.discard, name)
        before = registry.queries.get(name) if replacing else None
        if before is not None:
            return partial(registry.queries.put, before)
        return partial(registry.queries.retract, name, dropped=dropped)

    def update(self, entry: QueryEntry) -> None:
        """Write the changed options of a query to the registry."""
        if self._registry is not None:
            self._registry.queries.update(entry.name, options=entry.registration.options())

    def set_state(self, entry: QueryEntry, state: QueryState, error: str | None) -> None:
        """Set the state and the error of a query, in memory and in the registry."""
        entry.state, entry.error = state, error
        if self._registry is not None:
            with contextlib.suppress(NotFoundError):
                self._registry.queries.update(entry.name, state=state, error=error)

    def pause_at_start(self, entry: QueryEntry) -> bool:
        """At a server start, pause a query if the settings name it; return True if they do.

        A client's resume later restarts a query that the settings have paused, with empty windows.
        """
        asked = not {entry.name, "all"}.isdisjoint(self._settings.paused)
        if asked:
            self.set_state(entry, "paused", "it was paused at the start, without its windows")
        return asked

    def note_failed(self, name: str, error: str | None) -> None:
        """Within a task, mark a query as failed, and schedule its restart if the settings say so."""
        entry = self.find(name)
        if entry is not None:
            self.set_state(entry, "failed", error)
            if self._settings.restart_failed:
                self.failed.append(entry)

    def remove(self, entry: QueryEntry) -> None:
        """Remove a query from the catalogue and the registry, which remembers the name as dropped."""
        if self._registry is not None:
            self._registry.queries.remove(entry.name)
        self.discard(entry)

    def discard(self, entry: QueryEntry) -> None:
        """Remove a query from the catalogue only; without a registry, remember the name as dropped."""
        with self._lock:
            if self._entries.get(entry.name) is entry:
                del self._entries[entry.name]
            if self._registry is None:
                self._dropped.add(entry.name)
            self._removed += 1
        if self._removed > max(_REBUILD_AFTER, len(self._entries)):
            self._removed, self._result_iris, self._flows_read = 0, set(), set()
            for prepared in [each.prepared for each in self.entries()]:
                if prepared is not None:
                    self.index_flows(prepared)

    def stored(self) -> list[QueryRecord]:
        """Return the queries of the registry, in the order of registration."""
        return [] if self._registry is None else self._registry.queries.all()

    def add_restored(self, record: QueryRecord, feed: Feed) -> QueryEntry:
        """Add an entry for a query of the registry, as failed if its options are no longer valid."""
        registration = Registration(record.text, record.name)
        entry = QueryEntry(
            record.name, registration, feed, record.created_ms, state=record.state, error=record.error
        )
        self.add(entry)
        try:
            entry.registration = Registration.restored(
                record.name, record.text, record.dialect, record.options
            )
        except ReportedError as error:
            self.set_state(entry, "failed", error.message)
        return entry


def flows_of(entries: Iterable[QueryEntry]) -> list[FlowEdge]:
    """Return what queries read and make, of those that make a stream or a view."""
    prepared = [entry.prepared for entry in entries]
    return [(each.reads().flows(), makes) for each in prepared if each and (makes := _made_by(each))]


def _made_by(prepared: PreparedQuery) -> list[Flow]:
    """Return the stream and the graph that a query makes."""
    stream, graph = prepared.made_stream, prepared.into_graph
    flows = [] if stream is None else [("stream", stream)]
    return flows if graph is None else [*flows, ("graph", graph.value)]
