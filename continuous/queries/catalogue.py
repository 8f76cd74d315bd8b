"""The registered queries by name, in memory and in the registry: running, failed, or waiting to begin.

A query whose static parts take long to read is registered at once, and what arrives for it is kept:

    register ── a moment ──► attached, running
        └─ longer ─► "reserve" takes its turn: state `materialising`, inputs are collected
                         └─ tables there ─► "attach" takes its turn: the collected inputs come first

The reading is done by a thread of its own, so neither other queries nor other registrations wait for it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
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

from ..algebra.flows import circle, is_read
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
    """An evaluator that is being made, which takes as long as its static parts are read.

    Attributes:
        progress: how far the tables of these are.
    """

    def __init__(self, make: Callable[[], Evaluator], threads: Threads) -> None:
        """Begin, in a thread where there are any, within the limits of a registration."""
        super().__init__()
        self.progress = Progress(limited=True)
        self._make = make
        if threads.beside:
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
        """Close the evaluator, once it is made: its registration does not use it."""
        self.progress.called_off = True
        self.add_done_callback(lambda made: None if made.exception() else made.result().close())


@dataclass(eq=False)
class PendingQuery:
    """A query that waits for its static parts.

    Attributes:
        max_elements: elements that it keeps at max_elements.
        collects: inputs are retained; False for ``start: when-ready``.
        retained: with ``start: {"from": ...}``, what its streams retained when it was registered.
        build: what makes its tables; None until somebody does, as in a replay.
        inputs: what arrived since its registration.
        elements: what their elements count for.
        problem: why it cannot begin.
        running: the query itself, where it only waits for a table that is read anew, since ``task``.
        start: the event time from which retained elements come first.
        is_replay: they were evaluated before.
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
    since: float = field(default_factory=time.monotonic)

    def __post_init__(self) -> None:
        self._streams = frozenset(self.prepared.streams) if self.prepared.names_its_streams else None

    def reads(self, stream: str) -> bool:
        """True when the query reads a stream, or may: a stream variable is bound by what is being read."""
        return self._streams is None or stream in self._streams

    def collect(self, event: StreamInput) -> None:
        """Keep an input, in its turn."""
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
        """Its tables are not wanted any more."""
        if self.build is not None:
            self.build.progress.called_off = True


def is_awaited(stream: str, pending: Mapping[str, PendingQuery]) -> bool:
    """True while inputs of a stream are kept for a query that cannot begin yet. In any thread."""
    return any(each.collects and each.reads(stream) for each in list(pending.values()))


@dataclass(slots=True, eq=False)
class QueryEntry:
    """One registered query.

    Attributes:
        running: None while it is attached or when it could not be restored.
        pending: set while its static parts are read for the first time.
        noted: the journal may hold a record of its beginning.
        restarts: when it began anew by itself after it had failed.
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
        """The query as it runs, or as it will; None when it does neither."""
        found = self.running or self.pending
        return None if found is None else found.prepared


def unknown_query(name: str) -> NotFoundError:
    """The error of a name that no query has."""
    return NotFoundError(f"no query named {name} is registered", code="unknown-query")


class QueryCatalogue:
    """Names, their queries and what was dropped."""

    def __init__(self, registry: Registry | None, clock: Clock, settings: EngineSettings) -> None:
        self._registry = registry
        self._clock = clock
        self._settings = settings
        self._entries: dict[str, QueryEntry] = {}
        self._dropped: set[str] = set()  # where no registry knows them
        # The names that queries have for what they make, and what they read; of some that are gone, too.
        self._result_iris: set[str] = set()
        self._flows_read: set[Flow] = set()
        self._removed = 0
        self._lock = threading.Lock()
        # The names of registrations under way, and the last number of a generated one.
        self._claims = threading.Condition()
        self._claimed: set[str] = set()
        self._generated = 0
        # Queries that have failed and are to begin anew.
        self.failed: deque[QueryEntry] = deque()

    def entries(self) -> list[QueryEntry]:
        """All entries in the order of registration."""
        with self._lock:
            return list(self._entries.values())

    def state_size(self) -> int:
        """Quads in the windows of all queries, each as often as a window holds it."""
        running = [each.running for each in self.entries()]
        return sum(each.timeline.state_size() for each in running if each is not None)

    def find(self, name: str) -> QueryEntry | None:
        """The entry of a name."""
        return self._entries.get(name)

    def get(self, name: str) -> QueryEntry:
        """The entry of a name.

        Raises:
            NotFoundError: there is none.
        """
        entry = self._entries.get(name)
        if entry is None:
            raise unknown_query(name)
        return entry

    def was_dropped(self, name: str) -> bool:
        """True when the name was used and its query dropped."""
        return name in self._dropped if self._registry is None else self._registry.queries.was_dropped(name)

    @contextlib.contextmanager
    def claimed(self, wanted: str | None) -> Iterator[str]:
        """A name for one registration at a time: the wanted one, or a generated one: q-1, q-2 ..."""
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
        # Names are never given again: those below the last one were taken or dropped.
        while True:
            self._generated += 1
            name = f"q-{self._generated}"
            if not (name in self._entries or name in self._claimed or self.was_dropped(name)):
                return name

    # --- what may be registered -------------------------------------------------------------------

    def check_room(self, existing: QueryEntry | None) -> None:
        """Raises LimitError when there are as many queries as allowed."""
        most = self._settings.max_queries
        if existing is None and len(self._entries) >= most:
            raise LimitError(f"{len(self._entries)} queries are registered, the limit is {most}", limit=most)

    def require_same(self, entry: QueryEntry, registration: Registration) -> None:
        """Raises ConflictError when the entry's text or options differ."""
        if entry.registration != registration:
            raise ConflictError(
                f"a query named {entry.name} is registered with another text"
                if entry.registration.query != registration.query
                else f"the query {entry.name} is registered with other options",
                code="query-exists",
                hint="Choose another name, drop the query, or PUT with ?replace=true (register --replace)",
            )

    def index_flows(self, prepared: PreparedQuery) -> None:
        """A query is about to run, or to wait: what it makes has a name, and what it reads has a reader."""
        if prepared.result_iri is not None:
            self._result_iris.add(prepared.result_iri)
        self._flows_read |= prepared.reads().flows()

    def refuse_solution_streams(self, prepared: PreparedQuery) -> None:
        """Raises QueryTextError when a window reads the feed of a SELECT."""
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
        """Raises InputError when a query would, over others perhaps, read a stream or graph that it makes."""
        own = prepared.reads().flows()
        # What nobody has ever read leads nowhere: the others are not looked at.
        made = [each for each in _made_by(prepared) if is_read(each, own) or is_read(each, self._flows_read)]
        if not made:
            return
        others = [entry.prepared for entry in self.entries() if entry.name != prepared.name]
        edges = [(other.reads().flows(), makes) for other in others if other and (makes := _made_by(other))]
        if (found := circle(made, own, edges)) is not None:
            (_, made_iri), (kind, read_iri) = found
            hint = "GRAPH ?g reads every graph; FROM NAMED names them"
            raise InputError(
                f"the query would read its own output: <{made_iri}> leads to <{read_iri}>",
                code="cycle",
                hint=None if kind == "stream" else hint,
            )

    def parse_changes(
        self, entry: QueryEntry, changes: dict[str, Any]
    ) -> tuple[QueryState | None, Registration]:
        """The state asked for and the registration with changed settings.

        Raises:
            InputError: a member that cannot change while the query runs, or a wrong value.
        """
        limits = ("memory", "max_rows", "max_time")
        sums = ("max_rows_per_minute", "max_cpu_per_minute", "max_bytes_per_minute")
        changeable = ("state", "refresh", *limits, *sums)
        unknown = sorted(set(changes) - set(changeable))
        if unknown:
            raise InputError(
                f"{unknown[0]} cannot be changed while the query is registered",
                hint=f"{', '.join(changeable)} can; else PUT it anew with ?replace=true (register --replace)",
            )
        state = changes.get("state")
        if state not in (None, "running", "paused"):
            raise InputError(f"state is {state!r}, it must be running or paused")
        if state == "paused" and entry.state == "failed":
            raise ConflictError(f"the query {entry.name} has failed, it cannot pause", code="query-failed")
        settings = {key: value for key, value in changes.items() if key != "state"}
        return state, entry.registration.changed(settings)

    # --- entering and leaving ---------------------------------------------------------------------

    def add(self, entry: QueryEntry) -> None:
        """Enter a query; one that is replaced goes to the end."""
        with self._lock:
            self._entries.pop(entry.name, None)
            self._entries[entry.name] = entry
            self._dropped.discard(entry.name)

    def write_registration(self, name: str, registration: Registration, *, replacing: bool) -> QueryRecord:
        """Write a registration to the registry."""
        now, options = self._clock.now_ms(), registration.options()
        record = QueryRecord(name, registration.query, registration.dialect, options, created_ms=now)
        if self._registry is not None:
            (self._registry.queries.put if replacing else self._registry.queries.add)(record)
        return record

    def undo_of_write(self, name: str, *, replacing: bool) -> Callable[[], object]:
        """Return an undo of the next `keep` of a name, also of whether it was dropped."""
        registry, dropped = self._registry, self.was_dropped(name)
        if registry is None:
            return partial(self._dropped.add if dropped else self._dropped.discard, name)
        before = registry.queries.get(name) if replacing else None
        if before is not None:
            return partial(registry.queries.put, before)
        return partial(registry.queries.retract, name, dropped=dropped)

    def update(self, entry: QueryEntry) -> None:
        """Write changed options."""
        if self._registry is not None:
            self._registry.queries.update(entry.name, options=entry.registration.options())

    def set_state(self, entry: QueryEntry, state: QueryState, error: str | None) -> None:
        """Remember a state over restarts."""
        entry.state, entry.error = state, error
        if self._registry is not None:
            with contextlib.suppress(NotFoundError):
                self._registry.queries.update(entry.name, state=state, error=error)

    def pause_at_start(self, entry: QueryEntry) -> bool:
        """At a start: pause a query where the settings say so; it begins anew when it goes on."""
        asked = not {entry.name, "all"}.isdisjoint(self._settings.paused)
        if asked:
            self.set_state(entry, "paused", "it was paused at the start, without its windows")
        return asked

    def note_failed(self, name: str, error: str | None) -> None:
        """In a turn: a query has failed; it begins anew between two turns where the settings say so."""
        entry = self.find(name)
        if entry is not None:
            self.set_state(entry, "failed", error)
            if self._settings.restart_failed:
                self.failed.append(entry)

    def remove(self, entry: QueryEntry) -> None:
        """Forget a query, not that there was one."""
        if self._registry is not None:
            self._registry.queries.remove(entry.name)
        self.discard(entry)

    def discard(self, entry: QueryEntry) -> None:
        """Forget a query that the registry has no more."""
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
        """What the registry holds, in the order of registration."""
        return [] if self._registry is None else self._registry.queries.all()

    def add_restored(self, record: QueryRecord, feed: Feed) -> QueryEntry:
        """Enter a query of the registry; it has failed when its options cannot be read any more."""
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


def _made_by(prepared: PreparedQuery) -> list[Flow]:
    """The stream and the graph that a query makes."""
    stream, graph = prepared.made_stream, prepared.into_graph
    found = [] if stream is None else [("stream", stream)]
    return found if graph is None else [*found, ("graph", graph.value)]
