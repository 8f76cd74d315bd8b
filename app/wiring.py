"""Builds the store, the registry and the engine once, and closes them in order."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from quadrill.continuous.algebra.columnar import ColumnarEngine, StaticEngines, columnar_factory
from quadrill.continuous.analysis.update import analyse_update
from quadrill.continuous.clock import Clock
from quadrill.continuous.engine import Engine
from quadrill.continuous.language import warm_up
from quadrill.continuous.language.context import LanguageLimits
from quadrill.continuous.language.mapping.limits import RecordLimits
from quadrill.continuous.lifecycle.rule_queries import follow_rule_sets
from quadrill.continuous.lifecycle.rule_service import QueriesOfSets, RuleService
from quadrill.continuous.lifecycle.shape_feeds import ShapeFeeds
from quadrill.continuous.lifecycle.shape_service import ShapeService, StreamsOfShapes
from quadrill.continuous.remote.settings import RemoteSettings
from quadrill.continuous.rows import QueryLimits
from quadrill.continuous.settings import EngineSettings
from quadrill.continuous.streams.registry import conforming_to
from quadrill.store.bulk.load import MIRROR
from quadrill.store.documents.times import duration_ms
from quadrill.store.errors import StoreUnwritableError
from quadrill.store.logs.input_log import SYNCS
from quadrill.store.logs.journal import Journal
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.registry import Registry
from quadrill.store.sparql import extensions

from .config import Settings
from .connectors.service import ConnectorService
from .data_folder import open_registry, open_store
from .evaluation.endpoint import SparqlEndpoint
from .evaluation.static_parts import PartLimits, StaticParts
from .evaluation.workers import WorkerPool, remove_leftovers
from .feeds.change_feed import ChangeFeed
from .feeds.fanout import Fanout
from .http.request_metrics import RequestMetrics
from .ingest.loop import PushLoop
from .metrics import ServiceFigures, ShapesCollector
from .prefixes import PrefixTable
from .security import REFRESH_SECONDS, Security
from .setting_values import SettingsError
from .upkeep.backup import remove_outgoing
from .upkeep.disk import Disk
from .upkeep.freed_memory import FreedMemory
from .upkeep.history import History
from .upkeep.huge_pages import HugePages
from .upkeep.jobs import JobQueue
from .upkeep.periodic import Periodic
from .upkeep.server_history import ServerHistory

log = logging.getLogger("quadrill.app")


@dataclass(slots=True)
class Services:
    """Components of a running server that routes use, built by :func:`open_services`."""

    settings: Settings
    store: QuadStore
    registry: Registry
    rules: RuleService
    shapes: ShapeService
    engine: Engine
    security: Security
    fanout: Fanout
    changes: ChangeFeed
    jobs: JobQueue
    workers: WorkerPool
    prefixes: PrefixTable
    endpoint: SparqlEndpoint
    metrics: RequestMetrics
    connectors: ConnectorService
    pushes: PushLoop
    history: History
    server: ServerHistory
    pages: HugePages
    freed: FreedMemory
    tokens: Periodic
    closed: bool = False
    engine_ended: bool | None = None

    def start(self) -> None:
        """Load the grammars, let the fan-out accept subscribers, and start the engine with its queries."""
        if self.engine.settings.threaded:
            # Tokens are kept current from here on, because the server answers requests during the journal's
            # replay.
            self.tokens.start()
        # Grammars of query texts are loaded before the first request, since concurrent registrations would
        # all wait for one.
        folder = self.settings.data_folder
        warm_up(None if folder is None else folder / "engine" / "grammars")
        self.fanout.start()
        self.engine.start()
        self.connectors.start()
        if self.engine.settings.threaded:
            self.history.start()
            self.pages.start()
            self.freed.start()

    def cancel(self) -> None:
        """Cancel running evaluations and stop the engine at once, after the grace period of a shutdown."""
        self.endpoint.processes.cancel_all()
        self._stop_engine(at_once=True)

    def close(self) -> None:
        """Stop all threads and workers, then close the store and the registry, which they write to.

        If an evaluation of the engine cannot be stopped, store and registry stay open.
        """
        if self.closed:
            return
        self.closed = True
        self._each(
            self.tokens.stop,
            self.history.stop,
            self.pages.stop,
            self.freed.stop,
            self.jobs.close,
            self.connectors.close,
            self.pushes.close,
        )
        self._stop_engine(at_once=False)
        self._each(self.changes.close, self.fanout.stop, self.workers.close)
        if self.engine_ended:
            self._each(self.store.close, self.registry.close, self.shapes.feeds.close)

    def _stop_engine(self, *, at_once: bool) -> None:
        if self.engine_ended is None:
            self.engine_ended = self._each(partial(self.engine.stop, at_once=at_once))

    @staticmethod
    def _each(*steps: Callable[[], bool | None]) -> bool:
        """Run all steps of a shutdown despite errors; return False if one reports work that still runs."""
        ended = True
        for step in steps:
            try:
                ended &= step() is not False
            except StoreUnwritableError as error:
                log.error("closing: %s", error.message)
            except Exception:
                log.exception("closing went wrong in %s", step)
        return ended


def open_services(settings: Settings, *, clock: Clock | None = None, threaded: bool = True) -> Services:
    """Open the data folder and build all services; :meth:`Services.start` starts their threads.

    Raises:
        ExtensionError: an extension cannot be loaded.
        StoreLockedError, StoreUnwritableError, StoreFormatError: the data folder cannot be used.
        RegistryError: the registry database cannot be used.
        TokenRequiredError: the token in the settings is too short.
        SettingsError: a setting has an unknown value.
    """
    extensions.load(settings.extensions)
    clock = clock or Clock()
    with contextlib.ExitStack() as undo:
        store = open_store(settings, clock.now_ms, analyse_update)
        undo.callback(store.close)
        registry = open_registry(settings)
        undo.callback(registry.close)
        rules, shapes = open_rules(store, registry, settings, clock.now_ms)
        undo.callback(shapes.feeds.close)
        security = Security(settings, registry.tokens)
        journal = open_journal(settings)
        if journal is not None:
            undo.callback(journal.close)
        workers = open_workers(store, settings)
        engines = StaticEngines(_columnar(settings), _bounded(store, workers, settings))
        engine = Engine(
            store,
            registry,
            clock=clock,
            settings=engine_settings(settings, engines, rules, shapes, threaded=threaded),
            journal=journal,
        )
        rules.queries = QueriesOfSets(
            engine.parts.admin,
            engine.queries.entailed_by,
            engine.queries.flows,
            partial(engine.queries.entailed_by, with_windows=True),
            partial(follow_rule_sets, engine.parts),
        )
        shapes.flows_of_rules = rules.flows
        shapes.flows_of_others = (rules.flows, engine.queries.flows)
        shapes.streams = StreamsOfShapes(engine.parts.admin, partial(conforming_to, engine.parts.streams))
        fanout = Fanout(
            heartbeat=settings.sse_heartbeat,
            buffer_bytes=settings.sse_buffer_bytes,
            max_clients=settings.max_subscribers,
        )
        prefixes = PrefixTable(registry)
        endpoint = SparqlEndpoint(store, settings, prefixes, workers, rules.graph_of)
        metrics = RequestMetrics()
        pages = HugePages(wanted=settings.huge_pages)
        folder = settings.data_folder
        disk = None if folder is None else Disk(folder)
        connectors = ConnectorService(engine, registry, settings, clock.now_ms)
        metrics.registry.register(ServiceFigures(store, engine, endpoint, fanout, pages, disk, connectors))
        metrics.registry.register(ShapesCollector(shapes.reports))
        server = ServerHistory(engine.parts.tasks.stages.total, metrics, disk)
        services = Services(
            settings,
            store,
            registry,
            rules,
            shapes,
            engine,
            security,
            fanout,
            ChangeFeed(store),
            JobQueue(store, registry, settings),
            workers,
            prefixes,
            endpoint,
            metrics,
            connectors,
            PushLoop(engine.parts.tasks),
            History(engine, clock.now_ms, server=server),
            server,
            pages,
            FreedMemory(),
            Periodic("quadrill-tokens", security.refresh, lambda: REFRESH_SECONDS),
        )
        undo.pop_all()
    return services


def open_rules(
    store: QuadStore, registry: Registry, settings: Settings, clock_ms: Callable[[], int]
) -> tuple[RuleService, ShapeService]:
    """Load the rule sets and the shapes of the registry; afterwards they derive from and check each commit.

    A PUT or DELETE that a crash has interrupted is completed. Called before the engine recovers and before
    requests are served, so that nobody reads a version without its consequences.
    """
    limits, base_iri = LanguageLimits(characters=settings.max_query_bytes), settings.base_iri
    feeds = ShapeFeeds(store, settings.data_folder, history=settings.feed_history, durable=settings.durable)
    shapes = ShapeService(store, registry, base_iri=base_iri, clock_ms=clock_ms, feeds=feeds)
    rules = RuleService(
        store,
        registry,
        base_iri=base_iri,
        limits=limits,
        clock_ms=clock_ms,
        shapes=shapes.consequences,
    )
    rules.start()
    shapes.start()
    return rules, shapes


def open_journal(settings: Settings) -> Journal | None:
    """Open the journal, which preserves streams, windows and feeds over restarts; None for a store in memory.

    Raises:
        SettingsError: ``input_sync`` has an unknown value.
        StoreUnwritableError, StoreFormatError: the journal's folder cannot be used.
    """
    folder = settings.data_folder
    if folder is None:
        return None
    sync = next((word for word in SYNCS if word == settings.input_sync), None)
    if sync is None:
        raise SettingsError(
            f"the setting input_sync is {settings.input_sync!r}, it must be one of {', '.join(SYNCS)}"
        )
    return Journal.open(
        folder / "engine",
        sync=sync if settings.durable else "off",
        interval_ms=settings.input_sync_ms,
        keep_bytes=settings.input_log_bytes,
    )


def open_workers(store: QuadStore, settings: Settings) -> WorkerPool:
    """Create the pool of worker processes for heavy queries, and delete copies left by a killed server."""
    folder = settings.data_folder
    if folder is not None:
        remove_leftovers(folder)
        remove_outgoing(folder)
    return WorkerPool(
        store,
        folder,
        size=settings.workers,
        memory_bytes=settings.worker_memory_bytes,
        max_nesting=settings.max_nesting,
    )


def engine_settings(
    settings: Settings,
    engines: StaticEngines,
    rules: RuleService,
    shapes: ShapeService,
    *,
    threaded: bool = True,
) -> EngineSettings:
    """Convert the server's settings to engine settings.

    Args:
        settings: the settings of the server.
        engines: evaluate static parts that are too large for the store.
        rules: the rule sets that queries name and read.
        shapes: the shapes whose reports queries read.
        threaded: False executes tasks in the calling thread.
    """
    return EngineSettings(
        base_iri=settings.base_iri,
        lateness_ms=duration_ms(settings.lateness, "the setting lateness"),
        idle_timeout_ms=duration_ms(settings.idle_timeout, "the setting idle_timeout"),
        retention_ms=duration_ms(settings.retention, "the setting retention"),
        max_future_ms=duration_ms(settings.max_future, "the setting max_future"),
        max_empty_windows=settings.max_empty_windows,
        auto_declare=settings.auto_declare_streams,
        queue_elements=settings.max_queue_elements,
        backlog_elements=settings.max_backlog_elements,
        backlog_log=settings.max_backlog_log,
        push_elements=settings.max_push_elements,
        feed_history=settings.feed_history,
        dead_letters=settings.dead_letters,
        restart_failed=settings.restart_failed,
        max_queries=settings.max_queries,
        registration_wait_ms=duration_ms(settings.registration_wait, "the setting registration_wait"),
        static_rows=settings.max_static_rows,
        static_rows_per_query=settings.max_query_static_rows,
        templates=settings.templates,
        waiting_elements=settings.max_waiting_elements,
        limits=QueryLimits(
            rows=settings.max_evaluation_rows,
            ms=duration_ms(settings.max_evaluation_time, "the setting max_evaluation_time"),
            kept=settings.max_answer_rows,
            minute_rows=settings.max_rows_per_minute,
            minute_ms=duration_ms(settings.max_cpu_per_minute, "the setting max_cpu_per_minute"),
            minute_bytes=settings.max_bytes_per_minute,
            bytes=settings.max_evaluation_bytes,
            text=settings.max_text_length,
            process=settings.worker_memory_bytes,
        ),
        records=RecordLimits(
            seconds=duration_ms(settings.max_record_time, "the setting max_record_time", positive=True)
            / 1000,
            bytes=settings.max_record_bytes,
        ),
        paused=settings.paused,
        checkpoint_ms=duration_ms(settings.checkpoint_interval, "the setting checkpoint_interval"),
        remote=RemoteSettings(
            every_ms=duration_ms(settings.remote_refresh, "the setting remote_refresh", positive=True),
            timeout_ms=duration_ms(settings.remote_timeout, "the setting remote_timeout", positive=True),
            max_bytes=settings.remote_max_bytes,
            max_rows=settings.remote_max_rows,
        ),
        engines=engines,
        graph_of_set=rules.graph_of,
        definition_of_set=rules.definition_of,
        candidate_of_set=rules.candidate_of,
        flows_of_sets=(rules.flows, shapes.flows),
        conformance=shapes,
        threaded=threaded,
    )


def _bounded(store: QuadStore, workers: WorkerPool, settings: Settings) -> StaticParts:
    """Build the evaluator of queries' static parts with its bounds on time, bytes and text length."""
    limits = PartLimits(
        duration_ms(settings.max_static_time, "the setting max_static_time", positive=True) / 1000,
        settings.max_result_bytes,
        settings.max_text_length,
        settings.max_evaluation_bytes,
    )
    return StaticParts(store, workers, limits)


def _columnar(settings: Settings) -> ColumnarEngine | None:
    """Create the Spark engine that reads the mirror of the data folder; the mirror may be created later."""
    folder = settings.data_folder
    if folder is None or not settings.static_spark:
        return None
    extensions.load_built_in("quadrill.continuous.spark")
    factory = columnar_factory("spark")
    if factory is None:
        return None
    return factory(
        folder / MIRROR,
        settings.spark_master or None,
        settings.spark_memory,
        duration_ms(settings.spark_timeout, "the setting spark_timeout", positive=True) / 1000,
    )
