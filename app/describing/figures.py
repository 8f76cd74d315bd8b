"""Counts of the engine and of each query for metrics, collected without building descriptions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.catalogue import QueryEntry
from quadrill.continuous.streams.accept import StreamState
from quadrill.store.quads.meters import Stages
from quadrill.store.quads.rates import Rate

_RATED_GRAPHS = 50
"""Maximum number of graphs whose rate of change is reported, as each graph is a separate metrics series."""


class EngineFigures(NamedTuple):
    """Current counts of an engine for metrics, collected without building descriptions."""

    stages: Stages  # durations of the processing stages of an input
    queue_inputs: int  # inputs queued for the engine
    queue_elements: int  # elements in the queued inputs; an input without elements counts as one
    idempotency_keys: int
    graphs: Mapping[str, Rate]  # the graphs of the store that change most often, by key
    static_tables: tuple[int, int]  # tables of static parts in memory, and their rows
    sources: tuple[int, int]  # number of documents fetched from other servers, and of the stale ones
    streams: list[StreamState]  # by name


class QueryFigures(NamedTuple):
    """Counts of one query for metrics; ``state_quads`` are the quads in windows and waiting elements."""

    name: str
    state: str
    evaluations: int
    events: int
    subscribers: int
    kept_events: int
    kept_bytes: int
    state_quads: int
    lookups: int


def engine_figures(engine: Engine) -> EngineFigures:
    """Return the current counts of an engine and the durations of its stages, at low cost."""
    parts = engine.parts
    return EngineFigures(
        stages=parts.tasks.stages,
        queue_inputs=parts.tasks.waiting.qsize(),
        queue_elements=parts.tasks.weight,
        idempotency_keys=len(parts.acceptor.receipts),
        graphs=parts.rates.most_active(parts.clock.now_ms(), _RATED_GRAPHS),
        static_tables=(len(parts.statics.held()), parts.statics.rows()),
        sources=parts.sources.figures(),
        streams=sorted(parts.streams, key=lambda each: each.name),
    )


def journal_state(engine: Engine) -> dict[str, Any] | None:
    """Return size and health of the engine's journal and result log; None for a store in memory.

    ``trouble`` is the reason why the engine accepts no input now, or None; ``recovery`` describes the last
    recovery.
    """
    parts, recovery = engine.parts, engine.recovery
    journal = parts.tasks.journal
    if journal is None or recovery is None:
        return None
    buckets, seconds = parts.tasks.stages.results.buckets()
    kept, checkpoints = parts.statics.kept, recovery.checkpoints
    return {
        "records": journal.log.last,
        "waiting_bytes": journal.log.waiting_bytes,
        "result_bytes": journal.results.size(),
        "checkpoint_bytes": checkpoints.size,
        "tables_bytes": 0 if kept is None else kept.rows.shelf.size,
        "checkpoint_age_seconds": checkpoints.age_s,
        "earliest": journal.log.earliest,
        "waiting": journal.log.last - journal.log.durable,
        "bytes": journal.log.size(),
        "trouble": journal.log.failure or parts.tasks.write_error,
        "flush_seconds": seconds,
        "flushes": buckets[-1][1],
        "checkpoint_seconds": checkpoints.took_s,
        "checkpoint_pause_seconds": checkpoints.stopped_s,
        "recovery": recovery.report,
    }


def query_figures(engine: Engine) -> list[QueryFigures]:
    """Return the counts of all queries for metrics, in the order of their registration."""
    return list(engine.queries.inspect_all(lambda entries: list(map(_figures_of, entries))))


def _figures_of(entry: QueryEntry) -> QueryFigures:
    running, feed = entry.running, entry.feed
    counts = (feed.events, feed.subscribers, len(feed.history.events), feed.history.kept_characters)
    if running is None:
        state = entry.state if entry.pending is None else "materialising"
        return QueryFigures(entry.name, state, 0, *counts, 0, 0)
    running.bring_up_to_date()
    held = (running.timeline.state_size(), len(running.static.looked_up()))
    return QueryFigures(entry.name, running.state, running.last.evaluations, *counts, *held)
