"""One running query: its timeline, its evaluator and its relation-to-stream operator."""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Literal as OneOf

from quadrill.store.changes.commit import Commit
from quadrill.store.feeds.feed import Feed
from quadrill.store.feeds.replayed import publish_error
from quadrill.store.quads.meters import Meter
from quadrill.store.quads.views import View
from quadrill.store.results import one_line

from ..algebra.reports import Cause, EmptyReportRun, Evaluation, Reminder, Step, UnchangedRun
from ..durable.tasks import TaskQueue
from ..errors import reason_of
from ..evaluate.evaluator import Evaluator, Windows
from ..inputs import StreamInput
from ..output.current import CurrentAnswer, emission_of
from ..output.emission import (
    ChangedAnswer,
    EmitElement,
    EvaluationInfo,
    Event,
    SelectEmission,
    raise_too_large,
)
from ..output.until_gone import UntilGoneEmission
from ..plan.plan_state import PlanState
from ..settings import EngineSettings
from ..slices import RUN, pause
from ..windows.query_streams import Transaction
from ..windows.timeline import QueryTimeline
from .costs import MinuteCosts, check_costs, check_size
from .prepare import PreparedQuery, new_timeline
from .progress import GroupMembership, LastEvaluation, QueryFailure
from .static_state import StaticState
from .view_update import update_view

State = OneOf["running", "paused", "failed"]


class RunningQuery:
    """Passes inputs to the query's timeline, evaluates the query at its instants and publishes the results.

    Only the engine's thread calls the methods of a running query, except those that describe or cancel it.

    Attributes:
        static: the state of the query's static parts.
        emission: computes the events of each evaluation from the change of the answer.
        view: the graph of the store that is kept equal to the answer; None if there is none.
        is_replaying: True while the query evaluates retained elements that it had evaluated before.
        timeline: the query's event time, which siblings in its ``group`` may share.
        dropped_before: the number of elements that each of its streams had dropped before the query began;
            None for a query of an earlier release, which does not count them.
        begun: the place in the order of all streams' inputs after which the query takes inputs; 0 if it began
            with retained elements; None for a query of an earlier release.
        last: the last evaluation.
        failure: the input at which the query failed.
        inputs: the number of elements that the query took, by the second.
        results: the number of events that the query emitted, by the second.
        spent: the CPU seconds of the engine's thread that the query has used.
        costs: the costs of the last minute.
    """

    def __init__(
        self,
        name: str,
        prepared: PreparedQuery,
        evaluator: Evaluator,
        feed: Feed,
        settings: EngineSettings,
        created_ms: int,
        emit_element: EmitElement | None = None,
        tasks: TaskQueue | None = None,
    ) -> None:
        """Create a running query that has taken no input.

        ``emit_element`` is called with the quads of each evaluation of a query whose output is a stream,
        before any later input is processed.
        """
        self.name = name
        self.prepared = prepared
        self.evaluator = evaluator
        self.feed = feed
        self.created_ms = created_ms
        self.state: State = "running"
        self.error: str | None = None
        self.view: View | None = None
        self.is_replaying = False
        self.dropped_before: dict[str, int] | None = None
        self.begun: int | None = None
        self.group: GroupMembership[RunningQuery] = GroupMembership()
        self.last = LastEvaluation()
        self.failure = QueryFailure()
        self.inputs, self.results = Meter(), Meter()
        self.spent = 0.0
        self.costs = MinuteCosts()
        self.costs.always = self.costs.due = prepared.registration.costs.of_minutes
        self.static = StaticState(name, evaluator, tasks)
        self.emission = emission_of(
            prepared.query,
            prepared.output,
            evaluator.construct,
            evaluator.quads,
            prepared.report.non_empty,
            emit_element,
            prepared.analysis.columns,
            prepared.limits.kept,
        )

        if (
            (prepared.output, prepared.report.kind) == ("rstream", "on-window-close")
            and isinstance(self.emission, SelectEmission)
            and not prepared.report.non_empty
            and prepared.into_graph is None
            and prepared.registration.costs.memory is None
            and len(prepared.query.windows) == 1
        ):
            evaluator.list_windows()

        self.timeline = new_timeline(
            prepared, settings.max_empty_windows, evaluator.content_of, evaluator.streams_of
        )

    # --- inputs ---------------------------------------------------------------------------------

    def begin(self, now_ms: int) -> None:
        """Read the newest version of the static parts; a query without windows emits its initial answer."""
        self._refresh(now_ms, "registration")
        self.evaluate_now(now_ms, now_ms)

    def handle(self, events: Sequence[StreamInput], now_ms: int) -> None:
        """Process consecutive inputs of the query's streams, as many as possible together."""
        timeline, prepared, inputs = self.timeline, self.prepared, self.inputs
        memory, before, last = prepared.registration.costs.memory, timeline.inputs.taken, events[-1]
        failure = self.failure
        unlimited = (
            memory is None and failure.expected is None and self.view is None and prepared.sources is None
        )
        # Queries with a memory limit, an expected failure, a view or remote sources need a check between two
        # instants, so they process one input at a time.
        replays_construct = self.is_replaying and prepared.query.form == "construct"
        run = unlimited and self.state == "running" and not self.static.stale and not replays_construct
        if failure.expected is not None:
            failure.check_at(self.last.evaluations, events[0])
        while events:
            place, (transactions, ends) = 0, timeline.gather(events if run else events[:1])
            try:
                if not ends:
                    _evaluate_steps(self, timeline.handle(events[0], partial(is_silent, self)), now_ms)
                elif not run:
                    _evaluate_steps(self, timeline.slide(transactions), now_ms)
                while run and place < len(transactions):
                    done, error = _evaluate_run(self, transactions[place : place + RUN], now_ms)
                    place += done
                    if error is not None:
                        raise error
                    if place < len(transactions):
                        pause()
                    if done < RUN and place < len(transactions):
                        # The run stopped before this transaction, which is therefore processed without a run.
                        _evaluate_steps(self, timeline.slide(transactions[place : place + 1]), now_ms)
                        place += 1
                if memory is not None:
                    check_size(self.name, memory, timeline.state_size() + self.evaluator.inferred_triples)
            except Exception:
                failure.at = events[bisect_right(ends, place)] if place < len(transactions) else events[0]
                raise
            events = events[len(ends) or 1 :]
        if inputs.second != (second := now_ms // 1000):
            inputs.second = second
            inputs.marks.append((second, inputs.total))
            self.costs.due = self.spent > 0 or self.costs.always
        if failure.expected is not None:
            failure.check_at(self.last.evaluations, last)
        if self.costs.due:
            failure.at = last
            check_costs(self, now_ms)
            failure.at = None
        inputs.total += timeline.inputs.taken - before

    def commit(self, commit: Commit, now_ms: int) -> None:
        """Process a new version of the store, which may have changed static parts."""
        if self.static.statics is not None:
            self.apply_static_steps(now_ms)
            return
        self.static.seen = max(self.static.seen, commit.version)
        if self.evaluator.statics.version < commit.version and self.prepared.refresh == "trigger":
            self._changed_outside("trigger", commit.at_ms, now_ms)

    def sources_changed(self, now_ms: int) -> None:
        """Process new content of a remote source of the query."""
        if self.prepared.refresh != "manual":
            self._changed_outside("timer", now_ms, now_ms)

    def _changed_outside(self, cause: str, at_ms: int, now_ms: int) -> None:
        """Read the query's static parts again, now or at the next evaluation."""
        if self.prepared.on_commit and self.state != "paused":
            self.refresh(now_ms, cause, at_ms)
        else:
            self.static.stale = True

    def apply_static_steps(self, now_ms: int) -> None:
        """Apply changes of static tables; each version of the store is a separate transaction."""
        if self.prepared.refresh != "trigger" or self.static.statics is None:
            return
        for step in self.static.statics.steps.ready():
            if self.static.apply(step):
                self.static.note(now_ms, "trigger", changed=True)
                _read_bound_streams(self)
                self.evaluate_now(step.at_ms, now_ms)

    def refresh(self, now_ms: int, cause: str, at_ms: int) -> None:
        """Read the newest version of the static parts, and emit the resulting changes at an instant."""
        if self._refresh(now_ms, cause):
            self.evaluate_now(at_ms, now_ms)

    def _refresh(self, now_ms: int, cause: str) -> bool:
        """Read the newest version of the static parts; return True if a row changed."""
        changed = self.static.refresh(now_ms, cause, on_request=self.prepared.refresh != "trigger")
        if changed:
            _read_bound_streams(self)
        return changed

    def fail(self, error: Exception) -> None:
        """Mark the query as failed, with the reason, and publish an error event on its feed."""
        self.state, self.evaluator.budget.since = "failed", 0.0
        self.error, code = reason_of(error)
        document = {"at": self.timeline.instant, "error": self.error, "code": code}
        publish_error(self.feed, one_line(document))

    def cancel_evaluation(self, after_s: float) -> bool:
        """Cancel the running evaluation if it began at least ``after_s`` seconds ago; return True if so.

        Any thread may cancel the running evaluation.
        """
        budgets = [each.budget for each in (self.evaluator, self.group.plan_slot) if each is not None]
        if self.state == "failed" or not any(0 < each.since < time.monotonic() - after_s for each in budgets):
            return False
        for each in budgets:
            each.stop = f"an evaluation of {self.name} was cancelled: the query was paused or dropped"
        return True

    # --- the group of the query -----------------------------------------------------------------

    def enter_group(self, siblings: Collection[RunningQuery], timeline: QueryTimeline, inputs: Meter) -> None:
        """Let the query use the timeline and the input meter of a group from now on."""
        self.bring_up_to_date()
        self.group.enter(siblings, self.timeline.inputs, timeline.inputs)
        self.timeline, self.inputs = timeline, inputs

    def leave_group(self, timeline: QueryTimeline) -> None:
        """Let the query use a private timeline from now on."""
        self.group.leave()
        self.timeline = timeline
        self.inputs = self.inputs.copy()

    @property
    def evaluated_at(self) -> int | None:
        """The instant of the query's last evaluation; None before the first."""
        return None if self.last.step is None else self.last.step.at

    def set_answer(self, answer: ChangedAnswer) -> None:
        """Replace the object from which the feed writes the current answer, which has not changed."""
        self.feed.publish([], self.answer_writer(self.last.step, self.last.version, answer))

    def bring_up_to_date(self) -> None:
        """Apply the effects of the newest evaluation that were deferred, before the query's state is read."""
        if self.group.plan_slot is not None:
            self.group.plan_slot.bring_up_to_date()
        elif self.last.step is not None and not self.evaluator.budget.since:
            # A suspended evaluation is in an inconsistent state, so its deferred effects are not applied.
            self.evaluator.catch_up(self.last.step.at, self.timeline.windows.contents)

    def counts(self) -> tuple[int, int, int]:
        """Return how many elements the query took, how many were late, and how many behind other streams."""
        return self.group.counts(self.timeline.inputs)

    @property
    def plan_state(self) -> PlanState | None:
        """The state of the plan that updates the query's answer; None if the answer is recomputed."""
        return self.evaluator.state if self.group.plan_slot is None else self.group.plan_slot.state

    # --- evaluation -----------------------------------------------------------------------------

    def evaluate_now(self, at_ms: int, now_ms: int) -> None:
        """Evaluate the query after a commit, at its current instant or, without windows, at ``at_ms``.

        A query that is evaluated only at window closes or at an interval is not evaluated after a commit.
        """
        at = self.timeline.instant if self.prepared.query.windows else at_ms
        if at is None or at < self.timeline.quiet_until:
            return
        if self.prepared.on_commit and self.state == "running":
            self.timeline.windows.move_ends(at)
            self.evaluate(Evaluation(at, "tick"), now_ms, self.timeline.windows.contents)

    def evaluate(self, step: Evaluation, now_ms: int, windows: Windows) -> None:
        """Evaluate the query's windows at an instant, publish the result; raise BudgetError above a limit."""
        if self.failure.expected is not None:
            self.failure.check_at(self.last.evaluations, self.failure.at)
        if self.static.stale:
            self._refresh(now_ms, "trigger")
        evaluator = self.evaluator
        pause()
        evaluator.budget.since = time.monotonic()
        last = self.last.step
        if last is not None and (same := evaluator.replan_filters(last.at, windows)) is not None:
            self.set_answer(same)
        answer = evaluator.advance(step.at, windows)
        evaluator.budget.since = 0.0
        self.emit(step, answer, now_ms)

    def emit(self, step: Evaluation, answer: ChangedAnswer, now_ms: int) -> None:
        """Compute the events of the query's answer and publish them."""
        version = version_of(self)
        revised = self.last.answer_id if step.revises else None
        sources = self.prepared.sources
        marks = None if sources is None else sources.marks()
        moment = EvaluationInfo(
            step.at, version, step.window, revised, marks, step.skipped, self.is_replaying
        )
        events = self.emission.events(moment, answer)
        most, size = self.evaluator.budget.limits.bytes, 0
        for _, line in events:
            size += len(line)
        if 0 < most < size:
            raise_too_large(size, most)
        if self.view is not None:
            update_view(self.evaluator.construct, self.view, answer.deleted, answer.inserted, step.at)
        self.publish(step, version, events, answer, now_ms, step.at)
        if isinstance(self.emission, UntilGoneEmission):
            self.timeline.remind_at = self.emission.remind_at

    def publish(
        self,
        step: Evaluation,
        version: int,
        events: Sequence[Event],
        answer: ChangedAnswer,
        now_ms: int,
        event_at: int,
    ) -> None:
        """Publish the events of an evaluation, the last one at ``event_at``, and set the current answer."""
        self.static.unseen_from = None
        last = self.last
        last.step, last.version = step, version
        last.evaluations += 1
        ids = self.feed.publish(events, self.answer_writer(step, version, answer))
        if ids:
            last.answer_id = ids[-1]
            results = self.results
            if results.second != (second := now_ms // 1000):
                results.second = second
                results.marks.append((second, results.total))
            results.total += len(ids)
            last.result = {"id": ids[-1], "at": event_at, "version": version, "emitted": now_ms}
        elif not step.revises:
            last.answer_id = None

    def answer_writer(
        self, step: Evaluation | None, version: int, answer: ChangedAnswer, number: int = 0
    ) -> Callable[[], str | None]:
        """Return a function that serialises the current answer as of an evaluation.

        ``number`` is the evaluation's number in a shared plan, by default the last that the slot has seen.
        """
        slot = self.group.plan_slot
        # A shared plan does not notify this query of evaluations without rows for it, so the writer asks the
        # slot for newer evaluations.
        newer, number = (None, 0) if slot is None else (slot.visible_after, number or slot.seen)
        return CurrentAnswer(self.emission, self.prepared.sources, newer, number, step, version, answer)

    def emit_skipped(self, step: EmptyReportRun) -> None:
        """Publish a progress event for a run of empty reports, which no later event revises."""
        self.last.answer_id = None
        document = {"from": step.start, "to": step.end, "skipped": step.skipped}
        self.feed.publish([("progress", one_line(document))])


def version_of(running: RunningQuery) -> int:
    """Return the version of the store that an evaluation would read now."""
    static = running.static
    return static.version if static.statics is None else static.statics.steps.frontier.version


def is_silent(running: RunningQuery) -> bool:
    """Return True if another evaluation of a query over the same window contents would emit nothing."""
    prepared = running.prepared
    if running.state != "running" or not prepared.repeats:
        return True
    if prepared.depends_on_instant or not prepared.report.non_empty:
        return False
    if running.group.plan_slot is not None:
        running.group.plan_slot.bring_up_to_date()
    # With RSTREAM, a repeated evaluation of an empty answer emits nothing.
    return running.last.answer_id is None


def _read_bound_streams(running: RunningQuery) -> None:
    """Add the streams to which static data now binds a window's stream variable to the query's timeline."""
    for window in running.prepared.query.windows:
        for stream in running.timeline.windows.streams_of(window) or ():
            running.timeline.add_stream(stream)


def _evaluate_steps(running: RunningQuery, steps: Iterator[Step], now_ms: int) -> None:
    """Evaluate a query at each evaluation step of its timeline."""
    windows, memory = running.timeline.windows, running.prepared.registration.costs.memory
    for step in steps:
        if running.state == "paused":
            pause()
            continue
        if isinstance(step, EmptyReportRun):
            running.emit_skipped(step)
            continue
        if isinstance(step, UnchangedRun):
            running.last.evaluations += step.number
            continue
        if isinstance(step, Reminder):
            _remind(running, step.end, now_ms)
            continue
        windows.move_ends(step.at)
        running.evaluate(step, now_ms, windows.contents)
        # One push may contain many event times, so the memory limit is checked after each step.
        if memory is not None:
            check_size(running.name, memory, windows.size() + running.evaluator.inferred_triples)


def _remind(running: RunningQuery, at: int, now_ms: int) -> None:
    """Publish the rows of the last answer that ONCE PER … UNTIL GONE EVERY emits again at an instant."""
    emission, last, sources = running.emission, running.last, running.prepared.sources
    assert isinstance(emission, UntilGoneEmission) and emission.answer is not None and last.step
    marks = None if sources is None else sources.marks()
    moment = EvaluationInfo(at, last.version, None, None, marks, repeats=running.is_replaying)
    running.publish(last.step, last.version, emission.reminded(moment), emission.answer, now_ms, at)
    running.timeline.remind_at = emission.remind_at


def _evaluate_run(
    running: RunningQuery, transactions: Sequence[Transaction], now_ms: int
) -> tuple[int, Exception | None]:
    """Evaluate the first transactions in one run; return their number, and the next one's error."""
    version = version_of(running)
    run = running.evaluator.run(transactions, running.timeline, running.emission, version)
    if run is None:
        return 0, None
    result, answer = run
    if result.instants:
        cause: Cause = "elements" if result.entered else "time"
        last, output = tuple.__new__(Evaluation, (result.at, cause, None, False, False)), result.output
        running.last.evaluations += result.instants - 1
        running.publish(last, version, output.events, answer, now_ms, output.at)
        if not output.last:
            running.last.answer_id = None
    return result.done, result.error
