"""Counters of queries, cheap enough to read thousands of queries every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from quadrill.continuous.plan.plan_state import PlanState
from quadrill.continuous.queries.catalogue import QueryEntry
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.windows.timeline import QueryTimeline


class QueryLoad(NamedTuple):
    """Counters of a query since its start; ``late`` includes elements dropped earlier by its streams.

    Attributes:
        state_size: current number of quads in the query's windows and in elements that wait for it.
        steps: number of transactions that the query's plan executed; None if the answer is recomputed each
            time.
        step_us: mean CPU time of the plan's measured transactions in microseconds; None before the first one.
    """

    elements: int
    late: int
    events: int
    rows: int
    state_size: int
    steps: int | None
    step_us: float | None


_made = partial(tuple.__new__, QueryLoad)


def loads_of(
    find: Callable[[str], StreamState | None], entries: Iterable[QueryEntry]
) -> list[tuple[str, QueryLoad]]:
    """Return the counters of running queries by name; shared plans are read once."""
    found = []
    timeline: QueryTimeline | None = None
    last: PlanState | None = None
    taken = late = held = 0
    steps: int | None = None
    mean: float | None = None
    for entry in entries:
        running = entry.running
        if running is None:
            continue
        if running.timeline is not timeline:
            timeline = running.timeline
            taken, held = timeline.inputs.taken, timeline.state_size()
            states = map(find, timeline.inputs.streams)
            late = timeline.inputs.late + sum(each.counts.lost for each in states if each is not None)
        state = running.plan_state
        if state is not last:
            last, steps, mean = state, None, None
            if state is not None:
                figures = state.plan.figures
                steps, timed = figures.steps, figures.timed_steps
                mean = sum(figures.spent) / timed / 1000 if timed else None
        ahead, counts = running.group.count_offset, running.emission.counts
        rows = counts.rows_inserted + counts.rows_deleted
        load = _made((taken + ahead[0], late + ahead[1], running.feed.events, rows, held, steps, mean))
        found.append((entry.name, load))
    return found
