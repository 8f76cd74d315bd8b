"""The engine's limits and defaults; the application sets them from its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from quadrill.store.errors import NotFoundError

from .algebra.columnar import StaticEngines
from .algebra.flows import FlowEdge
from .language.mapping.limits import RECORD_LIMITS, RecordLimits
from .remote.settings import RemoteSettings
from .rows import QueryLimits
from .rules.definition import RuleSetDefinition
from .shapes.conformance import Conformance, NoConformance

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StaticLimits:
    """Bounds on the work that static parts cause in other tasks."""

    # A commit that may change rows with more keys than this causes a reload of the static table.
    keys: int = 2_000
    # A commit whose keys match more rows than this causes a reload of the static table.
    rows: int = 20_000
    # If a commit's changed rows have no keys, the commit evaluates the whole static part, unless the last
    # evaluation took more seconds than this.
    quick_s: float = 0.01
    # If a look-up by key took more seconds than this, and the static part has heavy buffering operators,
    # commits cause reloads.
    keyed_s: float = 0.5
    rows_each: int = 1_000  # Number of static rows read between two checks of the row budget.
    remembered: int = 100_000  # Maximum of rows and keys in the look-up cache of one query and static part.
    kept_s: float = 0.001  # Static tables that are evaluated in fewer seconds are not stored on disk.
    kept_pauses: int = 20  # Seconds without further writes after each second of writing static tables.


def no_rule_sets(name: str) -> NamedNode:
    """Return the graph of a rule set in an engine without rule sets. Raises: NotFoundError for every name."""
    raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and defaults of streams, queries and feeds; times are in milliseconds."""

    base_iri: str = "http://localhost/"  # Base of relative IRIs in query texts, bodies and stream names.
    lateness_ms: int = 0  # Default lateness of a stream in milliseconds.
    idle_timeout_ms: int = 5_000  # Milliseconds without input after which a stream is idle; 0: never.
    retention_ms: int = 3_600_000  # Milliseconds of event time for which a stream retains elements.
    retained_elements: int = 100_000  # Maximum of retained elements per stream in memory.
    max_future_ms: int = DAY_MS  # Maximum distance of an event time after the clock and the watermark.
    max_empty_windows: int = 1_000  # Maximum run of empty reports; a longer run becomes one event.
    auto_declare: bool = True  # A query or push declares the streams that it names.
    slice_ms: int = 50  # Time slice of a query in milliseconds; 0: suspend at every possible point.
    backlog_elements: int = 1_000_000  # Maximum of elements in a query's backlog; above it, the query fails.
    # Bytes of the journal without a checkpoint; above this, the query that has lagged longest fails.
    backlog_log: int = 256 << 20
    queue_elements: int = 200_000  # Maximum of queued elements; pushes above it get HTTP 429.
    push_elements: int = 100_000  # Maximum of elements in one push.
    feed_history: int = 10_000  # Maximum of events in the history of one feed.
    subscriber_buffer: int = 1_000  # Maximum of events queued for one subscriber of a feed.
    dead_letters: int = 1_000  # Maximum of dead letters per stream.
    restart_failed: bool = False  # True to restart a failed query, a few times, with empty windows.
    idempotency_keys: int = 10_000  # Maximum of stored idempotency keys of pushes.
    max_queries: int = 10_000  # Maximum of registered queries of the engine.
    # Milliseconds after which a query's registration returns although its static parts are still being read.
    registration_wait_ms: int = 500
    static_rows: int = 0  # Maximum rows of static parts in memory, rows being read included; 0: no limit.
    static_rows_per_query: int = 0  # Maximum rows of one query's static parts; 0: no limit.
    static_limits: StaticLimits = StaticLimits()  # Bounds on the work that static parts cause.
    templates: bool = True  # Queries that differ only in constants form a group with a shared plan.
    stop_wait_ms: int = 3_000  # Maximum wait of a server stop for queued tasks and reads of static parts.
    # Maximum of elements collected for a query whose static parts are being read.
    waiting_elements: int = 1_000_000
    # Limits of one continuous query; a query's registration may replace them.
    limits: QueryLimits = QueryLimits(
        rows=1_000_000,
        ms=10_000,
        kept=5_000_000,
        bytes=256 << 20,
        minute_rows=1_000_000_000,
        minute_ms=600_000,
        minute_bytes=64 << 30,
    )
    paused: tuple[str, ...] = ()  # names of queries that a start pauses without evaluation, or ``all``
    records: RecordLimits = RECORD_LIMITS  # limits of one record of a mapped stream
    tick_ms: int = 1_000  # maximum interval between two ticks of streams that the clock moves
    checkpoint_ms: int = 30_000  # interval of checkpoints, if there is a journal and new input
    remote: RemoteSettings = RemoteSettings()  # limits and defaults of remote sources
    engines: StaticEngines = StaticEngines()  # engines for static parts that are too large for the store
    graph_of_set: Callable[[str], NamedNode] = no_rule_sets  # returns the graph of a rule set by its name
    # Returns a rule set by its name, as it is after the commit that becomes visible; None while it derives
    # nothing.
    definition_of_set: Callable[[str], RuleSetDefinition | None] = lambda name: None
    # Returns a rule set by its name, as a PUT under way defines it; None if no PUT of it is under way.
    candidate_of_set: Callable[[str], RuleSetDefinition | None] = lambda name: None
    # Return the graphs that each rule set or shapes reads by name, and its own graph.
    flows_of_sets: tuple[Callable[[], list[FlowEdge]], ...] = ()
    conformance: Conformance = NoConformance()  # validates elements by the registered shapes
    threaded: bool = True  # False executes tasks in the calling thread (tests, offline runs)
