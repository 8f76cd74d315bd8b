"""Runs one query over elements: natively or by recomputation, and times it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from quadrill.continuous.algebra.reports import Evaluation, Report
from quadrill.continuous.evaluate.evaluator import Evaluator
from quadrill.continuous.evaluate.native import NativeEvaluator
from quadrill.continuous.evaluate.recomputing import ReferenceEvaluator
from quadrill.continuous.inputs import Arrival, Element, StreamTime
from quadrill.continuous.language import parse
from quadrill.continuous.static.static_evaluator import EvaluationOptions
from quadrill.continuous.windows.timeline import QueryTimeline
from quadrill.store.quads.quad_store import QuadStore

Rows = list[tuple[object, ...]]


@dataclass(slots=True)
class Timing:
    """CPU seconds of one run, the part of it in the evaluator, and what came out."""

    events: int
    evaluations: int
    total: float
    evaluator: float
    rows: int

    @property
    def per_event(self) -> float:
        """Microseconds of evaluation an event."""
        return self.evaluator / self.events * 1e6

    @property
    def per_event_with_windows(self) -> float:
        """Microseconds an event, time and windows included."""
        return self.total / self.events * 1e6


class Driver:
    """One query over one stream, driven element by element."""

    def __init__(self, text: str, store: QuadStore, parameters: dict[str, str] | None = None) -> None:
        self.query = parse(text, parameters=parameters)
        self._store = store

    def timeline(self, evaluator: Evaluator) -> QueryTimeline:
        """A fresh timeline of the query, evaluated whenever a window's content changes."""
        report = Report("on-content-change")
        return QueryTimeline(self.query.windows, report, content_of=evaluator.content_of)

    def native(
        self, elements: Iterable[Element], *, warm_up: int = 0, evaluator: NativeEvaluator | None = None
    ) -> Timing:
        """Changes of the windows in, change of the answer out."""
        evaluator = evaluator or NativeEvaluator(self.query, self._store, EvaluationOptions())
        timeline = self.timeline(evaluator)
        last: list[int] = []

        def step(at: int) -> int:
            if last:
                evaluator.replan_filters(last.pop(), timeline.windows.contents)
            last.append(at)
            return len(evaluator.advance(at, timeline.windows.contents).inserted)

        return _run(timeline, elements, step, warm_up)

    def recompute(self, elements: Iterable[Element], *, warm_up: int = 0) -> Timing:
        """The whole answer again at every instant, by Oxigraph."""
        evaluator = ReferenceEvaluator(self.query, self._store, EvaluationOptions())
        timeline = self.timeline(evaluator)

        def step(at: int) -> int:
            return len(evaluator.advance(at, timeline.windows.contents).rows)

        return _run(timeline, elements, step, warm_up)


def _run(
    timeline: QueryTimeline, elements: Iterable[Element], step: Callable[[int], int], warm_up: int
) -> Timing:
    """Evaluate at every instant; the first ``warm_up`` events fill the windows and are not timed."""
    stream = next(iter(timeline.inputs.streams))
    seen = StreamTime()
    total = inside = 0.0
    events = evaluations = rows = 0
    pending_at: int | None = None
    for number, element in enumerate(elements):
        timed = number >= warm_up
        after = StreamTime(element.event_time)
        begin = time.thread_time()
        spent = 0.0
        for each in timeline.handle(Arrival(stream, (element,), seen, after)):
            if not isinstance(each, Evaluation):
                continue
            pending_at = each.at
            if timed or step.__name__ == "step":
                start = time.thread_time()
                found = step(each.at)
                spent += time.thread_time() - start
                if timed:
                    rows += found
                    evaluations += 1
        if timed:
            total += time.thread_time() - begin
            inside += spent
            events += 1
        seen = after
    assert pending_at is not None
    return Timing(events, evaluations, total, inside, rows)
