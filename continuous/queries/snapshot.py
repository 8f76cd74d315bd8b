"""The state of a query in a checkpoint."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyoxigraph import Quad

from ..algebra.reports import Evaluation
from ..errors import BudgetError
from ..output.emission import AskEmission, ConstructEmission, EmissionCounts
from ..output.once import OnceEmission, OnceSnapshot
from ..output.until_gone import UntilGoneEmission
from ..rows import Solution
from ..windows.query_streams import RECORDS as TIMELINE_RECORDS
from ..windows.query_streams import TimelineSnapshot
from ..windows.timeline import QueryTimeline
from .running import RunningQuery, State
from .view_update import update_view


@dataclass(frozen=True, slots=True)
class AnswerSnapshot:
    """A query's last answer, as far as the next answer is compared with it, and the id of its event.

    The ``quads`` of an answer are empty except in checkpoints of earlier releases; the quads of a CONSTRUCT
    query follow from its rows.
    """

    rows: list[Solution]
    quads: list[Quad]
    boolean: bool | None
    last_id: int | None
    once: OnceSnapshot | None = None


@dataclass(frozen=True, slots=True)
class CountsSnapshot:
    """The counts of a query since its registration, as stored in a checkpoint."""

    evaluations: int
    emitted: EmissionCounts
    refreshes: int
    inputs: int
    results: int


@dataclass(frozen=True, slots=True)
class QuerySnapshot:
    """A query in a checkpoint: its windows, queued elements, last answer and counts.

    ``static_version`` is a version of the store with the static rows of the query's last evaluation. ``pins``
    are the contents of remote sources that the query's static rows come from. ``looked_up`` are the static
    parts of the query that have no table in memory. ``seen`` and ``stale`` matter for a query with
    static parts that are not in shared tables.
    """

    state: State
    error: str | None
    timeline: TimelineSnapshot
    answer: AnswerSnapshot
    counts: CountsSnapshot
    last_step: Evaluation | None
    last_version: int
    last_result: dict[str, Any] | None
    last_refresh: dict[str, Any] | None
    seen: int
    stale: bool
    static_version: int
    pins: Mapping[str, list[Any]]
    looked_up: Mapping[int, str | None]


RECORDS = TIMELINE_RECORDS | {
    "AnswerSnapshot": AnswerSnapshot,
    "CountsSnapshot": CountsSnapshot,
    "EmissionCounts": EmissionCounts,
    "OnceSnapshot": OnceSnapshot,
    "Evaluation": Evaluation,
    "QuerySnapshot": QuerySnapshot,
}
"""The classes of objects in a query's snapshot, by their names in checkpoints."""


def snapshot_of(running: RunningQuery, timelines: dict[QueryTimeline, TimelineSnapshot]) -> QuerySnapshot:
    """Return the snapshot of a query for a checkpoint.

    ``timelines`` caches the snapshots of timelines, which queries may share; the function adds the query's
    timeline.
    """
    running.bring_up_to_date()
    static, emission = running.static, running.emission
    once = None
    if isinstance(emission, OnceEmission | UntilGoneEmission):
        once, emission = emission.snapshot(), emission.inner
    if running.timeline not in timelines:
        timelines[running.timeline] = running.timeline.snapshot()
    taken, late, behind = running.counts()
    return QuerySnapshot(
        running.state,
        running.error,
        timelines[running.timeline]._replace(taken=taken, late=late, behind=behind),
        AnswerSnapshot(
            list(running.evaluator.checkpoint_rows),
            [],
            emission.emitted if isinstance(emission, AskEmission) else None,
            running.last.answer_id,
            once,
        ),
        CountsSnapshot(
            running.last.evaluations,
            emission.counts,
            static.refreshes,
            taken,
            running.results.total,
        ),
        running.last.step,
        running.last.version,
        running.last.result,
        static.last_refresh,
        static.seen,
        static.stale,
        static.evaluated_version,
        {} if running.prepared.sources is None else running.prepared.sources.pins(),
        static.looked_up(),
    )


def restore(running: RunningQuery, snapshot: QuerySnapshot, time_limit_ms: int = 0) -> None:
    """Bring a new query to the state of a snapshot of the same registration.

    The query's evaluator gets the window contents of the last evaluation, and continues from there.

    Raises:
        BudgetError: restoring the query took longer than ``time_limit_ms`` (0 for no limit), or was
        cancelled.
    """
    static, emission, answer = running.static, running.emission, snapshot.answer
    running.timeline.restore(snapshot.timeline)
    running.state, running.error = snapshot.state, snapshot.error
    if isinstance(emission, OnceEmission | UntilGoneEmission):
        if answer.once is not None:
            emission.restore(answer.once)
        emission = emission.inner
    if isinstance(emission, AskEmission):
        emission.emitted = answer.boolean
    emission.counts = snapshot.counts.emitted
    running.last.evaluations, static.refreshes = snapshot.counts.evaluations, snapshot.counts.refreshes
    running.results.total = snapshot.counts.results
    running.last.step, running.last.version = snapshot.last_step, snapshot.last_version
    running.last.result, running.last.answer_id = snapshot.last_result, answer.last_id
    static.last_refresh = snapshot.last_refresh
    static.seen, static.stale = snapshot.seen, snapshot.stale
    static.catch_up(on_request=running.prepared.refresh != "trigger")
    if snapshot.last_step is not None:
        at, windows = snapshot.last_step.at, running.timeline.windows.contents
        budget = running.evaluator.budget
        limits = budget.limits
        if snapshot.state != "failed":
            # A restored query's evaluation of whole windows may take longer than any change, so the query's
            # own limits do not apply here. A failed query keeps its limits, because its windows may contain
            # the elements that exceeded them.
            budget.limit(replace(limits, rows=0, ms=time_limit_ms))
        budget.since = time.monotonic()
        try:
            last = running.evaluator.resume(at, windows, answer.rows, answer.boolean)
        except BudgetError:
            if snapshot.state != "failed":
                raise
            return
        finally:
            budget.since = 0.0
            budget.limit(limits)
        if running.view is not None:
            update_view(running.evaluator.construct, running.view, (), last.rows, at)
        if isinstance(running.emission, ConstructEmission):
            running.emission.resume(last)
        if isinstance(running.emission, UntilGoneEmission):
            running.emission.resume(last)
            running.timeline.remind_at = running.emission.remind_at
        running.set_answer(last)
