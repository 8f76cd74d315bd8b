"""What an engine holds at a moment, for `/metrics`: counted without describing anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from quadrill.store.quads.rates import Rate

RATED_GRAPHS = 50
"""Graphs whose rates are told: each is a series of its own to whoever collects them."""

if TYPE_CHECKING:
    from ..meters import Histogram
    from ..queries.catalogue import Entry
    from .parts import EngineParts


@dataclass(frozen=True, slots=True)
class StreamFigures:
    """One stream. Times are milliseconds of event time."""

    name: str
    accepted: int
    late: int
    refused: int
    watermark: int | None
    retained: int
    dead_letters: int


@dataclass(frozen=True, slots=True)
class QueryFigures:
    """One query; ``state_quads`` are those in windows and waiting elements."""

    name: str
    state: str
    evaluations: int
    events: int
    subscribers: int
    kept_events: int
    state_quads: int


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """The whole engine.

    Attributes:
        stages: names and figures of the stages of an input.
        queue_inputs: inputs that wait for the engine.
        queue_elements: elements in them, one for each input without any.
        idempotency_keys: remembered keys.
        graphs: the graphs of the store that change most often, by key.
        static_tables: tables of static parts in memory, and their rows.
        static_lookups: static parts that are looked up instead.
        sources: how many things are fetched from other servers, and how many of them are stale.
        streams: by name.
        queries: in the order of registration.
    """

    stages: list[tuple[str, Histogram]]
    queue_inputs: int
    queue_elements: int
    idempotency_keys: int
    graphs: Mapping[str, Rate]
    static_tables: tuple[int, int]
    static_lookups: int
    sources: tuple[int, int]
    streams: list[StreamFigures]
    queries: list[QueryFigures]


def figures_of(parts: EngineParts) -> EngineFigures:
    """The figures of this moment."""
    with parts.turns.lock:
        streams = [
            StreamFigures(
                each.name, each.accepted, each.late, each.refused, each.watermark, each.retained,
                len(each.dead_letters),
            )
            for each in parts.streams
        ]  # fmt: skip
    # Between two inputs, so that windows do not change while they are counted.
    with parts.sequencer.paused:
        queries = [_of_query(entry) for entry in parts.catalogue.entries()]
        lookups = sum(len(each.static.looked_up()) for each in parts.running())
    return EngineFigures(
        parts.turns.stages.items(),
        parts.turns.waiting.qsize(),
        parts.turns.weight,
        len(parts.acceptor.receipts),
        parts.rates.liveliest(parts.clock.now_ms(), RATED_GRAPHS),
        (len(parts.statics.held()), parts.statics.rows()),
        lookups,
        parts.sources.figures(),
        sorted(streams, key=lambda each: each.name),
        queries,
    )


def _of_query(entry: Entry) -> QueryFigures:
    running, feed = entry.running, entry.feed
    told = (feed.last_id, feed.subscribers, feed.kept)
    if running is None:
        state = entry.state if entry.pending is None else "materialising"
        return QueryFigures(entry.name, state, 0, *told, 0)
    running.settle()
    size = running.timeline.state_size()
    return QueryFigures(entry.name, running.state, running.evaluations, *told, size)
