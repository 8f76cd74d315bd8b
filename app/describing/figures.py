"""What the engine and each query are counted by, for whoever collects figures: nothing is described."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.catalogue import QueryEntry
from quadrill.continuous.streams.accept import StreamState
from quadrill.store.quads.meters import Stages
from quadrill.store.quads.rates import Rate

_RATED_GRAPHS = 50
"""Graphs whose rates are told: each is a series of its own to whoever collects them."""


class EngineFigures(NamedTuple):
    """What an engine holds at a moment, counted without describing anything."""

    stages: Stages  # how long the stages of an input take
    queue_inputs: int  # inputs that wait for the engine
    queue_elements: int  # elements in them, one for each input without any
    idempotency_keys: int
    graphs: Mapping[str, Rate]  # the graphs of the store that change most often, by key
    static_tables: tuple[int, int]  # tables of static parts in memory, and their rows
    sources: tuple[int, int]  # how many things are fetched from other servers, and how many are stale
    streams: list[StreamState]  # by name


class QueryFigures(NamedTuple):
    """One query; ``state_quads`` are those in windows and waiting elements, ``lookups`` of static parts."""

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
    """What an engine holds and how long its stages take, cheaply."""
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
    """Size and health of what keeps inputs and feeds; None without.

    ``trouble`` is why nothing is accepted now, None when all is well; ``recovery`` tells of the start.
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
        "settle_seconds": seconds,
        "settles": buckets[-1][1],
        "checkpoint_seconds": checkpoints.took_s,
        "checkpoint_pause_seconds": checkpoints.stopped_s,
        "recovery": recovery.report,
    }


def query_figures(engine: Engine) -> list[QueryFigures]:
    """The figures of all queries in the order of their registration."""
    return list(engine.queries.inspect_all(lambda entries: list(map(_figures_of, entries))))


def _figures_of(entry: QueryEntry) -> QueryFigures:
    running, feed = entry.running, entry.feed
    told = (feed.events, feed.subscribers, len(feed.history.events), feed.history.kept_characters)
    if running is None:
        state = entry.state if entry.pending is None else "materialising"
        return QueryFigures(entry.name, state, 0, *told, 0, 0)
    running.bring_up_to_date()
    held = (running.timeline.state_size(), len(running.static.looked_up()))
    return QueryFigures(entry.name, running.state, running.last.evaluations, *told, *held)
