"""What every query is counted by, for whoever collects figures; nothing of it is described."""

from __future__ import annotations

from typing import NamedTuple

from quadrill.continuous.engine import Engine
from quadrill.continuous.queries.catalogue import Entry


class QueryFigures(NamedTuple):
    """One query; ``state_quads`` are those in windows and waiting elements, ``lookups`` of static parts."""

    name: str
    state: str
    evaluations: int
    events: int
    subscribers: int
    kept_events: int
    state_quads: int
    lookups: int


def query_figures(engine: Engine) -> list[QueryFigures]:
    """The figures of all queries in the order of their registration."""
    return list(engine.look_at_queries(lambda entries: list(map(_figures_of, entries))))


def _figures_of(entry: Entry) -> QueryFigures:
    running, feed = entry.running, entry.feed
    told = (feed.events, feed.subscribers, feed.kept)
    if running is None:
        state = entry.state if entry.pending is None else "materialising"
        return QueryFigures(entry.name, state, 0, *told, 0, 0)
    running.settle()
    held = (running.timeline.state_size(), len(running.static.looked_up()))
    return QueryFigures(entry.name, running.state, running.evaluations, *told, *held)
