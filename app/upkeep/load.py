"""What queries have done so far, counter by counter, so cheaply that thousands are read every few seconds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from quadrill.continuous.plan.plan_state import PlanState
from quadrill.continuous.queries.catalogue import QueryEntry
from quadrill.continuous.streams.accept import StreamState
from quadrill.continuous.windows.timeline import QueryTimeline


class QueryLoad(NamedTuple):
    """What a query has done since it began; ``late`` counts what its streams dropped before that, too.

    Attributes:
        state_size: quads in its windows and in waiting elements now.
        steps: transactions of its plan; None where the answer is recomputed.
        step_us: CPU time of one, the mean of those that were measured; None before there was one.
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
    """The loads of those that run, by name; what several have in common is looked at once."""
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
        ahead, told = running.group.count_offset, running.emission.counts
        rows = told.rows_inserted + told.rows_deleted
        load = _made((taken + ahead[0], late + ahead[1], running.feed.events, rows, held, steps, mean))
        found.append((entry.name, load))
    return found
