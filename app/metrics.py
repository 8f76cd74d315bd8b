"""Prometheus metrics of the store, the engine and event streams, computed at each scrape."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client import ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from quadrill.continuous.engine import Engine
from quadrill.continuous.lifecycle.shape_reports import ShapeFigures, ShapeReports
from quadrill.continuous.shapes.vocabulary import SH
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.streams.movements import ahead_ms
from quadrill.store.quads.meters import Histogram
from quadrill.store.quads.quad_store import QuadStore
from quadrill.store.quads.rates import Rate
from quadrill.store.registry import ConnectorRole

from .connectors.service import ConnectorService
from .describing.figures import QueryFigures, engine_figures, journal_state, query_figures
from .evaluation.endpoint import SparqlEndpoint
from .feeds.fanout import Fanout
from .upkeep.disk import Disk
from .upkeep.freed_memory import native_memory
from .upkeep.huge_pages import HugePages

_SEVERITIES = ("Violation", "Warning", "Info")


class ServiceFigures(Collector):
    """Prometheus collector for the store, the engine and event streams.

    A scrape of the metrics reads counters and never iterates over quads, so its cost does not depend on the
    number of quads.
    """

    def __init__(
        self,
        store: QuadStore,
        engine: Engine,
        endpoint: SparqlEndpoint,
        fanout: Fanout,
        pages: HugePages,
        disk: Disk | None,
        connectors: ConnectorService,
    ) -> None:
        self._store = store
        self._engine = engine
        self._endpoint = endpoint
        self._fanout = fanout
        self._pages = pages
        self._disk = disk
        self._connectors = connectors
        # prometheus_client reports memory, CPU time and open files of the process under Prometheus' standard
        # names.
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterable[Metric]:
        """Yield the current value of every metric of the store, the engine and event streams."""
        fanout = self._fanout
        streamed = fanout.figures
        counts = self._store.reader.graph_counts()
        yield _gauge("quadrill_store_version", "Version of the store.", self._store.reader.version)
        yield _gauge("quadrill_store_graphs", "Graphs in the store.", len(counts))
        yield _gauge("quadrill_store_quads", "Quads in the store.", self._endpoint.quads())
        yield _gauge(
            "quadrill_store_inferred_quads",
            "Quads in the graphs of rule sets, which are part of quadrill_store_quads.",
            sum(counts.get(graph, 0) for graph in self._store.queue.inferred_graphs()),
        )
        yield _gauge("quadrill_feed_subscribers", "Open event streams.", fanout.clients)
        yield _counter(
            "quadrill_feed_dropped_subscribers",
            "Subscribers that were disconnected because they were too slow.",
            streamed.dropped,
        )
        yield _counter(
            "quadrill_feed_frames_sent", "Frames that were sent to event streams.", streamed.frames_sent
        )
        yield _gauge(
            "quadrill_running_queries",
            "Running one-shot queries and updates.",
            len(self._endpoint.processes.list()),
        )
        yield _gauge(
            "quadrill_feed_buffered_bytes", "Bytes of events buffered for slow clients.", streamed.buffered
        )
        figures, queries = engine_figures(self._engine), query_figures(self._engine)
        yield _of_stages([*figures.stages.items(), ("deliver", streamed.latency)])
        yield _gauge("quadrill_queue_inputs", "Inputs queued for the engine.", figures.queue_inputs)
        yield _gauge(
            "quadrill_queue_elements",
            "Elements queued for the engine; an input without elements counts as one.",
            figures.queue_elements,
        )
        yield _gauge(
            "quadrill_idempotency_keys",
            "Idempotency keys whose answers are stored.",
            figures.idempotency_keys,
        )
        yield from _of_graphs(figures.graphs)
        tables, rows = figures.static_tables
        yield _gauge("quadrill_static_tables", "Tables of static parts in memory.", tables)
        yield _gauge("quadrill_static_rows", "Rows in the tables of static parts.", rows)
        lookups = sum(each.lookups for each in queries)
        yield _gauge(
            "quadrill_static_lookups", "Static parts that are looked up by key in the store.", lookups
        )
        read, stale = figures.sources
        yield _gauge("quadrill_sources", "Remote documents and SERVICE results that queries read.", read)
        yield _gauge("quadrill_sources_stale", "Remote sources of queries whose last fetch failed.", stale)
        yield from _of_journal(journal_state(self._engine))
        yield from _of_streams(figures.streams, self._engine.parts.clock.now_ms())
        yield from _of_connectors(self._connectors)
        yield from _of_queries(queries)
        yield _gauge(
            "quadrill_huge_pages_bytes", "Memory in pages of 2 MB at the last measurement.", self._pages.held
        )
        if self._disk is not None:
            yield from _of_disk(self._disk)
        native = native_memory()
        if native is not None:
            yield _gauge(
                "quadrill_native_used_bytes",
                "Memory that the C library has allocated for the program.",
                native.used,
            )
            yield _gauge(
                "quadrill_native_free_bytes",
                "Freed memory that the C library retains in its arenas.",
                native.free,
            )
        yield from self._process.collect()


class ShapesCollector(Collector):
    """Prometheus collector for registered shapes."""

    def __init__(self, shapes: ShapeReports) -> None:
        self._shapes = shapes

    def collect(self) -> Iterable[Metric]:
        """Yield the current value of every metric of shapes."""
        return _of_shapes(self._shapes.figures())


def _of_stages(stages: list[tuple[str, Histogram]]) -> Metric:
    """Return the histogram of the stage durations: those of `Stages`, and deliver."""
    metric = HistogramMetricFamily(
        "quadrill_stage_seconds", "Time that inputs and results spend in a stage.", labels=("stage",)
    )
    for name, histogram in stages:
        buckets, total = histogram.buckets()
        metric.add_metric((name,), buckets, total)
    return metric


def _of_disk(disk: Disk) -> Iterable[Metric]:
    figures = disk.figures()
    yield _gauge("quadrill_data_bytes", "Size of the files in the data folder.", figures.data)
    yield _gauge("quadrill_disk_free_bytes", "Free space on the disk of the data folder.", figures.free)
    yield _gauge("quadrill_disk_bytes", "Size of the disk of the data folder.", figures.size)


def _of_graphs(rates: Mapping[str, Rate]) -> Iterable[Metric]:
    """Return commit rates and commit sizes of the graphs that change most often."""
    commits = GaugeMetricFamily(
        "quadrill_graph_commits_per_hour", "Commits that change a graph, per hour.", labels=("graph",)
    )
    quads = GaugeMetricFamily(
        "quadrill_graph_quads_per_commit",
        "Mean number of quads that a commit changes in a graph.",
        labels=("graph",),
    )
    for key, rate in rates.items():
        commits.add_metric((key,), round(rate.commits_per_hour, 3))
        quads.add_metric((key,), round(rate.quads_per_commit, 3))
    return (commits, quads)


def _of_journal(state: dict[str, Any] | None) -> Iterable[Metric]:
    if state is None:
        return
    yield _gauge("quadrill_input_log_bytes", "Size of the input log.", state["bytes"])
    yield _gauge(
        "quadrill_input_log_records", "Number of the newest record of the input log.", state["records"]
    )
    yield _gauge(
        "quadrill_input_log_waiting",
        "Records of the input log that are not yet synced to disk.",
        state["waiting"],
    )
    yield _gauge(
        "quadrill_input_log_waiting_bytes",
        "Bytes of records that are not yet written to the input log.",
        state["waiting_bytes"],
    )
    yield _gauge("quadrill_result_log_bytes", "Size of the result log.", state["result_bytes"])
    yield _gauge(
        "quadrill_input_log_unwritable",
        "1 while the journal cannot be written and the engine rejects inputs, else 0.",
        int(state["trouble"] is not None),
    )
    yield _gauge(
        "quadrill_checkpoint_seconds", "Duration of the last checkpoint.", state["checkpoint_seconds"]
    )
    yield _gauge(
        "quadrill_checkpoint_pause_seconds",
        "Time for which the last checkpoint stopped the queries.",
        state["checkpoint_pause_seconds"],
    )
    yield _gauge(
        "quadrill_tables_bytes", "Size of the tables of static parts on disk.", state["tables_bytes"]
    )
    yield _gauge("quadrill_checkpoint_bytes", "Size of the last checkpoint.", state["checkpoint_bytes"])
    yield _gauge(
        "quadrill_checkpoint_age_seconds",
        "Time since the last checkpoint; 0 if no task was executed since.",
        state["checkpoint_age_seconds"],
    )
    yield _counter("quadrill_results_written", "Flushes of results to the result log.", state["flushes"])
    yield _counter(
        "quadrill_results_write_seconds",
        "Time of flushes of results, including the wait until their inputs are durable.",
        state["flush_seconds"],
    )


def _of_streams(streams: list[StreamState], now_ms: int) -> Iterable[Metric]:
    accepted = CounterMetricFamily("quadrill_stream_elements", "Elements accepted.", labels=("stream",))
    late = CounterMetricFamily(
        "quadrill_stream_late_elements",
        "Elements with an event time below the watermark.",
        labels=("stream",),
    )
    refused = CounterMetricFamily(
        "quadrill_stream_refused_elements", "Elements rejected in partial pushes.", labels=("stream",)
    )
    early = CounterMetricFamily(
        "quadrill_stream_early_elements",
        "Elements rejected in partial pushes because their event time is too far ahead of the clock.",
        labels=("stream",),
    )
    watermark = GaugeMetricFamily(
        "quadrill_stream_watermark_ms", "Watermark in milliseconds since 1970.", labels=("stream",)
    )
    ahead = GaugeMetricFamily(
        "quadrill_stream_ahead_seconds",
        "Time by which a stream stamped at arrival is ahead of the clock; until then its time stands still.",
        labels=("stream",),
    )
    retained = GaugeMetricFamily(
        "quadrill_stream_retained", "Elements retained for replay.", labels=("stream",)
    )
    dead = GaugeMetricFamily("quadrill_stream_dead_letters", "Stored dead letters.", labels=("stream",))
    for stream in streams:
        label = (stream.name,)
        accepted.add_metric(label, stream.counts.accepted)
        late.add_metric(label, stream.counts.late)
        refused.add_metric(label, stream.counts.refused)
        early.add_metric(label, stream.counts.early)
        retained.add_metric(label, stream.retained.elements)
        dead.add_metric(label, len(stream.dead_letters))
        if stream.watermark is not None:
            watermark.add_metric(label, stream.watermark)
        ahead.add_metric(label, ahead_ms(stream, now_ms) / 1_000)
    return (accepted, late, refused, early, watermark, ahead, retained, dead)


def _of_connectors(connectors: ConnectorService) -> Iterable[Metric]:
    labels = ("role", "connector")
    refused = CounterMetricFamily(
        "quadrill_connector_refused", "Records or events that a source or sink has refused.", labels=labels
    )
    degraded = GaugeMetricFamily(
        "quadrill_connector_degraded",
        "1 while the health of a source or sink is degraded, for a minute after a refusal, else 0.",
        labels=labels,
    )
    roles: tuple[ConnectorRole, ...] = ("source", "sink")
    for role in roles:
        for each in connectors.all(role):
            refused.add_metric((role, each["name"]), each["refused"])
            degraded.add_metric((role, each["name"]), each["health"] == "degraded")
    return (refused, degraded)


def _of_queries(queries: list[QueryFigures]) -> Iterable[Metric]:
    states = GaugeMetricFamily("quadrill_queries", "Continuous queries by state.", labels=("state",))
    found: dict[str, int] = {"running": 0, "paused": 0, "failed": 0}
    for query in queries:
        found[query.state] = found.get(query.state, 0) + 1
    for state, number in found.items():
        states.add_metric((state,), number)
    evaluations = CounterMetricFamily(
        "quadrill_query_evaluations", "Evaluations of a query.", labels=("query",)
    )
    events = CounterMetricFamily(
        "quadrill_query_events", "Events that a query has emitted.", labels=("query",)
    )
    subscribers = GaugeMetricFamily(
        "quadrill_query_subscribers", "Subscribers of a query's feed.", labels=("query",)
    )
    kept = GaugeMetricFamily(
        "quadrill_query_kept_events", "Events stored for subscribers that resume.", labels=("query",)
    )
    kept_bytes = GaugeMetricFamily(
        "quadrill_query_kept_bytes",
        "Characters of the events stored for subscribers that resume.",
        labels=("query",),
    )
    held = GaugeMetricFamily(
        "quadrill_query_state_quads",
        "Quads in the windows of a query and in its waiting elements.",
        labels=("query",),
    )
    for query in queries:
        label = (query.name,)
        evaluations.add_metric(label, query.evaluations)
        events.add_metric(label, query.events)
        subscribers.add_metric(label, query.subscribers)
        kept.add_metric(label, query.kept_events)
        kept_bytes.add_metric(label, query.kept_bytes)
        held.add_metric(label, query.state_quads)
    return (states, evaluations, events, subscribers, kept, kept_bytes, held)


def _of_shapes(shapes: list[ShapeFigures]) -> Iterable[Metric]:
    states = GaugeMetricFamily("quadrill_shapes", "Registered shapes by state.", labels=("state",))
    failed = sum(each.failed for each in shapes)
    states.add_metric(("ready",), len(shapes) - failed)
    states.add_metric(("failed",), failed)
    results = GaugeMetricFamily(
        "quadrill_shapes_results",
        "Validation results of shapes, by the standard severities; other severities are counted together.",
        labels=("shapes", "severity"),
    )
    validations = CounterMetricFamily(
        "quadrill_shapes_validations", "Changes that shapes have validated.", labels=("shapes",)
    )
    seconds = CounterMetricFamily(
        "quadrill_shapes_validation_seconds", "Time of the validation of changes.", labels=("shapes",)
    )
    refused = CounterMetricFamily(
        "quadrill_shapes_refused_changes",
        "Changes that were refused because they added violations.",
        labels=("shapes",),
    )
    stopped = CounterMetricFamily(
        "quadrill_shapes_stopped_validations",
        "Validations that were stopped, for instance by a budget.",
        labels=("shapes",),
    )
    for each in shapes:
        label, counts = (each.name,), each.counts
        found = {severity.value.removeprefix(SH): number for severity, number in each.severities.items()}
        for severity in _SEVERITIES:
            results.add_metric((each.name, severity), found.pop(severity, 0))
        results.add_metric((each.name, "other"), sum(found.values()))
        validations.add_metric(label, counts.validations)
        seconds.add_metric(label, counts.seconds)
        refused.add_metric(label, counts.refused)
        stopped.add_metric(label, counts.stopped)
    return (states, results, validations, seconds, refused, stopped)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
