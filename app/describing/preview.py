"""What a query would have told over the newest elements that its streams retain; nothing is registered."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, replace
from typing import Any

from quadrill.continuous.engine import Engine
from quadrill.continuous.errors import reason_of
from quadrill.continuous.inputs import NEVER, Arrival, StreamInput
from quadrill.continuous.queries.prepare import EvaluatorChoice, PreparedQuery
from quadrill.continuous.queries.registration import Registration
from quadrill.continuous.queries.running import RunningQuery
from quadrill.continuous.static.reading import Progress, entered
from quadrill.store.errors import QuadrillError, UnsupportedError
from quadrill.store.quads.quad_store import QuadStore

from ..http.errors import HttpError


@dataclass(frozen=True, slots=True)
class PreviewLimits:
    """What a preview may cost: elements that it takes, events that it shows, milliseconds that it works."""

    elements: int = 20_000
    events: int = 1_000
    ms: int = 5_000


_AT_WORK = threading.Lock()


def preview(
    engine: Engine,
    store: QuadStore,
    registration: Registration,
    *,
    span_ms: int,
    events: int,
    limits: PreviewLimits = PreviewLimits(),
) -> dict[str, Any]:
    """What the query tells of the last ``span_ms`` of its streams, the newest ``events`` events of it.

    It has an evaluator and terms of its own and takes part in no turn: what runs does not notice.

    Raises:
        QuadrillError: as for a registration; UnsupportedError for a query that reads other servers.
        HttpError: another preview is at work.
    """
    prepared = engine.prepare(registration)
    if prepared.source_specs:
        raise UnsupportedError("SERVICE", "a query that reads other servers has no preview")
    end = time.monotonic() + limits.ms / 1000
    if not _AT_WORK.acquire(timeout=limits.ms / 1000):
        raise HttpError(503, "another preview is at work", code="preview-busy", headers={"Retry-After": "1"})
    try:
        return _run(engine, store, prepared, span_ms, events, end, limits)
    finally:
        _AT_WORK.release()


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
    most = min(prepared.registration.max_time or limits.ms, limits.ms)
    bounded = replace(prepared, registration=replace(prepared.registration, max_time=most))
    progress = Progress(limited=True)
    timer = threading.Timer(max(0.0, end - time.monotonic()), setattr, (progress, "called_off", True))
    timer.start()
    try:
        with entered(progress):
            trial = engine.trial(bounded, EvaluatorChoice()(bounded, store, frozenset()), events)
            try:
                taken, stopped = _take(trial, inputs, end)
                return _told(trial, taken, stopped) | {"from": began, "left_out": left_out}
            finally:
                trial.evaluator.close()
    finally:
        timer.cancel()


def _newest(
    engine: Engine, prepared: PreparedQuery, span_ms: int, most: int
) -> tuple[list[StreamInput], int | None, int]:
    """The inputs to take, the event time from which they are, and how many elements are too many."""
    inputs = engine.retained(prepared.streams, NEVER)
    times = [each.event_time for one in inputs if isinstance(one, Arrival) for each in one.elements]
    if not times:
        return [], None, 0
    began = max(times) - span_ms
    inputs = engine.retained(prepared.streams, began)
    kept, many = len(inputs), 0
    while kept:
        last = inputs[kept - 1]
        more = len(last.elements) if isinstance(last, Arrival) else 0
        if many + more > most:
            break
        many, kept = many + more, kept - 1
    left_out = sum(len(one.elements) for one in inputs[:kept] if isinstance(one, Arrival))
    return inputs[kept:], began, left_out


def _take(trial: RunningQuery, inputs: list[StreamInput], end: float) -> tuple[int, str | None]:
    """Give the query its inputs; how many elements it got, and why it stopped before the last, if it did."""
    taken = 0
    try:
        now = trial.created_ms
        trial.begin(now)
        for event in inputs:
            if time.monotonic() > end:
                return taken, "the time of a preview was over"
            trial.handle(event, now)
            taken += len(event.elements) if isinstance(event, Arrival) else 0
    except QuadrillError as error:
        return taken, reason_of(error)[0]
    return taken, None


def _told(trial: RunningQuery, taken: int, stopped: str | None) -> dict[str, Any]:
    """The document of what was told."""
    feed = trial.feed
    subscription = feed.subscribe(after_id=0)
    shown = [each for each in subscription.take() if each.id is not None]
    line = feed.current()
    return {
        "elements": taken,
        "to": trial.timeline.instant,
        "version": trial.static.version,
        "evaluations": trial.evaluations,
        "told": feed.events,
        "stopped": stopped,
        "events": [{"id": each.id, "event": each.kind, "data": json.loads(each.data)} for each in shown],
        "answer": None if line is None else json.loads(line),
    }
