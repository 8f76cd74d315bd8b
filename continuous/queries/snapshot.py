"""What a query has become since its registration, for a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..output.emission import AskEmission, ConstructEmission
from .running import RunningQuery


def query_state(running: RunningQuery) -> dict[str, Any]:
    """Windows, waiting elements, last answer and counts of a query."""
    running.settle()
    static, emission = running.static, running.emission
    return {
        "running": {
            "state": running.state,
            "error": running.error,
            "_seen_version": static.seen,
            "_stale": static.stale,
            "_previous": list(running.evaluator.kept),
            "_previous_quads": list(emission.told) if isinstance(emission, ConstructEmission) else [],
            "_boolean": emission.told if isinstance(emission, AskEmission) else None,
            "_last_answer_id": running.last_answer_id,
            "evaluations": running.evaluations,
            "rows_inserted": emission.counts.rows_inserted,
            "rows_deleted": emission.counts.rows_deleted,
            "answers": emission.counts.answers,
            "last_result": running.last_result,
            "last_refresh": static.last_refresh,
            "refreshes": static.refreshes,
            "last_step": running.last_step,
            "last_version": running.last_version,
        },
        "timeline": running.timeline_state(),
        "static_version": static.evaluated_version,
        "pins": running.prepared.pins(),
        "looked_up": static.looked_up(),
        "totals": (running.inputs.total, running.results.total),
    }


def restore_query(running: RunningQuery, state: Mapping[str, Any]) -> None:
    """Bring a query that was just made to a state.

    Its evaluator is given the contents that it had at the last evaluation, so that it goes on from there.
    """
    running.timeline.restore(state["timeline"])
    kept = state["running"]
    running.state, running.error = kept["state"], kept["error"]
    static, emission = running.static, running.emission
    static.seen, static.stale = kept["_seen_version"], kept["_stale"]
    static.last_refresh, static.refreshes = kept["last_refresh"], kept["refreshes"]
    if isinstance(emission, ConstructEmission):
        emission.told = kept["_previous_quads"]
    elif isinstance(emission, AskEmission):
        emission.told = kept["_boolean"]
    emission.counts.rows_inserted = kept["rows_inserted"]
    emission.counts.rows_deleted = kept["rows_deleted"]
    emission.counts.answers = kept["answers"]
    running.evaluations = kept["evaluations"]
    running.last_answer_id, running.last_result = kept["_last_answer_id"], kept["last_result"]
    running.last_step, running.last_version = kept["last_step"], kept["last_version"]
    running.inputs.total, running.results.total = state["totals"]
    running.go_on(kept["_previous"], kept["_boolean"])
