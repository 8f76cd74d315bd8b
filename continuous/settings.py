"""The engine's limits and defaults; the application fills them from its settings table."""

from __future__ import annotations

from dataclasses import dataclass

from .algebra.columnar import ColumnarEngine
from .remote.settings import RemoteSettings

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StaticLimits:
    """What static parts may cost those who wait for them.

    Attributes:
        keys: a commit that may change rows with more keys than this has the tables read anew.
        rows: so has one whose keys reach more rows than this.
        quick_s: what no key tells of is evaluated as a whole at the commit when that took no longer.
        keys_at_once: keys in one text.
        rows_each: rows read between two looks at whether there is room for them.
        remembered: rows and keys that the cache of one query and part has at most.
        kept_s: tables that are evaluated more quickly than this are not kept on disk.
        kept_pauses: a table that was written in a second is written again so many later at the earliest.
    """

    keys: int = 2_000
    rows: int = 20_000
    quick_s: float = 0.01
    keys_at_once: int = 500
    rows_each: int = 1_000
    remembered: int = 100_000
    kept_s: float = 0.05
    kept_pauses: int = 20


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and defaults of streams, queries and feeds. Times are milliseconds.

    Attributes:
        base_iri: what relative IRIs of texts, bodies and stream names resolve against.
        lateness_ms: lateness of streams that are declared without one.
        idle_timeout_ms: wall clock time after which a silent stream holds nothing back; 0 for never.
        retention_ms: how far back in event time elements are retained for ``start``.
        retained_elements: how many elements are retained per stream at most.
        max_future_ms: how far ahead of clock and watermark an event time may be.
        max_empty_windows: a longer run of empty reports becomes one progress event.
        auto_declare: streams named by a query or a push are declared by themselves.
        queue_elements: elements that may wait for the engine before pushes get 429.
        push_elements: elements of one push at most.
        feed_history: events kept per feed.
        subscriber_buffer: events that may wait for one subscriber.
        dead_letters: late elements, and those at which a query failed, kept per stream.
        restart_failed: a query that fails begins anew with empty windows, a few times, rather than stop.
        idempotency_keys: keys remembered.
        max_queries: registered queries at most.
        registration_wait_ms: a registration is answered after this time while static parts are still read.
        static_rows: most rows of static parts in memory, what a registration reads included; 0 for no limit.
        static_rows_per_query: the same of the static parts of one query.
        static_limits: what they may cost those who wait for them.
        templates: queries that differ only in constants are evaluated together.
        waiting_elements: elements kept at most for a query whose static parts are being read.
        tick_ms: how often, at least, clock-driven streams are moved.
        checkpoint_ms: how often the state is written, when there is a journal and something happened.
        remote: limits and defaults of what is fetched from elsewhere.
        columnar: evaluates static parts that are too large for the store, if there is such an engine.
        threaded: False processes everything in the calling thread (tests, offline runs).
    """

    base_iri: str = "http://localhost/"
    lateness_ms: int = 0
    idle_timeout_ms: int = 5_000
    retention_ms: int = 3_600_000
    retained_elements: int = 100_000
    max_future_ms: int = DAY_MS
    max_empty_windows: int = 1_000
    auto_declare: bool = True
    queue_elements: int = 200_000
    push_elements: int = 100_000
    feed_history: int = 10_000
    subscriber_buffer: int = 1_000
    dead_letters: int = 1_000
    restart_failed: bool = False
    idempotency_keys: int = 10_000
    max_queries: int = 10_000
    registration_wait_ms: int = 500
    static_rows: int = 0
    static_rows_per_query: int = 0
    static_limits: StaticLimits = StaticLimits()
    templates: bool = True
    waiting_elements: int = 1_000_000
    tick_ms: int = 1_000
    checkpoint_ms: int = 30_000
    remote: RemoteSettings = RemoteSettings()
    columnar: ColumnarEngine | None = None
    threaded: bool = True
