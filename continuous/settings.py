"""The engine's limits and defaults; the application fills them from its settings table."""

from __future__ import annotations

from dataclasses import dataclass

from .algebra.columnar import StaticEngines
from .language.mapping.limits import RECORD_LIMITS, RecordLimits
from .remote.settings import RemoteSettings
from .rows import QueryLimits

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class StaticLimits:
    """What static parts may cost those who wait for them."""

    keys: int = 2_000  # a commit that may change rows with more keys than this has the tables read anew
    rows: int = 20_000  # so has one whose keys reach more rows than this
    quick_s: float = 0.01  # what no key tells of is evaluated whole at the commit if that took no longer
    keyed_s: float = 0.5  # where much may be held back no key is looked up again once that took longer
    rows_each: int = 1_000  # rows read between two looks at whether there is room for them
    remembered: int = 100_000  # rows and keys that the cache of one query and part has at most
    kept_s: float = 0.001  # tables that are evaluated more quickly than this are not kept on disk
    kept_pauses: int = 20  # behind a second of writing tables nothing more is written for so many


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """Limits and defaults of streams, queries and feeds. Times are milliseconds."""

    base_iri: str = "http://localhost/"  # relative IRIs of texts, bodies and stream names resolve against it
    lateness_ms: int = 0  # that of streams that are declared without one
    idle_timeout_ms: int = 5_000  # wall clock time after which a silent stream holds nothing back; 0: never
    retention_ms: int = 3_600_000  # how far back in event time elements are retained for ``start``
    retained_elements: int = 100_000  # how many elements are retained per stream at most
    max_future_ms: int = DAY_MS  # how far ahead of clock and watermark an event time may be
    max_empty_windows: int = 1_000  # a longer run of empty reports becomes one progress event
    auto_declare: bool = True  # streams named by a query or a push are declared by themselves
    slice_ms: int = 50  # a query may work so long before others go on; 0: it is suspended wherever it can be
    backlog_elements: int = 1_000_000  # elements that may wait for one query that is slow before it fails
    backlog_log: int = 256 << 20  # bytes of input log without a checkpoint, then the one longest behind fails
    queue_elements: int = 200_000  # elements that may wait for the engine before pushes get 429
    push_elements: int = 100_000  # elements of one push at most
    feed_history: int = 10_000  # events kept per feed
    subscriber_buffer: int = 1_000  # events that may wait for one subscriber
    dead_letters: int = 1_000  # late elements, and those at which a query failed, kept per stream
    restart_failed: bool = False  # a query that fails begins anew with empty windows, a few times
    idempotency_keys: int = 10_000  # keys remembered
    max_queries: int = 10_000  # registered queries at most
    registration_wait_ms: int = 500  # a registration is answered then while static parts are still read
    static_rows: int = 0  # most rows of static parts in memory, those being read included; 0: no limit
    static_rows_per_query: int = 0  # the same of the static parts of one query
    static_limits: StaticLimits = StaticLimits()  # what they may cost those who wait for them
    templates: bool = True  # queries that differ only in constants are evaluated together
    stop_wait_ms: int = 3_000  # a stop waits so long for turns in line and static parts being read, together
    waiting_elements: int = 1_000_000  # elements kept at most for a query whose static parts are being read
    # what one continuous query may cost, where its registration does not say it
    limits: QueryLimits = QueryLimits(
        rows=1_000_000,
        ms=10_000,
        kept=5_000_000,
        bytes=256 << 20,
        minute_rows=1_000_000_000,
        minute_ms=600_000,
        minute_bytes=64 << 30,
    )
    paused: tuple[str, ...] = ()  # names of queries that a start pauses without evaluating them; ``all``
    records: RecordLimits = RECORD_LIMITS  # what one record of a mapped stream may cost
    tick_ms: int = 1_000  # how often, at least, clock-driven streams are moved
    checkpoint_ms: int = 30_000  # how often the state is written, with a journal and if something happened
    remote: RemoteSettings = RemoteSettings()  # limits and defaults of what is fetched from elsewhere
    engines: StaticEngines = StaticEngines()  # for static parts that are too large for the store
    threaded: bool = True  # False processes everything in the calling thread (tests, offline runs)
