"""The engine's limits and defaults; the application sets them from its settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyoxigraph import NamedNode

from quadrill.store.errors import NotFoundError

from .algebra.columnar import StaticEngines
from .language.mapping.limits import RECORD_LIMITS, RecordLimits
from .remote.settings import RemoteSettings
from .rows import QueryLimits

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StaticLimits:
    """Bounds on the work that static parts cause in other tasks."""

    keys: int = 2_000  # a commit that may change rows with more keys than this causes a reload of the table
    rows: int = 20_000  # A commit whose keys match more rows than this causes a reload of the table.
    # If a commit's changed rows have no keys, the commit evaluates the whole part, unless that took longer
    # before.
    quick_s: float = 0.01
    # If a look-up by key took longer than this, and the part has heavy buffering operators, commits cause
    # reloads.
    keyed_s: float = 0.5
    rows_each: int = 1_000  # rows read between two checks of the row budget
    remembered: int = 100_000  # maximum of rows and keys in the look-up cache of one query and static part
    kept_s: float = 0.001  # tables whose evaluation takes less time than this are not stored on disk
    kept_pauses: int = 20  # after each second of writing tables, seconds without further writes


def no_rule_sets(name: str) -> NamedNode:
    """Return the graph of a rule set in an engine without rule sets. Raises: NotFoundError for every name."""
    raise NotFoundError(f"there is no rule set {name}", code="unknown-rules")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and defaults of streams, queries and feeds. Times are milliseconds."""

    base_iri: str = "http://localhost/"  # base of relative IRIs in query texts, bodies and stream names
    lateness_ms: int = 0  # default lateness of a stream
    idle_timeout_ms: int = 5_000  # milliseconds without input after which a stream is idle; 0: never
    retention_ms: int = 3_600_000  # event time for which a stream retains elements
    retained_elements: int = 100_000  # maximum of retained elements per stream
    max_future_ms: int = DAY_MS  # maximum distance of an event time after the clock and the watermark
    max_empty_windows: int = 1_000  # maximum run of empty reports; a longer run becomes one progress event
    auto_declare: bool = True  # a query or push declares the streams that it names
    slice_ms: int = 50  # time slice of a query; 0: suspend at every point
    backlog_elements: int = 1_000_000  # Maximum backlog of one query; the query fails above it.
    # Bytes of input log without a checkpoint; above this, the query that has lagged longest fails.
    backlog_log: int = 256 << 20
    queue_elements: int = 200_000  # maximum of queued elements; pushes above it get HTTP 429
    push_elements: int = 100_000  # maximum of elements per push
    feed_history: int = 10_000  # maximum of events in the history of one feed
    subscriber_buffer: int = 1_000  # maximum of events queued for one subscriber
    dead_letters: int = 1_000  # maximum of dead letters per stream
    restart_failed: bool = False  # restart a failed query with empty windows, a few times
    idempotency_keys: int = 10_000  # maximum of stored idempotency keys
    max_queries: int = 10_000  # Maximum of registered queries.
    # Milliseconds after which a registration returns although its static parts are still being read.
    registration_wait_ms: int = 500
    static_rows: int = 0  # maximum rows of static parts in memory, rows being read included; 0: no limit
    static_rows_per_query: int = 0  # maximum rows of the static parts of one query; 0: no limit
    static_limits: StaticLimits = StaticLimits()  # bounds on the work that static parts cause in other tasks
    templates: bool = True  # queries that differ only in constants form a group with a shared plan
    stop_wait_ms: int = 3_000  # Maximum wait of a stop for queued tasks and static parts being read.
    # Maximum of elements collected for a query whose static parts are being read.
    waiting_elements: int = 1_000_000
    # Limits of one continuous query; the registration may replace them.
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
    threaded: bool = True  # False executes tasks in the calling thread (tests, offline runs)
