"""Preview of a query: its output for the newest retained elements of its streams, without a registration."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from quadrill.continuous.algebra.columnar import StaticEngines
from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import reason_of
from quadrill.continuous.inputs import NEVER, Arrival, Element, StreamInput
from quadrill.continuous.language.registration import Registration
from quadrill.continuous.queries.prepare import EvaluatorChoice, PreparedQuery
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.static.table_reading import Progress, entered
from quadrill.store.errors import ReportedError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..http.errors import HttpError


@dataclass(frozen=True, slots=True)
class PreviewLimits:
    """Limits on the cost of the preview of a query.

    The limits of a preview bound the processed elements, the returned events, the run time in milliseconds,
    the rows of one evaluation and of the answer, the bytes of one evaluation (``bytes``, also the bound on
    characters of answer and events in the document), and the milliseconds of waiting for another preview.
    """

    elements: int = 20_000
    events: int = 1_000
    ms: int = 5_000
    rows: int = 100_000
    bytes: int = 4 << 20
    wait_ms: int = 200


TIME_OVER = "the time limit of a preview was reached"
"""The reason that a preview's document gives for its early end when its time is over."""
_RUNNING = threading.Lock()
"""Lock that a running preview holds, because a server runs one preview at a time."""


def preview(
    engine: Engine,
    store: QuadStore,
    registration: Registration,
    *,
    span_ms: int,
    events: int,
    limits: PreviewLimits = PreviewLimits(),
) -> dict[str, Any]:
    """Evaluate a query over the last ``span_ms`` of its streams and return its newest ``events`` events.

    A preview of a query has a separate evaluator, separate terms and copies of the elements, and runs outside
    of the engine's tasks, so running queries are not affected.

    Raises:
        ReportedError: the query cannot be registered, or (UnsupportedError) it reads other servers.
        HttpError: 503 when another preview is still running.
    """
    prepared = engine.lifecycle.prepare(registration)
    if prepared.source_specs:
        raise UnsupportedError("SERVICE", "a query that reads other servers has no preview")
    end = time.monotonic() + limits.ms / 1000
    if not _RUNNING.acquire(timeout=limits.wait_ms / 1000):
        raise HttpError(503, "another preview is running", code="preview-busy", headers={"Retry-After": "1"})
    try:
        return _run(engine, store, prepared, span_ms, events, end, limits)
    finally:
        _RUNNING.release()


def _run(
    engine: Engine,
    store: QuadStore,
    prepared: PreparedQuery,
    span_ms: int,
    events: int,
    end: float,
    limits: PreviewLimits,
) -> dict[str, Any]:
    inputs, began, left_out = _newest(engine, prepared, span_ms, limits.elements)
    given = replace(prepared.default_limits, kept=limits.rows, bytes=limits.bytes)
    bounded = replace(prepared.bounded(limits.ms, limits.rows), default_limits=given)
    heavy = engine.settings.engines.bounded
    engines = StaticEngines(bounded=None if heavy is None else heavy.within(limits.ms / 1000))
    progress = Progress(limited=True)
    evaluator = None

    def call_off() -> None:
        progress.called_off = True
        if evaluator is not None:
            evaluator.budget.stop = TIME_OVER
            # With a ``next_check`` of 0, the budget checks at the next produced row whether the evaluation
            # must stop.
            evaluator.budget.next_check = 0

    timer = threading.Timer(max(0.0, end - time.monotonic()), call_off)
    timer.start()
    try:
        with entered(progress):
            evaluator = EvaluatorChoice(engines=engines)(bounded, store, frozenset())
            trial = engine.queries.trial(bounded, evaluator, events)
            try:
                taken, stopped = _take(trial, inputs, end)
                return _document_of(trial, taken, stopped, limits.bytes) | {
                    "from": began,
                    "left_out": left_out,
                }
            finally:
                trial.evaluator.close()
    finally:
        timer.cancel()


def _newest(
    engine: Engine, prepared: PreparedQuery, span_ms: int, most: int
) -> tuple[list[StreamInput], int | None, int]:
    """Return the newest inputs of a query's streams, with at most ``most`` elements.

    The inputs are followed by the first event time of the last ``span_ms`` (None without retained elements),
    and by the number of elements since that time that are left out.
    """
    inputs = engine.streams.retained(prepared.streams, NEVER)
    times = [each.event_time for one in inputs if isinstance(one, Arrival) for each in one.elements]
    if not times:
        return [], None, 0
    began = max(times) - span_ms
    inputs = engine.streams.retained(prepared.streams, began)
    kept, many = len(inputs), 0
    while kept:
        last = inputs[kept - 1]
        more = len(last.elements) if isinstance(last, Arrival) else 0
        if many + more > most:
            break
        many, kept = many + more, kept - 1
    left_out = sum(len(one.elements) for one in inputs[:kept] if isinstance(one, Arrival))
    return [_copied(one) for one in inputs[kept:]], began, left_out


def _copied(event: StreamInput) -> StreamInput:
    """Copy a stream's input with fresh elements, because elements cache term ids, which differ per engine."""
    if not isinstance(event, Arrival):
        return event
    copies = [Element(each.statements, each.event_time, each.seq) for each in event.elements]
    return event._replace(elements=tuple(copies))


def _take(trial: RunningQuery, inputs: list[StreamInput], end: float) -> tuple[int, str | None]:
    """Let a preview process inputs; return the number of elements, and the reason of an early stop."""
    taken = 0
    try:
        now = trial.created_ms
        trial.begin(now)
        for event in inputs:
            if time.monotonic() > end:
                return taken, TIME_OVER
            trial.handle((event,), now)
            taken += len(event.elements) if isinstance(event, Arrival) else 0
    except ReportedError as error:
        return taken, reason_of(error)[0]
    return taken, None


def _document_of(trial: RunningQuery, taken: int, stopped: str | None, most: int) -> dict[str, Any]:
    """Return a preview as JSON, with the answer and the newest events that fit into ``most`` characters.

    The member ``answer`` of a preview is null if the answer alone is longer than ``most`` characters. The
    member ``cut`` of a preview is True if the answer or an event is left out.
    """
    feed = trial.feed
    subscription = feed.subscribe(after_id=0)
    line = feed.current()
    room = most - len(line or "")
    if room < 0:
        line, room = None, most
    shown: list[dict[str, Any]] = []
    cut = line is None and feed.current() is not None
    for each in reversed([each for each in subscription.take() if each.id is not None]):
        room -= len(each.data)
        if room < 0:
            cut = True
            break
        shown.append({"id": each.id, "event": each.kind, "data": json.loads(each.data)})
    return {
        "elements": taken,
        "to": trial.timeline.instant,
        "version": trial.static.version,
        "evaluations": trial.last.evaluations,
        "told": feed.events,
        "stopped": stopped,
        "cut": cut,
        "events": shown[::-1],
        "answer": None if line is None else json.loads(line),
    }
